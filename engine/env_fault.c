/* An environment whose nth call of a class fails, for tests of every failure path.
**
** Each call is counted in its class and in the groups that have it (KV_FAULT_ANY has all), before it is
** passed on; the call fails when one of the counts has reached its mark. A call that fails does nothing,
** except an append, which leaves half of its bytes, a file with a torn end, and a read, which fills half of
** each range. Closing and the clock never fail and are not counted. Counts are atomic: any thread. Marks are
** set while no call is under way, or a call may miss them. */
#include "env.h"

#include "mem.h"

struct fault {
  uint64_t calls;
  uint64_t fail_call; /* the count that fails; 0 = none */
  bool sticky;        /* and every later one */
  kv_status status;
};

struct fault_env {
  struct kv_env base;
  struct kv_env *below;
  int64_t handles;
  struct fault faults[KV_FAULT_CLASSES];
};

struct fault_writer {
  struct fault_env *env;
  struct kv_write_file *below;
};

struct fault_reader {
  struct fault_env *env;
  struct kv_read_file *below;
};

struct fault_lock {
  struct fault_env *env;
  struct kv_file_lock *below;
};

static struct fault_env *fault_of(struct kv_env *env) {
  return (struct fault_env *)env;
}

static struct fault_writer *writer_of(struct kv_write_file *file) {
  return (struct fault_writer *)file;
}

static struct fault_reader *reader_of(struct kv_read_file *file) {
  return (struct fault_reader *)file;
}

static kv_status count(struct fault *fault) {
  uint64_t call = __atomic_add_fetch(&fault->calls, 1, __ATOMIC_RELAXED);
  uint64_t mark = __atomic_load_n(&fault->fail_call, __ATOMIC_ACQUIRE);
  if (!mark || call < mark || (call > mark && !fault->sticky)) return KV_OK;
  return fault->status;
}

struct class_facts {
  const char *name;
  bool takes_space, takes_descriptor;
};

static const struct class_facts *facts_of(enum kv_fault_class cls) {
  static const struct class_facts facts[] = {
      [KV_FAULT_CREATE] = {"create", true, true},
      [KV_FAULT_APPEND] = {"append", true, false},
      [KV_FAULT_SYNC] = {"sync", true, false},
      [KV_FAULT_OPEN] = {"open", false, true},
      [KV_FAULT_READ] = {"read", false, false},
      [KV_FAULT_REMOVE] = {"remove", false, false},
      [KV_FAULT_MAKE_DIR] = {"make_dir", true, false},
      [KV_FAULT_SYNC_DIR] = {"sync_dir", false, true},
      [KV_FAULT_LIST_DIR] = {"list_dir", false, true},
      [KV_FAULT_RANDOM] = {"random", false, false},
      [KV_FAULT_LOCK] = {"lock", false, true},
      [KV_FAULT_EXISTS] = {"exists", false, false},
      [KV_FAULT_RENAME] = {"rename", true, false},
  };
  return &facts[cls];
}

/* Counts the call; a status other than KV_OK is the one to fail with. */
static kv_status enter(struct fault_env *env, enum kv_fault_class cls, struct kv_err *err) {
  const struct class_facts *facts = facts_of(cls);
  kv_status status = count(&env->faults[cls]);
  kv_status any = count(&env->faults[KV_FAULT_ANY]);
  if (status == KV_OK) status = any;
  if (facts->takes_space) any = count(&env->faults[KV_FAULT_SPACE]);
  if (status == KV_OK) status = any;
  if (facts->takes_descriptor) any = count(&env->faults[KV_FAULT_DESCRIPTORS]);
  if (status == KV_OK) status = any;
  return status == KV_OK ? KV_OK : kv_fail(err, status, "injected failure of %s", facts->name);
}

static void add_handle(struct fault_env *env, int64_t more) {
  __atomic_add_fetch(&env->handles, more, __ATOMIC_RELAXED);
}

static kv_status fault_create(struct kv_env *base, const char *path, const char *like_path,
                              struct kv_write_file **file, struct kv_err *err) {
  struct fault_env *env = fault_of(base);
  kv_status status = enter(env, KV_FAULT_CREATE, err);
  if (status != KV_OK) return status;
  struct fault_writer *writer = kv_alloc_zero(1, sizeof *writer);
  if (!writer) return kv_fail_nomem(err);
  writer->env = env;
  status = kv_env_create(env->below, path, like_path, &writer->below, err);
  if (status == KV_OK) {
    add_handle(env, 1);
    *file = (struct kv_write_file *)writer;
  } else {
    kv_free(writer);
  }
  return status;
}

