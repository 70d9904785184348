/* A disk in memory that keeps a log of everything that changes it, for tests of power loss: the pager's
** files (the VFS "colfam-test", harness_disk_vfs.c) and the table files (an environment,
** harness_disk_env.c) are on it, so that one point of the log cuts both. What may be left after a crash is
** made by harness_power.h. One thread at a time: it may be that of a schedule (harness_steps.h), which
** changes at disk_called. One disk is mounted at a time; handles stay with the disk that they were opened
** on. */
#ifndef HARNESS_DISK_H
#define HARNESS_DISK_H

#include <sqlite3.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "env.h"

enum disk_op_kind {
  DISK_WRITE,
  DISK_TRUNCATE,
  DISK_SYNC,
  DISK_LINK, /* a new entry in a directory: of a file, or of a directory */
  DISK_UNLINK,
  DISK_SYNC_DIR,
  DISK_MARK /* what the test wants to know about this point */
};

struct disk_op {
  enum disk_op_kind kind;
  size_t file;     /* number of the file; of a mark: which */
  char *name;      /* of the entry, or of the directory that is synced */
  uint64_t offset; /* of a write; the size after a truncation; a mark's value */
  uint8_t *bytes;
  size_t size;
};

/* Content, shared until somebody writes. */
struct disk_image {
  int refs;
  size_t size;
  size_t capacity;
  uint8_t *bytes;
  uint64_t digest; /* of the bytes (harness_power.h); 0: not known */
};

enum { DISK_SHM_REGIONS = 16 };

/* SQLite's locks on a file (harness_disk_locks.c), and what one handle has of them. */
struct disk_holder {
  int level; /* SQLITE_LOCK_... */
  unsigned shm_shared;
};

/* Every open handle, so that those of a process can be taken from it. */
struct disk_handle {
  struct disk_handle *next;
  int process;
  void (*close)(struct disk_handle *handle);
};
struct disk_locks {
  int shared;                 /* handles that share or have more */
  struct disk_holder *writer; /* reserved or more */
  int shm_shared[SQLITE_SHM_NLOCK];
  struct disk_holder *shm_exclusive[SQLITE_SHM_NLOCK];
};

struct disk_file {
  int refs; /* its entries, its handles, the disk itself */
  size_t number;
  bool is_dir;
  bool locked; /* a table file, by its maker or a sweep */
  struct disk_image *image;
  struct disk_locks locks;
  int shm_users;
  uint8_t *shm[DISK_SHM_REGIONS]; /* of SQLite, in WAL mode; not logged, gone with its last user */
};

struct disk_entry {
  char *name; /* whole path below the mount point; the root is "" and always there */
  struct disk_file *file;
};

/* What was there when the log began. */
struct disk_base {
  char *name;
  size_t file;
  size_t origin; /* the file's number where this state was taken (harness_power.h) */
  bool is_dir;
  struct disk_image *image;
};

struct disk {
  int refs; /* whoever made it, and handles */
  struct disk_entry *entries;
  size_t entry_count;
  struct disk_file **files; /* by number */
  size_t file_count;
  struct disk_op *ops;
  size_t op_count;
  struct disk_base *base;
  size_t base_count;
  uint64_t random; /* state of what is random for those that use the disk: the same for every run */
};

struct disk *disk_new(uint64_t seed);
/* What is random from now on, SQLite's generator too. */
void disk_seed(struct disk *disk, uint64_t seed);
void disk_unref(struct disk *disk);

/* While a disk is put together: an entry that is durable and not logged. Takes no reference of the image. */
struct disk_base *disk_add_base(struct disk *disk, const char *name, bool is_dir,
                                struct disk_image *image);

/* Makes the VFS and the environment work on this disk, below a mount point that no other had (a process
** knows its databases by path). The path of a name on it: good until the next call. */
void disk_mount(struct disk *disk);
const char *disk_path(const char *name);

void disk_mark(struct disk *disk, size_t which, uint64_t value);

/* By name; NULL when it is not there. */
struct disk_file *disk_find(const struct disk *disk, const char *name);
bool disk_has_dir(const struct disk *disk, const char *name);

/* What follows is logged. create: the name must be free. */
struct disk_file *disk_create(struct disk *disk, const char *name, bool is_dir);
void disk_remove(struct disk *disk, const char *name);
void disk_rename(struct disk *disk, const char *from, const char *to);
void disk_write(struct disk *disk, struct disk_file *file, uint64_t offset, const void *bytes,
                size_t size);
void disk_truncate(struct disk *disk, struct disk_file *file, uint64_t size);
void disk_sync(struct disk *disk, const struct disk_file *file);
void disk_sync_dir(struct disk *disk, const char *name);
/* A file that is on no disk and not logged: what SQLite calls temporary. */
struct disk_file *disk_file_loose(void);
void disk_file_unref(struct disk_file *file);

/* Images. write and resize copy what is shared; gaps are zero. */
struct disk_image *disk_image_new(void);
struct disk_image *disk_image_ref(struct disk_image *image);
void disk_image_unref(struct disk_image *image);
void disk_image_write(struct disk_image **image, uint64_t offset, const void *bytes, size_t size);
void disk_image_resize(struct disk_image **image, uint64_t size);

/* Whether it was granted; without waiting. A refused SQLITE_LOCK_EXCLUSIVE leaves SQLITE_LOCK_PENDING. */
bool disk_lock(struct disk_locks *locks, struct disk_holder *holder, int level);
void disk_unlock(struct disk_locks *locks, struct disk_holder *holder, int level);
bool disk_shm_lock(struct disk_locks *locks, struct disk_holder *holder, int first, int count,
                   bool alone);
void disk_shm_unlock(struct disk_locks *locks, struct disk_holder *holder, int first, int count);

/* `hook` runs at the beginning of each call of VFS and environment from now on, and `sleeps` says that it
** is SQLite that waits for others; NULL: none. */
void disk_on_call(void (*hook)(bool sleeps));

/* Handles opened from now on belong to this process (0 at first); and one that dies: its locks are free,
** what it has written stays, its handles are never used again. */
void disk_set_process(int process);
void disk_kill(int process);

/* For the VFS and the environment. */
void disk_add_handle(struct disk_handle *handle, void (*close)(struct disk_handle *handle));
void disk_drop_handle(struct disk_handle *handle);
void disk_called(void);
void disk_sleeps(void);
struct disk *disk_mounted(void);
/* What stands behind the mount point in a path. */
const char *disk_name(const char *path);
void disk_random(struct disk *disk, void *bytes, size_t size);
/* The directory that an entry lies in, as long as it is in `buffer`, which holds the name. */
const char *disk_parent(const char *name, char *buffer, size_t size);
/* $COLFAM_MUTANT, as it was at the first call, switches a rule off, to see that the tests find it. */
bool disk_is_mutant(const char *rule);

/* Registers the VFS "colfam-test" once, as the default. */
void disk_register_vfs(void);
struct kv_env *disk_env(void);

#endif
