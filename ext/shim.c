/* See shim.h. */
#include "shim.h"

#ifdef COLFAM_TEST
#include <string.h>

struct kv_env *colfam_shim_env(const char *vfs) {
  sqlite3_vfs *found = strcmp(vfs, "colfam-test") == 0 ? sqlite3_vfs_find(vfs) : NULL;
  return found ? found->pAppData : NULL;
}

const char *colfam_shim_copy_vfs(void) {
  return sqlite3_vfs_find("colfam-test") ? "colfam-test" : "unix";
}
#else
/* A translation unit needs a declaration. */
typedef int colfam_shim_unused;
#endif
