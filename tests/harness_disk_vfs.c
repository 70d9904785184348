/* The VFS "colfam-test" over the disk in memory (harness_disk.h). It tells SQLite what the unix VFS does:
** writes do not touch bytes beside their own, nothing else is promised; a journal's directory is synced
** with the journal's first sync. Locks are those of harness_disk_locks.c, shared memory is heap. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "harness_disk.h"

enum { SECTOR_BYTES = 512, NAME_MAX_BYTES = 256 };

struct vfs_file {
  sqlite3_file base;
  struct disk_handle handle;
  struct disk *disk; /* NULL: a temporary file, not logged */
  struct disk_file *file;
  char *name;
  bool syncs_dir; /* with the next sync */
  bool deletes;   /* on close */
  bool uses_shm;
  struct disk_holder holder;
};

static struct vfs_file *of_handle(struct disk_handle *handle) {
  return (struct vfs_file *)((char *)handle - offsetof(struct vfs_file, handle));
}

static struct vfs_file *of(sqlite3_file *file) {
  return (struct vfs_file *)file;
}

static void leave_shm(struct vfs_file *file) {
  struct disk_file *shared = file->file;
  if (!file->uses_shm) return;
  file->uses_shm = false;
  disk_shm_unlock(&shared->locks, &file->holder, 0, SQLITE_SHM_NLOCK);
  if (--shared->shm_users) return;
  for (int i = 0; i < DISK_SHM_REGIONS; i++) {
    free(shared->shm[i]);
    shared->shm[i] = NULL;
  }
}

static void release(struct disk_handle *handle) {
  struct vfs_file *file = of_handle(handle);
  leave_shm(file);
  disk_unlock(&file->file->locks, &file->holder, SQLITE_LOCK_NONE);
  disk_drop_handle(handle);
  disk_file_unref(file->file);
  disk_unref(file->disk);
  free(file->name);
}

static int file_close(sqlite3_file *base) {
  struct vfs_file *file = of(base);
  disk_called();
  if (file->deletes && file->disk && disk_find(file->disk, file->name))
    disk_remove(file->disk, file->name);
  release(&file->handle);
  return SQLITE_OK;
}

static int file_read(sqlite3_file *base, void *into, int size, sqlite3_int64 offset) {
  disk_called();
  const struct disk_image *image = of(base)->file->image;
  size_t there = (uint64_t)offset < image->size ? image->size - (size_t)offset : 0;
  if (there >= (size_t)size) {
    memcpy(into, image->bytes + offset, (size_t)size);
    return SQLITE_OK;
  }
  memset(into, 0, (size_t)size);
  if (there) memcpy(into, image->bytes + offset, there);
  return SQLITE_IOERR_SHORT_READ;
}

static int file_write(sqlite3_file *base, const void *bytes, int size, sqlite3_int64 offset) {
  disk_called();
  disk_write(of(base)->disk, of(base)->file, (uint64_t)offset, bytes, (size_t)size);
  return SQLITE_OK;
}

static int file_truncate(sqlite3_file *base, sqlite3_int64 size) {
  disk_called();
  disk_truncate(of(base)->disk, of(base)->file, (uint64_t)size);
  return SQLITE_OK;
}

/* SQLite's own syncs, to be switched off by what is synced. */
static const char *sync_rule(const struct vfs_file *file) {
  static const char *const rules[][2] = {{"-journal", "host-journal"},
                                         {"-wal", "host-wal"},
                                         {"-partial", "copy-sync-database"},
                                         {"-mj", "host-super"}};
  for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
    if (strstr(file->name, rules[i][0])) return rules[i][1];
  return "host-database";
}

static int file_sync(sqlite3_file *base, int flags) {
  disk_called();
  (void)flags;
  struct vfs_file *file = of(base);
  if (!file->disk || disk_is_mutant(sync_rule(file))) return SQLITE_OK;
  disk_sync(file->disk, file->file);
  char parent[NAME_MAX_BYTES];
  if (file->syncs_dir && !disk_is_mutant("host-entry"))
    disk_sync_dir(file->disk, disk_parent(file->name, parent, sizeof parent));
  file->syncs_dir = false;
  return SQLITE_OK;
}

