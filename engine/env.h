/* The only door to files, directories, random bytes, the clock and locks. Three implementations: POSIX
** (env_posix.c, the only file with system calls), memory (env_memory.c: `:memory:` databases and tests)
** and fault (env_fault.c: a wrapper whose nth call of a class fails).
** Thread rule: an environment may be used from any thread; one writer or reader object by one thread at a
** time, but kv_read_file objects by any number of threads. */
#ifndef KV_ENV_H
#define KV_ENV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "buf.h"
#include "status.h"

struct kv_env;
struct kv_write_file; /* being written, append only; not yet named by any manifest */
struct kv_read_file;  /* immutable, open for reading */
struct kv_file_lock;

/* One piece of a grouped read: `size` bytes at `offset` go to `into`. */
struct kv_range {
  uint64_t offset;
  size_t size;
  uint8_t *into;
};

/* Called for each name in a directory; a status other than KV_OK ends the walk and is returned. */
typedef kv_status (*kv_list_fn)(void *ctx, const char *name);

#define KV_NEW_SUFFIX ".new"

/* What an implementation provides. Paths are NUL-terminated, borrowed for the call. Names, numbers and
** the operating system's own text go into err. Statuses: KV_MISSING when the file or directory is not
** there, KV_FULL for no space, KV_BUSY for "exists already", KV_DENIED for what permissions or a read-only
** file system forbid, KV_IO for everything else, KV_NOMEM.
** What is created, opened, locked or removed lies in a real directory: one that is a symbolic link is
** KV_DENIED. (Whoever moves a database to another place links to the database file, or mounts.) */
struct kv_env_ops {
  /* Creates a file that must not exist (O_EXCL|O_NOFOLLOW|O_CLOEXEC, mode, and for root owner too, as
  ** `like_path`'s file when not NULL, else 0644) and takes its lock, which the handle keeps until it is
  ** closed or its process dies: as long as the fate of the file is open, its maker keeps the handle
  ** (invariant 5, Orphans). Under its name it is locked from the first: until then it is called
  ** <path>.new, which a process that dies there leaves behind. */
  kv_status (*create)(struct kv_env *env, const char *path, const char *like_path,
                      struct kv_write_file **file, struct kv_err *err);
  kv_status (*append)(struct kv_write_file *file, struct kv_slice bytes, struct kv_err *err);
  kv_status (*sync)(struct kv_write_file *file, struct kv_err *err);
  /* Closes and frees, and lets the lock go; never fails in a way that matters after a sync. The file
  ** stays. */
  void (*close_write)(struct kv_write_file *file);
  /* Regular files only, links are not followed; *size in bytes. */
  kv_status (*open)(struct kv_env *env, const char *path, struct kv_read_file **file,
                    uint64_t *size, struct kv_err *err);
  /* A hint: these ranges will be read soon, in pieces. Sorted, as in `read`; `into` is not looked at.
  ** Optional, never waits. */
  void (*expect)(struct kv_read_file *file, const struct kv_range *ranges, size_t n);
  /* Fills every range completely or fails (a short file is KV_CORRUPT). Ranges are sorted by offset and
  ** do not overlap: an implementation may merge. */
  kv_status (*read)(struct kv_read_file *file, const struct kv_range *ranges, size_t n,
                    struct kv_err *err);
  void (*close_read)(struct kv_read_file *file);
  /* Takes the lock of a file that somebody made: KV_BUSY while another handle has it, in this process or
  ** another, KV_MISSING when the file is gone, KV_IO when it cannot be told. Does not wait. */
  kv_status (*lock)(struct kv_env *env, const char *path, struct kv_file_lock **lock,
                    struct kv_err *err);
  void (*unlock)(struct kv_file_lock *lock);
  /* Whether the path names anything: a file, a directory, a link (which is not followed). Opens nothing. */
  kv_status (*exists)(struct kv_env *env, const char *path, bool *there, struct kv_err *err);
  /* Gives a file another name on the same file system, at once; KV_BUSY when that is taken. */
  kv_status (*rename)(struct kv_env *env, const char *from, const char *to, struct kv_err *err);
  kv_status (*remove)(struct kv_env *env, const char *path, struct kv_err *err);
  /* KV_OK too when it is there already and is a real directory (no link). Mode and owner from `like_path`'s
  ** file, as above, with search permission where it has read permission. */
  kv_status (*make_dir)(struct kv_env *env, const char *path, const char *like_path,
                        struct kv_err *err);
  /* KV_BUSY when it is not empty. */
  kv_status (*remove_dir)(struct kv_env *env, const char *path, struct kv_err *err);
  kv_status (*sync_dir)(struct kv_env *env, const char *path, struct kv_err *err);
  kv_status (*list_dir)(struct kv_env *env, const char *path, kv_list_fn fn, void *ctx,
                        struct kv_err *err);
  kv_status (*random)(struct kv_env *env, void *bytes, size_t size, struct kv_err *err);
  uint64_t (*now_us)(struct kv_env *env); /* monotonic */
  void (*free)(struct kv_env *env);
  void (*ref)(struct kv_env *env); /* NULL: lasts as long as its owner wants */
};
struct kv_env {
  const struct kv_env_ops *ops;
};

