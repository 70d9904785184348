/* The calls of kv_env through its table: one line each, so that callers need not know the table.
** Any thread. */
#include "env.h"

void kv_env_free(struct kv_env *env) {
  if (env) env->ops->free(env);
}

struct kv_env *kv_env_ref(struct kv_env *env) {
  if (env->ops->ref) env->ops->ref(env);
  return env;
}

void kv_env_unref(struct kv_env *env) {
  if (env && env->ops->ref) env->ops->free(env);
}

kv_status kv_env_create(struct kv_env *env, const char *path, const char *like_path,
                        struct kv_write_file **file, struct kv_err *err) {
  return env->ops->create(env, path, like_path, file, err);
}

kv_status kv_env_append(struct kv_env *env, struct kv_write_file *file, struct kv_slice bytes,
                        struct kv_err *err) {
  return env->ops->append(file, bytes, err);
}

kv_status kv_env_sync(struct kv_env *env, struct kv_write_file *file, struct kv_err *err) {
  return env->ops->sync(file, err);
}

void kv_env_close_write(struct kv_env *env, struct kv_write_file *file) {
  env->ops->close_write(file);
}

kv_status kv_env_open(struct kv_env *env, const char *path, struct kv_read_file **file,
                      uint64_t *size, struct kv_err *err) {
  return env->ops->open(env, path, file, size, err);
}

void kv_env_expect(struct kv_env *env, struct kv_read_file *file, const struct kv_range *ranges,
                   size_t n) {
  if (env->ops->expect) env->ops->expect(file, ranges, n);
}

kv_status kv_env_read(struct kv_env *env, struct kv_read_file *file, const struct kv_range *ranges,
                      size_t n, struct kv_err *err) {
  return env->ops->read(file, ranges, n, err);
}

void kv_env_close_read(struct kv_env *env, struct kv_read_file *file) {
  env->ops->close_read(file);
}

kv_status kv_env_lock(struct kv_env *env, const char *path, struct kv_file_lock **lock,
                      struct kv_err *err) {
  return env->ops->lock(env, path, lock, err);
}

void kv_env_unlock(struct kv_env *env, struct kv_file_lock *lock) {
  env->ops->unlock(lock);
}

kv_status kv_env_exists(struct kv_env *env, const char *path, bool *there, struct kv_err *err) {
  return env->ops->exists(env, path, there, err);
}

kv_status kv_env_rename(struct kv_env *env, const char *from, const char *to, struct kv_err *err) {
  return env->ops->rename(env, from, to, err);
}

kv_status kv_env_remove(struct kv_env *env, const char *path, struct kv_err *err) {
  return env->ops->remove(env, path, err);
}

kv_status kv_env_make_dir(struct kv_env *env, const char *path, const char *like_path,
                          struct kv_err *err) {
  return env->ops->make_dir(env, path, like_path, err);
}

kv_status kv_env_remove_dir(struct kv_env *env, const char *path, struct kv_err *err) {
  return env->ops->remove_dir(env, path, err);
}

kv_status kv_env_sync_dir(struct kv_env *env, const char *path, struct kv_err *err) {
  return env->ops->sync_dir(env, path, err);
}

kv_status kv_env_list_dir(struct kv_env *env, const char *path, kv_list_fn fn, void *ctx,
                          struct kv_err *err) {
  return env->ops->list_dir(env, path, fn, ctx, err);
}

kv_status kv_env_random(struct kv_env *env, void *bytes, size_t size, struct kv_err *err) {
  return env->ops->random(env, bytes, size, err);
}

uint64_t kv_env_now_us(struct kv_env *env) {
  return env->ops->now_us(env);
}