static kv_status fault_append(struct kv_write_file *file, struct kv_slice bytes,
                              struct kv_err *err) {
  struct fault_writer *writer = writer_of(file);
  struct kv_env *below = writer->env->below;
  kv_status injected = enter(writer->env, KV_FAULT_APPEND, err);
  if (injected == KV_OK) return kv_env_append(below, writer->below, bytes, err);
  /* The caller learns of one failure; whether half or less was written is the same to it. */
  kv_status half =
      kv_env_append(below, writer->below, kv_slice_of(bytes.data, bytes.size / 2), NULL);
  (void)half;
  return injected;
}

static kv_status fault_sync(struct kv_write_file *file, struct kv_err *err) {
  struct fault_writer *writer = writer_of(file);
  kv_status status = enter(writer->env, KV_FAULT_SYNC, err);
  return status == KV_OK ? kv_env_sync(writer->env->below, writer->below, err) : status;
}

static void fault_close_write(struct kv_write_file *file) {
  struct fault_writer *writer = writer_of(file);
  kv_env_close_write(writer->env->below, writer->below);
  add_handle(writer->env, -1);
  kv_free(writer);
}

static kv_status fault_open(struct kv_env *base, const char *path, struct kv_read_file **file,
                            uint64_t *size, struct kv_err *err) {
  struct fault_env *env = fault_of(base);
  kv_status status = enter(env, KV_FAULT_OPEN, err);
  if (status != KV_OK) return status;
  struct fault_reader *reader = kv_alloc_zero(1, sizeof *reader);
  if (!reader) return kv_fail_nomem(err);
  reader->env = env;
  status = kv_env_open(env->below, path, &reader->below, size, err);
  if (status == KV_OK) {
    add_handle(env, 1);
    *file = (struct kv_read_file *)reader;
  } else {
    kv_free(reader);
  }
  return status;
}

static void read_half(const struct fault_reader *reader, const struct kv_range *ranges, size_t n) {
  for (size_t i = 0; i < n; i++) {
    struct kv_range half = {ranges[i].offset, ranges[i].size / 2, ranges[i].into};
    kv_status status = kv_env_read(reader->env->below, reader->below, &half, 1, NULL);
    (void)status;
  }
}

/* Which bit it is goes round with the calls. */
static void flip_bit(struct kv_range range, uint64_t call) {
  uint64_t bit = call * 0x9e3779b97f4a7c15u >> 16;
  if (range.size) range.into[bit / 8 % range.size] ^= (uint8_t)(1u << bit % 8);
}

static void fault_expect(struct kv_read_file *file, const struct kv_range *ranges, size_t n) {
  const struct fault_reader *reader = reader_of(file);
  kv_env_expect(reader->env->below, reader->below, ranges, n);
}

static kv_status fault_read(struct kv_read_file *file, const struct kv_range *ranges, size_t n,
                            struct kv_err *err) {
  struct fault_reader *reader = reader_of(file);
  kv_status status = enter(reader->env, KV_FAULT_READ, err);
  kv_status flips = count(&reader->env->faults[KV_FAULT_FLIP]);
  if (status != KV_OK) {
    read_half(reader, ranges, n);
    return status;
  }
  status = kv_env_read(reader->env->below, reader->below, ranges, n, err);
  uint64_t call = kv_env_fault_calls(&reader->env->base, KV_FAULT_FLIP);
  if (status == KV_OK && flips != KV_OK && n) flip_bit(ranges[call % n], call);
  return status;
}

static void fault_close_read(struct kv_read_file *file) {
  struct fault_reader *reader = reader_of(file);
  kv_env_close_read(reader->env->below, reader->below);
  add_handle(reader->env, -1);
  kv_free(reader);
}

static kv_status fault_lock(struct kv_env *base, const char *path, struct kv_file_lock **lock,
                            struct kv_err *err) {
  struct fault_env *env = fault_of(base);
  kv_status status = enter(env, KV_FAULT_LOCK, err);
  if (status != KV_OK) return status;
  struct fault_lock *made = kv_alloc_zero(1, sizeof *made);
  if (!made) return kv_fail_nomem(err);
  made->env = env;
  status = kv_env_lock(env->below, path, &made->below, err);
  if (status == KV_OK) {
    add_handle(env, 1);
    *lock = (struct kv_file_lock *)made;
  } else {
    kv_free(made);
  }
  return status;
}

static void fault_unlock(struct kv_file_lock *lock) {
  struct fault_lock *held = (struct fault_lock *)lock;
  kv_env_unlock(held->env->below, held->below);
  add_handle(held->env, -1);
  kv_free(held);
}