/* The process's POSIX environment; never freed. */
struct kv_env *kv_env_posix(void);
/* An empty file system in memory, owned by the caller until kv_env_free, and kept until the last reference
** goes. */
kv_status kv_env_memory_new(struct kv_env **env, struct kv_err *err);
void kv_env_free(struct kv_env *env); /* NULL and the POSIX one are allowed and do nothing */
/* A reference, of an environment that counts them; any other one outlives all that uses it. */
struct kv_env *kv_env_ref(struct kv_env *env);
void kv_env_unref(struct kv_env *env);

/* Thin calls through the table. */
kv_status kv_env_create(struct kv_env *env, const char *path, const char *like_path,
                        struct kv_write_file **file, struct kv_err *err);
kv_status kv_env_append(struct kv_env *env, struct kv_write_file *file, struct kv_slice bytes,
                        struct kv_err *err);
kv_status kv_env_sync(struct kv_env *env, struct kv_write_file *file, struct kv_err *err);
void kv_env_close_write(struct kv_env *env, struct kv_write_file *file);
kv_status kv_env_open(struct kv_env *env, const char *path, struct kv_read_file **file,
                      uint64_t *size, struct kv_err *err);
void kv_env_expect(struct kv_env *env, struct kv_read_file *file, const struct kv_range *ranges,
                   size_t n);
kv_status kv_env_read(struct kv_env *env, struct kv_read_file *file, const struct kv_range *ranges,
                      size_t n, struct kv_err *err);
void kv_env_close_read(struct kv_env *env, struct kv_read_file *file);
kv_status kv_env_lock(struct kv_env *env, const char *path, struct kv_file_lock **lock,
                      struct kv_err *err);
void kv_env_unlock(struct kv_env *env, struct kv_file_lock *lock);
kv_status kv_env_exists(struct kv_env *env, const char *path, bool *there, struct kv_err *err);
kv_status kv_env_rename(struct kv_env *env, const char *from, const char *to, struct kv_err *err);
kv_status kv_env_remove(struct kv_env *env, const char *path, struct kv_err *err);
kv_status kv_env_make_dir(struct kv_env *env, const char *path, const char *like_path,
                          struct kv_err *err);
kv_status kv_env_remove_dir(struct kv_env *env, const char *path, struct kv_err *err);
kv_status kv_env_sync_dir(struct kv_env *env, const char *path, struct kv_err *err);
kv_status kv_env_list_dir(struct kv_env *env, const char *path, kv_list_fn fn, void *ctx,
                          struct kv_err *err);
kv_status kv_env_random(struct kv_env *env, void *bytes, size_t size, struct kv_err *err);
uint64_t kv_env_now_us(struct kv_env *env);

