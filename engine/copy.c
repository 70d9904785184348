/* See copy.h. A file goes through three states: its bytes are copied, then synced, then it is opened as a
** table in its new place and every block verified. So a copy that is kept is not only equal to its source
** but sound, and damage of the source is found while it can still be told.
** The buffer for paths is reserved at the beginning, so that files can be unlinked when memory is out. */
#include "copy.h"

#include <inttypes.h>
#include <string.h>

#include "mem.h"
#include "table_read.h"

#define STEP_BYTES ((size_t)1 << 20)

struct source {
  uint8_t uuid[16];
  struct kv_file_info info;
  const struct kv_comparator *comparator; /* a reference */
};

enum state { STATE_START, STATE_COPY, STATE_VERIFY, STATE_SYNC_DIR, STATE_DONE };

struct kv_copy {
  struct kv_env *from_env;
  struct kv_buf from_dir; /* NUL-terminated, as all paths */
  struct kv_buf to_dir;
  struct kv_buf like_path; /* empty: none */
  struct kv_table_config to;
  struct kv_cache *cache;
  struct kv_stats stats; /* of verifying; nobody reads them */
  struct source *sources;
  size_t count;
  size_t capacity;
  uint64_t bytes_done;
  uint64_t bytes_total;
  enum state state;
  bool made_dir;
  bool kept;
  size_t made;    /* files that are there, the first of sources */
  size_t current; /* the file being copied or verified */
  struct kv_read_file *reader;
  struct kv_write_file *writer;
  uint64_t offset; /* copied of the current file */
  uint8_t *chunk;  /* STEP_BYTES */
  struct kv_table *table;
  struct kv_table_verifier *verifier;
  struct kv_buf path; /* of the file to read, to make or to unlink */
};

static const char *text_of(const struct kv_buf *buf) {
  return (const char *)buf->data;
}

static void append_text(struct kv_buf *buf, const char *text) {
  kv_buf_append(buf, text, strlen(text) + 1);
}

static kv_status set_places(struct kv_copy *copy, const struct kv_copy_config *config,
                            struct kv_err *err) {
  append_text(&copy->from_dir, config->from_dir);
  append_text(&copy->to_dir, config->to_dir);
  if (config->like_path) append_text(&copy->like_path, config->like_path);
  kv_table_path(&copy->path, config->to_dir, UINT64_MAX); /* as long as any */
  copy->chunk = kv_alloc(STEP_BYTES, 1);
  bool complete = copy->from_dir.status == KV_OK && copy->to_dir.status == KV_OK &&
                  copy->like_path.status == KV_OK && copy->path.status == KV_OK && copy->chunk;
  if (!complete) return kv_fail_nomem(err);
  copy->to.env = config->to_env;
  copy->to.dir = text_of(&copy->to_dir);
  copy->to.like_path = config->like_path ? text_of(&copy->like_path) : NULL;
  return KV_OK;
}

kv_status kv_copy_new(const struct kv_copy_config *config, struct kv_copy **copy,
                      struct kv_err *err) {
  struct kv_copy *made = kv_alloc_zero(1, sizeof *made);
  if (!made) return kv_fail_nomem(err);
  made->from_env = config->from_env;
  made->cache = config->cache;
  kv_buf_init(&made->from_dir);
  kv_buf_init(&made->to_dir);
  kv_buf_init(&made->like_path);
  kv_buf_init(&made->path);
  kv_status status = set_places(made, config, err);
  if (status == KV_OK)
    *copy = made;
  else
    kv_copy_free(made);
  return status;
}

static kv_status reserve(struct kv_copy *copy, struct kv_err *err) {
  if (copy->count < copy->capacity) return KV_OK;
  size_t capacity = copy->capacity ? 2 * copy->capacity : 16;
  struct source *grown = kv_realloc(copy->sources, capacity, sizeof *grown);
  if (!grown) return kv_fail_nomem(err);
  copy->sources = grown;
  copy->capacity = capacity;
  return KV_OK;
}

