/* See harness_faults.h. */
#include "harness_faults.h"

#include <stdlib.h>
#include <string.h>

#include "engine/env.h"
#include "harness_disk.h"
#include "harness_oom.h"

/* ---- What is to fail in the pager */

static enum fault_kind armed = FAULT_KINDS; /* none */
static int countdown;
static bool stays, struck;
static uint64_t operations, files_before, armed_calls;
static int64_t open_files;
static struct kv_env *env;

enum op { OP_OPEN, OP_DELETE, OP_READ, OP_WRITE, OP_TRUNCATE, OP_SYNC, OP_OTHER };

static bool applies(enum op op) {
  switch (armed) {
    case FAULT_PAGER_IO:
      return true;
    case FAULT_PAGER_LATE:
      return op == OP_DELETE || op == OP_WRITE || op == OP_TRUNCATE || op == OP_SYNC;
    case FAULT_PAGER_FULL:
      return op == OP_WRITE;
    case FAULT_PAGER_OPEN:
      return op == OP_OPEN;
    default:
      return false;
  }
}

/* Counts one operation; true when it is to fail. */
static bool fails(enum op op) {
  operations++;
  if (!applies(op) || !countdown || --countdown) return false;
  if (stays) countdown = 1;
  struck = true;
  return true;
}

static bool is_late(void) {
  return armed == FAULT_PAGER_LATE;
}

/* ---- The VFS: files of the one below lie behind ours */

struct file {
  sqlite3_file base;
};

static sqlite3_vfs *below;

static sqlite3_file *real_of(sqlite3_file *file) {
  return (sqlite3_file *)((struct file *)file + 1);
}

static int file_close(sqlite3_file *file) {
  open_files--;
  return real_of(file)->pMethods->xClose(real_of(file));
}

static int file_read(sqlite3_file *file, void *into, int count, sqlite3_int64 at) {
  if (fails(OP_READ)) return SQLITE_IOERR_READ;
  return real_of(file)->pMethods->xRead(real_of(file), into, count, at);
}

static int file_write(sqlite3_file *file, const void *from, int count, sqlite3_int64 at) {
  bool bad = fails(OP_WRITE);
  if (bad && !is_late()) count /= 2;
  int rc = real_of(file)->pMethods->xWrite(real_of(file), from, count, at);
  if (bad) rc = armed == FAULT_PAGER_FULL ? SQLITE_FULL : SQLITE_IOERR_WRITE;
  return rc;
}

static int file_truncate(sqlite3_file *file, sqlite3_int64 size) {
  bool bad = fails(OP_TRUNCATE);
  int rc = SQLITE_OK;
  if (!bad || is_late()) rc = real_of(file)->pMethods->xTruncate(real_of(file), size);
  return bad ? SQLITE_IOERR_TRUNCATE : rc;
}

static int file_sync(sqlite3_file *file, int flags) {
  bool bad = fails(OP_SYNC);
  int rc = SQLITE_OK;
  if (!bad || is_late()) rc = real_of(file)->pMethods->xSync(real_of(file), flags);
  return bad ? SQLITE_IOERR_FSYNC : rc;
}

static int file_size(sqlite3_file *file, sqlite3_int64 *size) {
  if (fails(OP_OTHER)) return SQLITE_IOERR_FSTAT;
  return real_of(file)->pMethods->xFileSize(real_of(file), size);
}

static int file_lock(sqlite3_file *file, int level) {
  if (fails(OP_OTHER)) return SQLITE_IOERR_LOCK;
  return real_of(file)->pMethods->xLock(real_of(file), level);
}

static int file_unlock(sqlite3_file *file, int level) {
  return real_of(file)->pMethods->xUnlock(real_of(file), level);
}

static int file_reserved(sqlite3_file *file, int *held) {
  if (fails(OP_OTHER)) return SQLITE_IOERR_CHECKRESERVEDLOCK;
  return real_of(file)->pMethods->xCheckReservedLock(real_of(file), held);
}

static int file_control(sqlite3_file *file, int op, void *argument) {
  return real_of(file)->pMethods->xFileControl(real_of(file), op, argument);
}

static int file_sector(sqlite3_file *file) {
  return real_of(file)->pMethods->xSectorSize(real_of(file));
}

static int file_traits(sqlite3_file *file) {
  return real_of(file)->pMethods->xDeviceCharacteristics(real_of(file));
}

static int shm_map(sqlite3_file *file, int page, int size, int extend, void volatile **out) {
  if (fails(OP_OTHER)) return SQLITE_IOERR_SHMMAP;
  return real_of(file)->pMethods->xShmMap(real_of(file), page, size, extend, out);
}

static int shm_lock(sqlite3_file *file, int offset, int n, int flags) {
  if (!(flags & SQLITE_SHM_UNLOCK) && fails(OP_OTHER)) return SQLITE_IOERR_SHMLOCK;
  return real_of(file)->pMethods->xShmLock(real_of(file), offset, n, flags);
}

static void shm_barrier(sqlite3_file *file) {
  real_of(file)->pMethods->xShmBarrier(real_of(file));
}

static int shm_unmap(sqlite3_file *file, int remove) {
  return real_of(file)->pMethods->xShmUnmap(real_of(file), remove);
}

static const sqlite3_io_methods methods = {
    .iVersion = 2,
    .xClose = file_close,
    .xRead = file_read,
    .xWrite = file_write,
    .xTruncate = file_truncate,
    .xSync = file_sync,
    .xFileSize = file_size,
    .xLock = file_lock,
    .xUnlock = file_unlock,
    .xCheckReservedLock = file_reserved,
    .xFileControl = file_control,
    .xSectorSize = file_sector,
    .xDeviceCharacteristics = file_traits,
    .xShmMap = shm_map,
    .xShmLock = shm_lock,
    .xShmBarrier = shm_barrier,
    .xShmUnmap = shm_unmap,
};

