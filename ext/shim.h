/* The door for the power loss tests, whose disk is a VFS of SQLite and an environment over one log of
** operations. Nothing at all in production builds. */
#ifndef COLFAM_SHIM_H
#define COLFAM_SHIM_H

#include "engine/kv.h"
#include "sqlite_api.h"

#ifdef COLFAM_TEST
/* The environment that goes with the VFS of this name: pAppData of "colfam-test"; NULL for all others. */
struct kv_env *colfam_shim_env(const char *vfs);
/* The VFS that copies of databases are made with: "colfam-test" when there is one, else "unix". */
const char *colfam_shim_copy_vfs(void);
#else
static inline struct kv_env *colfam_shim_env(const char *vfs) {
  (void)vfs;
  return NULL;
}
static inline const char *colfam_shim_copy_vfs(void) {
  return "unix";
}
#endif

#endif