kv_status kv_copy_add(struct kv_copy *copy, const uint8_t uuid[16], const struct kv_file_info *info,
                      const struct kv_comparator *comparator, struct kv_err *err) {
  kv_status status = reserve(copy, err);
  if (status != KV_OK) return status;
  struct source *source = &copy->sources[copy->count];
  memcpy(source->uuid, uuid, sizeof source->uuid);
  kv_file_info_init(&source->info);
  status = kv_file_info_copy(&source->info, info, err);
  if (status != KV_OK) return status;
  source->comparator = kv_comparator_ref(comparator);
  copy->count++;
  copy->bytes_total += info->bytes;
  return KV_OK;
}

/* ---- Steps */

static const char *path_in(struct kv_copy *copy, const char *dir, uint64_t id) {
  kv_buf_clear(&copy->path);
  kv_table_path(&copy->path, dir, id);
  return copy->path.status == KV_OK ? text_of(&copy->path) : NULL;
}

static kv_status make_dir(struct kv_copy *copy, struct kv_err *err) {
  bool there = false;
  if (copy->made_dir) return KV_OK;
  kv_status status = kv_env_exists(copy->to.env, copy->to.dir, &there, err);
  if (status == KV_OK && there) status = kv_fail(err, KV_BUSY, "%s is there already", copy->to.dir);
  if (status != KV_OK) return status;
  copy->made_dir = true;
  return kv_env_make_dir(copy->to.env, copy->to.dir, copy->to.like_path, err);
}

static kv_status open_source(struct kv_copy *copy, const struct kv_file_info *info,
                             struct kv_err *err) {
  uint64_t size = 0;
  const char *path = path_in(copy, text_of(&copy->from_dir), info->id);
  if (!path) return kv_fail_nomem(err);
  kv_status status = kv_env_open(copy->from_env, path, &copy->reader, &size, err);
  if (status == KV_OK && size != info->bytes)
    status = kv_fail(err, KV_CORRUPT,
                     "table %016" PRIx64 ": %" PRIu64 " bytes, the manifest says %" PRIu64,
                     info->id, size, info->bytes);
  return status;
}

static kv_status start_file(struct kv_copy *copy, struct kv_err *err) {
  if (copy->current == copy->count) {
    copy->state = copy->made_dir ? STATE_SYNC_DIR : STATE_DONE;
    return KV_OK;
  }
  const struct kv_file_info *info = &copy->sources[copy->current].info;
  kv_status status = make_dir(copy, err);
  if (status == KV_OK) status = open_source(copy, info, err);
  if (status != KV_OK) return status;
  const char *path = path_in(copy, copy->to.dir, info->id);
  if (!path) return kv_fail_nomem(err);
  status = kv_env_create(copy->to.env, path, copy->to.like_path, &copy->writer, err);
  if (status != KV_OK) return status;
  copy->made++;
  copy->offset = 0;
  copy->state = STATE_COPY;
  return KV_OK;
}

static void close_files(struct kv_copy *copy) {
  if (copy->reader) kv_env_close_read(copy->from_env, copy->reader);
  if (copy->writer) kv_env_close_write(copy->to.env, copy->writer);
  copy->reader = NULL;
  copy->writer = NULL;
}

static kv_status copy_chunk(struct kv_copy *copy, struct kv_err *err) {
  uint64_t left = copy->sources[copy->current].info.bytes - copy->offset;
  size_t size = left < STEP_BYTES ? (size_t)left : STEP_BYTES;
  struct kv_range range = {copy->offset, size, copy->chunk};
  kv_status status = KV_OK;
  if (size) status = kv_env_read(copy->from_env, copy->reader, &range, 1, err);
  if (status == KV_OK)
    status = kv_env_append(copy->to.env, copy->writer, kv_slice_of(copy->chunk, size), err);
  if (status != KV_OK) return status;
  copy->offset += size;
  copy->bytes_done += size;
  if (size < left) return KV_OK;
  status = kv_env_sync(copy->to.env, copy->writer, err);
  close_files(copy);
  copy->state = STATE_VERIFY;
  return status;
}