/* The fault environment: wraps another one (borrowed). */
enum kv_fault_class {
  KV_FAULT_CREATE,
  KV_FAULT_APPEND,
  KV_FAULT_SYNC,
  KV_FAULT_OPEN,
  KV_FAULT_READ,
  KV_FAULT_REMOVE, /* files and directories */
  KV_FAULT_MAKE_DIR,
  KV_FAULT_SYNC_DIR,
  KV_FAULT_LIST_DIR,
  KV_FAULT_RANDOM,
  KV_FAULT_LOCK,
  KV_FAULT_EXISTS,
  KV_FAULT_RENAME,
  KV_FAULT_ANY,         /* counts every call of the classes above */
  KV_FAULT_SPACE,       /* those that take space: create, append, sync, make_dir, rename */
  KV_FAULT_DESCRIPTORS, /* those that take a descriptor: create, open, lock, sync_dir, list_dir */
  KV_FAULT_FLIP,        /* counts reads; what is set for it flips a bit, see below */
  KV_FAULT_CLASSES
};
kv_status kv_env_fault_new(struct kv_env *base, struct kv_env **env, struct kv_err *err);
/* The nth call of the class from now fails with `status` (1 = the next; 0 = none), and all later ones
** when sticky. A failing append writes the first half of its bytes (a short write), a failing read fills the
** first half of each range (a short read). With KV_FAULT_FLIP the read does not fail: one bit of what it
** gives is wrong, and `status` is ignored. */
void kv_env_fault_set(struct kv_env *env, enum kv_fault_class cls, uint64_t nth, bool sticky,
                      kv_status status);
/* Calls of the class since it was created, failed ones included. */
uint64_t kv_env_fault_calls(struct kv_env *env, enum kv_fault_class cls);
/* Files that are open for writing or reading, and locks that are held. */
int64_t kv_env_fault_handles(struct kv_env *env);

/* The descriptors that the process may have at a time, as it is now. */
uint64_t kv_descriptors_max(void);

/* Memory straight from the system: KV_REGION_BYTES, aligned to as many, zeroed; NULL when there is none. What
** is made huge is one page where the system will have it so, and all of it in memory at the first touch.
** Sanitizers have none: they are to see each block by itself. */
#define KV_REGION_BYTES ((size_t)2 << 20)
bool kv_has_regions(void);
void *kv_region_new(void);
void kv_region_make_huge(void *region);
/* The same for as much of any memory as consists of whole huge pages. */
void kv_memory_make_huge(void *memory, size_t size);
void kv_region_free(void *region);

/* Locks, so that nothing else in the engine knows pthreads. */
struct kv_mutex;
/* The process's one lock that needs no making, for a registry; never freed. */
struct kv_mutex *kv_mutex_process(void);
kv_status kv_mutex_new(struct kv_mutex **mutex, struct kv_err *err);
void kv_mutex_free(struct kv_mutex *mutex);
void kv_mutex_lock(struct kv_mutex *mutex);
void kv_mutex_unlock(struct kv_mutex *mutex);
/* Tries for a while before it sleeps: for what is held for less time than it takes to fall asleep. */
void kv_mutex_lock_adaptive(struct kv_mutex *mutex);

/* To wait, with the mutex held, until another thread says that something has changed. */
struct kv_cond;
kv_status kv_cond_new(struct kv_cond **cond, struct kv_err *err);
void kv_cond_free(struct kv_cond *cond);
void kv_cond_wait(struct kv_cond *cond, struct kv_mutex *mutex);
void kv_cond_broadcast(struct kv_cond *cond);
/* In a forked child, where those who waited are not: as new. */
void kv_cond_reset(struct kv_cond *cond);

/* A thread that gets no signals: those are the application's. The name, at most 15 bytes of static storage,
** is for people who look at the process. Join waits for its end and frees it. */
struct kv_thread;
kv_status kv_thread_start(const char *name, void (*run)(void *context), void *context,
                          struct kv_thread **thread, struct kv_err *err);
void kv_thread_join(struct kv_thread *thread);
/* One pointer a thread, for custom.c; NULL until set. `leave` is called with it when the thread ends and
** it is not NULL then. False when there is no room for it. */
void *kv_thread_value(void);
bool kv_thread_set_value(void *value, void (*leave)(void *value));
/* For all later forks of the process: called before it, and after it on either side. */
kv_status kv_at_fork(void (*before)(void), void (*in_parent)(void), void (*in_child)(void),
                     struct kv_err *err);

#endif
