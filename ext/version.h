/* The version, as colfam_version() gives it: MAJOR.MINOR.PATCH. */
#ifndef COLFAM_VERSION_H
#define COLFAM_VERSION_H

#define COLFAM_VERSION "0.1.0"

#endif