static kv_status open_copied(struct kv_copy *copy, struct kv_err *err) {
  const struct source *source = &copy->sources[copy->current];
  memcpy(copy->to.uuid, source->uuid, sizeof copy->to.uuid);
  copy->to.comparator = source->comparator;
  kv_status status =
      kv_table_open(&copy->to, &source->info, copy->cache, &copy->stats, &copy->table, err);
  return status == KV_OK ? kv_table_verifier_new(copy->table, true, &copy->verifier, err) : status;
}

static void close_copied(struct kv_copy *copy) {
  kv_table_verifier_free(copy->verifier);
  if (copy->table) kv_table_close(copy->table);
  copy->verifier = NULL;
  copy->table = NULL;
}

static kv_status verify_some(struct kv_copy *copy, struct kv_err *err) {
  bool done = false;
  kv_status status = copy->table ? KV_OK : open_copied(copy, err);
  uint64_t start = kv_stats_get(&copy->stats, KV_STAT_BLOCK_BYTES_READ), read = 0;
  while (status == KV_OK && !done && read < STEP_BYTES) {
    status = kv_table_verifier_step(copy->verifier, &done, err);
    read = kv_stats_get(&copy->stats, KV_STAT_BLOCK_BYTES_READ) - start;
  }
  if (status != KV_OK || !done) return status;
  close_copied(copy);
  copy->current++;
  copy->state = STATE_START;
  return KV_OK;
}

static kv_status sync_dir(struct kv_copy *copy, struct kv_err *err) {
  copy->state = STATE_DONE;
  return kv_table_sync_dir(&copy->to, err);
}

kv_status kv_copy_step(struct kv_copy *copy, bool *done, struct kv_err *err) {
  kv_status status = KV_OK;
  switch (copy->state) {
    case STATE_START:
      status = start_file(copy, err);
      break;
    case STATE_COPY:
      status = copy_chunk(copy, err);
      break;
    case STATE_VERIFY:
      status = verify_some(copy, err);
      break;
    case STATE_SYNC_DIR:
      status = sync_dir(copy, err);
      break;
    case STATE_DONE:
      break;
  }
  *done = status == KV_OK && copy->state == STATE_DONE;
  return status;
}

void kv_copy_progress(const struct kv_copy *copy, uint64_t *done, uint64_t *total) {
  *done = copy->bytes_done;
  *total = copy->bytes_total;
}

/* ---- The end */

void kv_copy_keep(struct kv_copy *copy) {
  copy->kept = true;
}

/* Nobody can do more about what cannot be removed. */
static void remove_all(struct kv_copy *copy) {
  kv_status status = KV_OK;
  for (size_t i = 0; i < copy->made; i++) {
    const char *path = path_in(copy, copy->to.dir, copy->sources[i].info.id);
    if (path) status = kv_env_remove(copy->to.env, path, NULL);
  }
  if (copy->made_dir) status = kv_env_remove_dir(copy->to.env, copy->to.dir, NULL);
  (void)status;
}

void kv_copy_free(struct kv_copy *copy) {
  if (!copy) return;
  close_files(copy);
  close_copied(copy);
  if (!copy->kept) remove_all(copy);
  for (size_t i = 0; i < copy->count; i++) {
    kv_file_info_release(&copy->sources[i].info);
    kv_comparator_unref(copy->sources[i].comparator);
  }
  kv_free(copy->sources);
  kv_free(copy->chunk);
  kv_buf_release(&copy->path);
  kv_buf_release(&copy->like_path);
  kv_buf_release(&copy->to_dir);
  kv_buf_release(&copy->from_dir);
  kv_free(copy);
}