static int file_size(sqlite3_file *base, sqlite3_int64 *size) {
  disk_called();
  *size = (sqlite3_int64)of(base)->file->image->size;
  return SQLITE_OK;
}

static int file_lock(sqlite3_file *base, int level) {
  disk_called();
  return disk_lock(&of(base)->file->locks, &of(base)->holder, level) ? SQLITE_OK : SQLITE_BUSY;
}

static int file_unlock(sqlite3_file *base, int level) {
  disk_called();
  disk_unlock(&of(base)->file->locks, &of(base)->holder, level);
  return SQLITE_OK;
}

static int file_is_reserved(sqlite3_file *base, int *reserved) {
  disk_called();
  *reserved = of(base)->file->locks.writer != NULL;
  return SQLITE_OK;
}

static int file_control(sqlite3_file *base, int op, void *argument) {
  (void)base;
  if (op != SQLITE_FCNTL_VFSNAME) return SQLITE_NOTFOUND;
  *(char **)argument = sqlite3_mprintf("colfam-test");
  return SQLITE_OK;
}

static int file_sector_size(sqlite3_file *base) {
  (void)base;
  return SECTOR_BYTES;
}

static int file_characteristics(sqlite3_file *base) {
  (void)base;
  return SQLITE_IOCAP_POWERSAFE_OVERWRITE;
}

static int shm_map(sqlite3_file *base, int region, int size, int extend, void volatile **memory) {
  struct disk_file *file = of(base)->file;
  disk_called();
  *memory = NULL;
  if (region >= DISK_SHM_REGIONS) return SQLITE_FULL;
  if (!of(base)->uses_shm) file->shm_users++;
  of(base)->uses_shm = true;
  if (!file->shm[region] && extend) file->shm[region] = calloc(1, (size_t)size);
  *memory = file->shm[region];
  return *memory || !extend ? SQLITE_OK : SQLITE_NOMEM;
}

static int shm_lock(sqlite3_file *base, int first, int count, int flags) {
  struct disk_locks *locks = &of(base)->file->locks;
  disk_called();
  if (flags & SQLITE_SHM_UNLOCK) {
    disk_shm_unlock(locks, &of(base)->holder, first, count);
    return SQLITE_OK;
  }
  bool granted =
      disk_shm_lock(locks, &of(base)->holder, first, count, flags & SQLITE_SHM_EXCLUSIVE);
  return granted ? SQLITE_OK : SQLITE_BUSY;
}

static void shm_barrier(sqlite3_file *base) {
  (void)base;
  disk_called();
}

static int shm_unmap(sqlite3_file *base, int deletes) {
  (void)deletes;
  disk_called();
  leave_shm(of(base));
  return SQLITE_OK;
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
    .xCheckReservedLock = file_is_reserved,
    .xFileControl = file_control,
    .xSectorSize = file_sector_size,
    .xDeviceCharacteristics = file_characteristics,
    .xShmMap = shm_map,
    .xShmLock = shm_lock,
    .xShmBarrier = shm_barrier,
    .xShmUnmap = shm_unmap,
};

static int open_loose(struct vfs_file *file) {
  file->file = disk_file_loose();
  disk_add_handle(&file->handle, release);
  file->base.pMethods = &methods;
  return SQLITE_OK;
}

static int vfs_open(sqlite3_vfs *vfs, const char *path, sqlite3_file *base, int flags,
                    int *out_flags) {
  (void)vfs;
  struct vfs_file *file = of(base);
  disk_called();
  memset(file, 0, sizeof *file);
  if (out_flags) *out_flags = flags;
  if (!path) return open_loose(file);
  struct disk *disk = disk_mounted();
  const char *name = disk_name(path);
  struct disk_file *found = disk_find(disk, name);
  if (found && found->is_dir) return SQLITE_CANTOPEN;
  if (!found && !(flags & SQLITE_OPEN_CREATE)) return SQLITE_CANTOPEN;
  int journals = SQLITE_OPEN_MAIN_JOURNAL | SQLITE_OPEN_WAL | SQLITE_OPEN_SUPER_JOURNAL;
  file->syncs_dir = (flags & SQLITE_OPEN_CREATE) && (flags & journals); /* whoever has made it */
  file->deletes = (flags & SQLITE_OPEN_DELETEONCLOSE) != 0;
  file->name = strdup(name);
  if (!file->name) return SQLITE_NOMEM;
  file->file = found ? found : disk_create(disk, name, false);
  file->file->refs++;
  file->disk = disk;
  disk->refs++;
  disk_add_handle(&file->handle, release);
  file->base.pMethods = &methods;
  return SQLITE_OK;
}

