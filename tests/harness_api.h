/* For programs that read through ext/colfam.h: its functions, values and requests. */
#ifndef HARNESS_API_H
#define HARNESS_API_H

#include <string.h>

#include "ext/colfam.h"
#include "harness_sql.h"

const struct colfam_api *api_of(sqlite3 *connection);
/* t: k INT -> v TEXT, even keys 2..200, in a file; 'value 1' is of key 2. */
void api_make_numbers(sqlite3 *db);

static inline struct colfam_value integer(sqlite3_int64 value) {
  return (struct colfam_value){.type = SQLITE_INTEGER, .integer = value};
}
static inline struct colfam_value real(double value) {
  return (struct colfam_value){.type = SQLITE_FLOAT, .real = value};
}
static inline struct colfam_value bytes(int type, const void *data, size_t size) {
  return (struct colfam_value){.type = type, .bytes = data, .size = (sqlite3_int64)size};
}
static inline struct colfam_value text(const char *value) {
  return bytes(SQLITE_TEXT, value, strlen(value));
}
static inline struct colfam_value null(void) {
  return (struct colfam_value){.type = SQLITE_NULL};
}

static inline struct colfam_request request(const char *table, const struct colfam_value *values,
                                            int columns, int count) {
  return (struct colfam_request){table, {values, count, columns}};
}

#endif