static int vfs_open(sqlite3_vfs *vfs, const char *name, sqlite3_file *file, int flags,
                    int *out_flags) {
  (void)vfs;
  file->pMethods = NULL;
  if (fails(OP_OPEN)) return SQLITE_CANTOPEN;
  int rc = below->xOpen(below, name, real_of(file), flags, out_flags);
  if (!real_of(file)->pMethods) return rc;
  file->pMethods = &methods;
  open_files++;
  return rc;
}

static int vfs_delete(sqlite3_vfs *vfs, const char *name, int sync_dir) {
  (void)vfs;
  bool bad = fails(OP_DELETE);
  int rc = SQLITE_OK;
  if (!bad || is_late()) rc = below->xDelete(below, name, sync_dir);
  if (bad && is_late()) return SQLITE_IOERR_DIR_FSYNC;
  return bad ? SQLITE_IOERR_DELETE : rc;
}

static int vfs_access(sqlite3_vfs *vfs, const char *name, int flags, int *there) {
  (void)vfs;
  if (fails(OP_OTHER)) return SQLITE_IOERR_ACCESS;
  return below->xAccess(below, name, flags, there);
}

static void register_vfs(void) {
  static sqlite3_vfs failing;
  disk_register_vfs();
  below = sqlite3_vfs_find("colfam-test");
  failing = *below;
  failing.pNext = NULL;
  failing.szOsFile = (int)sizeof(struct file) + below->szOsFile;
  failing.pAppData = env;
  failing.xOpen = vfs_open;
  failing.xDelete = vfs_delete;
  failing.xAccess = vfs_access;
  if (sqlite3_vfs_register(&failing, 1)) abort();
}

/* ---- All of it */

static const struct {
  const char *name;
  enum kv_fault_class cls; /* of the environment */
  kv_status status;
} kinds[FAULT_KINDS] = {
    [FAULT_SQLITE_MEMORY] = {"SQLite's memory", KV_FAULT_ANY, KV_OK},
    [FAULT_ENGINE_MEMORY] = {"the engine's memory", KV_FAULT_ANY, KV_OK},
    [FAULT_PAGER_IO] = {"pager, EIO", KV_FAULT_ANY, KV_OK},
    [FAULT_PAGER_LATE] = {"pager, EIO when done", KV_FAULT_ANY, KV_OK},
    [FAULT_PAGER_FULL] = {"pager, ENOSPC", KV_FAULT_ANY, KV_OK},
    [FAULT_PAGER_OPEN] = {"pager, EMFILE", KV_FAULT_ANY, KV_OK},
    [FAULT_FILES_IO] = {"table files, EIO", KV_FAULT_ANY, KV_IO},
    [FAULT_FILES_FULL] = {"table files, ENOSPC", KV_FAULT_SPACE, KV_FULL},
    [FAULT_FILES_OPEN] = {"table files, EMFILE", KV_FAULT_DESCRIPTORS, KV_IO},
    [FAULT_FILES_SHORT] = {"table files, short read", KV_FAULT_READ, KV_CORRUPT},
    [FAULT_FILES_FLIP] = {"table files, flipped bit", KV_FAULT_FLIP, KV_CORRUPT},
};

const char *fault_name(enum fault_kind kind) {
  return kinds[kind].name;
}

static void keep(struct kv_env *kept) {
  (void)kept;
}

/* Stores free their environment when they close: this one is shared by all. */
static void make_env(void) {
  static struct kv_env_ops ops;
  if (kv_env_fault_new(disk_env(), &env, NULL) != KV_OK) abort();
  ops = *env->ops;
  ops.free = keep;
  env->ops = &ops;
}

void faults_install(void) {
  oom_install();
  make_env();
  register_vfs();
}

void faults_arm(enum fault_kind kind, int n, bool sticky) {
  armed = kind;
  stays = sticky;
  struck = false;
  countdown = 0;
  if (kind <= FAULT_ENGINE_MEMORY) {
    oom_fail_nth(kind == FAULT_SQLITE_MEMORY ? OOM_SQLITE : OOM_ENGINE, n, sticky);
  } else if (kind <= FAULT_PAGER_OPEN) {
    countdown = n;
  } else if (kind < FAULT_KINDS) {
    kv_env_fault_set(env, kinds[kind].cls, (uint64_t)n, sticky, kinds[kind].status);
    armed_calls = kv_env_fault_calls(env, kinds[kind].cls) + (uint64_t)n;
  }
}

bool faults_disarm(void) {
  enum fault_kind kind = armed;
  armed = FAULT_KINDS;
  if (kind == FAULT_KINDS) return false;
  if (kind <= FAULT_ENGINE_MEMORY)
    return oom_stop(kind == FAULT_SQLITE_MEMORY ? OOM_SQLITE : OOM_ENGINE);
  if (kind <= FAULT_PAGER_OPEN) return struck;
  kv_env_fault_set(env, kinds[kind].cls, 0, false, KV_OK);
  return kv_env_fault_calls(env, kinds[kind].cls) >= armed_calls;
}

uint64_t faults_operations(void) {
  uint64_t files = kv_env_fault_calls(env, KV_FAULT_ANY);
  uint64_t count = operations + files - files_before;
  operations = 0;
  files_before = files;
  return count;
}

uint64_t faults_allocations(void) {
  return oom_count();
}

int64_t faults_open_handles(void) {
  return open_files + kv_env_fault_handles(env);
}