static kv_status fault_exists(struct kv_env *base, const char *path, bool *there,
                              struct kv_err *err) {
  struct fault_env *env = fault_of(base);
  kv_status status = enter(env, KV_FAULT_EXISTS, err);
  return status == KV_OK ? kv_env_exists(env->below, path, there, err) : status;
}

static kv_status fault_rename(struct kv_env *base, const char *from, const char *to,
                              struct kv_err *err) {
  struct fault_env *env = fault_of(base);
  kv_status status = enter(env, KV_FAULT_RENAME, err);
  return status == KV_OK ? kv_env_rename(env->below, from, to, err) : status;
}

static kv_status fault_remove(struct kv_env *base, const char *path, struct kv_err *err) {
  struct fault_env *env = fault_of(base);
  kv_status status = enter(env, KV_FAULT_REMOVE, err);
  return status == KV_OK ? kv_env_remove(env->below, path, err) : status;
}

static kv_status fault_make_dir(struct kv_env *base, const char *path, const char *like_path,
                                struct kv_err *err) {
  struct fault_env *env = fault_of(base);
  kv_status status = enter(env, KV_FAULT_MAKE_DIR, err);
  return status == KV_OK ? kv_env_make_dir(env->below, path, like_path, err) : status;
}

static kv_status fault_remove_dir(struct kv_env *base, const char *path, struct kv_err *err) {
  struct fault_env *env = fault_of(base);
  kv_status status = enter(env, KV_FAULT_REMOVE, err);
  return status == KV_OK ? kv_env_remove_dir(env->below, path, err) : status;
}

static kv_status fault_sync_dir(struct kv_env *base, const char *path, struct kv_err *err) {
  struct fault_env *env = fault_of(base);
  kv_status status = enter(env, KV_FAULT_SYNC_DIR, err);
  return status == KV_OK ? kv_env_sync_dir(env->below, path, err) : status;
}

static kv_status fault_list_dir(struct kv_env *base, const char *path, kv_list_fn fn, void *ctx,
                                struct kv_err *err) {
  struct fault_env *env = fault_of(base);
  kv_status status = enter(env, KV_FAULT_LIST_DIR, err);
  return status == KV_OK ? kv_env_list_dir(env->below, path, fn, ctx, err) : status;
}

static kv_status fault_random(struct kv_env *base, void *bytes, size_t size, struct kv_err *err) {
  struct fault_env *env = fault_of(base);
  kv_status status = enter(env, KV_FAULT_RANDOM, err);
  return status == KV_OK ? kv_env_random(env->below, bytes, size, err) : status;
}

static uint64_t fault_now_us(struct kv_env *env) {
  return kv_env_now_us(fault_of(env)->below);
}

static void fault_free(struct kv_env *env) {
  kv_free(fault_of(env));
}

kv_status kv_env_fault_new(struct kv_env *base, struct kv_env **env, struct kv_err *err) {
  static const struct kv_env_ops ops = {
      .create = fault_create,
      .append = fault_append,
      .sync = fault_sync,
      .close_write = fault_close_write,
      .open = fault_open,
      .expect = fault_expect,
      .read = fault_read,
      .close_read = fault_close_read,
      .lock = fault_lock,
      .unlock = fault_unlock,
      .exists = fault_exists,
      .rename = fault_rename,
      .remove = fault_remove,
      .make_dir = fault_make_dir,
      .remove_dir = fault_remove_dir,
      .sync_dir = fault_sync_dir,
      .list_dir = fault_list_dir,
      .random = fault_random,
      .now_us = fault_now_us,
      .free = fault_free,
  };
  struct fault_env *made = kv_alloc_zero(1, sizeof *made);
  if (!made) return kv_fail_nomem(err);
  made->base.ops = &ops;
  made->below = base;
  *env = &made->base;
  return KV_OK;
}

void kv_env_fault_set(struct kv_env *env, enum kv_fault_class cls, uint64_t nth, bool sticky,
                      kv_status status) {
  struct fault *fault = &fault_of(env)->faults[cls];
  fault->sticky = sticky;
  fault->status = cls == KV_FAULT_FLIP ? KV_CORRUPT : status;
  uint64_t calls = __atomic_load_n(&fault->calls, __ATOMIC_RELAXED);
  __atomic_store_n(&fault->fail_call, nth ? calls + nth : 0, __ATOMIC_RELEASE);
}

uint64_t kv_env_fault_calls(struct kv_env *env, enum kv_fault_class cls) {
  return __atomic_load_n(&fault_of(env)->faults[cls].calls, __ATOMIC_RELAXED);
}

int64_t kv_env_fault_handles(struct kv_env *env) {
  return __atomic_load_n(&fault_of(env)->handles, __ATOMIC_RELAXED);
}