static int vfs_delete(sqlite3_vfs *vfs, const char *path, int sync_dir) {
  (void)vfs;
  disk_called();
  const char *name = disk_name(path);
  if (!disk_find(disk_mounted(), name)) return SQLITE_IOERR_DELETE_NOENT;
  disk_remove(disk_mounted(), name);
  char parent[NAME_MAX_BYTES];
  if (sync_dir && !disk_is_mutant("host-removal"))
    disk_sync_dir(disk_mounted(), disk_parent(name, parent, sizeof parent));
  return SQLITE_OK;
}

/* An empty file is none to SQLite's unix VFS when it looks for a journal. */
static int vfs_access(sqlite3_vfs *vfs, const char *path, int flags, int *there) {
  (void)vfs;
  disk_called();
  const struct disk_file *file = disk_find(disk_mounted(), disk_name(path));
  *there = file && (flags != SQLITE_ACCESS_EXISTS || file->is_dir || file->image->size);
  return SQLITE_OK;
}

static int vfs_full_path(sqlite3_vfs *vfs, const char *path, int size, char *full) {
  (void)vfs;
  sqlite3_snprintf(size, full, "%s", path);
  return SQLITE_OK;
}

static int vfs_randomness(sqlite3_vfs *vfs, int size, char *bytes) {
  (void)vfs;
  memset(bytes, 0, (size_t)size);
  if (disk_mounted()) disk_random(disk_mounted(), bytes, (size_t)size);
  return size;
}

static int vfs_sleep(sqlite3_vfs *vfs, int microseconds) {
  (void)vfs;
  disk_sleeps();
  return microseconds;
}

static int vfs_time(sqlite3_vfs *vfs, double *days) {
  (void)vfs;
  *days = 2460000.5;
  return SQLITE_OK;
}

static int vfs_last_error(sqlite3_vfs *vfs, int size, char *text) {
  (void)vfs, (void)size, (void)text;
  return 0;
}

/* The libraries of extensions are on the real disk. */
static sqlite3_vfs *real_vfs;

static void *vfs_dl_open(sqlite3_vfs *vfs, const char *path) {
  (void)vfs;
  return real_vfs->xDlOpen(real_vfs, path);
}

static void vfs_dl_error(sqlite3_vfs *vfs, int size, char *text) {
  (void)vfs;
  real_vfs->xDlError(real_vfs, size, text);
}

static void (*vfs_dl_sym(sqlite3_vfs *vfs, void *library, const char *name))(void) {
  (void)vfs;
  return real_vfs->xDlSym(real_vfs, library, name);
}

static void vfs_dl_close(sqlite3_vfs *vfs, void *library) {
  (void)vfs;
  real_vfs->xDlClose(real_vfs, library);
}

void disk_register_vfs(void) {
  static sqlite3_vfs vfs = {
      .iVersion = 1,
      .szOsFile = sizeof(struct vfs_file),
      .mxPathname = NAME_MAX_BYTES - 1,
      .zName = "colfam-test",
      .xOpen = vfs_open,
      .xDelete = vfs_delete,
      .xAccess = vfs_access,
      .xFullPathname = vfs_full_path,
      .xDlOpen = vfs_dl_open,
      .xDlError = vfs_dl_error,
      .xDlSym = vfs_dl_sym,
      .xDlClose = vfs_dl_close,
      .xRandomness = vfs_randomness,
      .xSleep = vfs_sleep,
      .xCurrentTime = vfs_time,
      .xGetLastError = vfs_last_error,
  };
  if (vfs.pAppData) return;
  real_vfs = sqlite3_vfs_find(NULL);
  vfs.pAppData = disk_env();
  sqlite3_vfs_register(&vfs, 1);
}
