/* A column family: its place, options, statistics and log memory, and the set of files that views of this
** process name.
**
** The file set is an array of kv_sst sorted by id. A kv_sst is in it as long as it has a reference; that
** is how kv_family_remove_file knows that no view needs a file (invariant 5: a view keeps its files,
** opened yet or not). A file is opened when first read, under a lock of its own, so that a slow open
** holds up nobody but its other readers.
**
** Locks: `lock` guards options, the file set and its reference counts; it is held for memory work only,
** never while a file is touched. kv_sst.lock is taken with no other lock held, and so is `removing`, which
** guards the buffer for the path of a file to remove: reserved at the beginning, so that outputs can be
** unlinked when memory is out.
** Thread rule: any thread. */
#include <string.h>

#include "mem.h"
#include "view.h"

struct kv_family {
  int64_t refs; /* atomic */
  struct kv_env *env;
  struct kv_buf dir;             /* NUL-terminated */
  struct kv_buf like_path;       /* NUL-terminated; empty: none */
  struct kv_table_config config; /* options as at open */
  struct kv_stats stats;
  struct kv_log *log;
  struct kv_cache *cache;
  kv_head_fn head;
  struct kv_mutex *lock;
  struct kv_options options; /* as set last */
  struct kv_sst **files;     /* sorted by id */
  size_t file_count;
  size_t file_capacity;
  struct kv_view *views;
  struct kv_mutex *removing;
  struct kv_buf path; /* of the file being removed */
};

struct kv_sst {
  int64_t refs; /* under the family's lock */
  struct kv_family *family;
  struct kv_file_info info;
  struct kv_mutex *lock;  /* held while the table is being opened */
  struct kv_table *table; /* atomic; NULL until opened */
};

void kv_options_default(struct kv_options *options) {
  *options = (struct kv_options){.compression_level = 3,
                                 .filter_bits = 10,
                                 .block_bytes = 16384,
                                 .memtable_bytes = 4194304,
                                 .value_bytes = 4096};
}

static kv_status check_options(const struct kv_options *options, struct kv_err *err) {
  if (options->compression_level < 0 || options->compression_level > 19)
    return kv_fail(err, KV_MISUSE, "compression level %d is not in 0..19",
                   options->compression_level);
  if (options->filter_bits < 0 || options->filter_bits > 20)
    return kv_fail(err, KV_MISUSE, "filter_bits %d is not in 0..20", options->filter_bits);
  if (options->block_bytes < 1024 || options->block_bytes > 1048576)
    return kv_fail(err, KV_MISUSE, "block_bytes %u is not in 1024..1048576", options->block_bytes);
  if (options->memtable_bytes < 16384 || options->memtable_bytes > 1073741824)
    return kv_fail(err, KV_MISUSE, "memtable_bytes %llu is not in 16384..1073741824",
                   (unsigned long long)options->memtable_bytes);
  if (options->value_bytes > 1048576)
    return kv_fail(err, KV_MISUSE, "value_bytes %u is not in 0..1048576", options->value_bytes);
  return KV_OK;
}

static void family_free(struct kv_family *family) {
  kv_log_free(family->log);
  kv_comparator_unref(family->config.comparator);
  if (family->cache) kv_cache_unref(family->cache);
  if (family->lock) kv_mutex_free(family->lock);
  if (family->removing) kv_mutex_free(family->removing);
  kv_buf_release(&family->path);
  kv_buf_release(&family->dir);
  kv_buf_release(&family->like_path);
  kv_free(family->files);
  kv_env_unref(family->env);
  kv_free(family);
}

static kv_status copy_paths(struct kv_family *family, const struct kv_family_config *config,
                            struct kv_err *err) {
  kv_buf_append(&family->dir, config->dir, strlen(config->dir) + 1);
  if (config->like_path)
    kv_buf_append(&family->like_path, config->like_path, strlen(config->like_path) + 1);
  kv_table_path(&family->path, config->dir, UINT64_MAX); /* as long as any */
  if (family->dir.status != KV_OK || family->like_path.status != KV_OK ||
      family->path.status != KV_OK)
    return kv_fail_nomem(err);
  return KV_OK;
}

static void set_table_config(struct kv_family *family, const struct kv_family_config *config) {
  struct kv_table_config *table = &family->config;
  table->env = config->env;
  table->dir = (const char *)family->dir.data;
  table->like_path = config->like_path ? (const char *)family->like_path.data : NULL;
  memcpy(table->uuid, config->uuid, sizeof table->uuid);
  table->compression_level = config->options.compression_level;
  table->filter_bits = config->options.filter_bits;
  table->block_bytes = config->options.block_bytes;
  table->comparator = kv_comparator_ref(config->comparator);
}

static kv_status family_init(struct kv_family *family, const struct kv_family_config *config,
                             struct kv_err *err) {
  family->refs = 1;
  family->env = kv_env_ref(config->env);
  family->options = config->options;
  family->head = config->head;
  kv_buf_init(&family->dir);
  kv_buf_init(&family->like_path);
  kv_buf_init(&family->path);
  family->cache = kv_cache_ref(config->cache);
  kv_status status = copy_paths(family, config, err);
  if (status == KV_OK) status = kv_mutex_new(&family->lock, err);
  if (status == KV_OK) status = kv_mutex_new(&family->removing, err);
  if (status == KV_OK)
    status = kv_log_new(config->uuid, config->comparator, family->cache, &family->stats,
                        &family->log, err);
  if (status == KV_OK) set_table_config(family, config);
  return status;
}

kv_status kv_family_new(const struct kv_family_config *config, struct kv_family **family,
                        struct kv_err *err) {
  *family = NULL;
  kv_status status = check_options(&config->options, err);
  if (status != KV_OK) return status;
  struct kv_family *made = kv_alloc_zero(1, sizeof *made);
  if (!made) return kv_fail_nomem(err);
  status = family_init(made, config, err);
  if (status == KV_OK)
    *family = made;
  else
    family_free(made);
  return status;
}

struct kv_family *kv_family_ref(struct kv_family *family) {
  __atomic_add_fetch(&family->refs, 1, __ATOMIC_RELAXED);
  return family;
}

void kv_family_unref(struct kv_family *family) {
  if (family && __atomic_sub_fetch(&family->refs, 1, __ATOMIC_ACQ_REL) == 0) family_free(family);
}

struct kv_stats *kv_family_stats(struct kv_family *family) {
  return &family->stats;
}

struct kv_options kv_family_options(struct kv_family *family) {
  kv_mutex_lock(family->lock);
  struct kv_options options = family->options;
  kv_mutex_unlock(family->lock);
  return options;
}

void kv_family_set_options(struct kv_family *family, const struct kv_options *options) {
  kv_mutex_lock(family->lock);
  family->options = *options;
  kv_mutex_unlock(family->lock);
}

size_t kv_family_memory(struct kv_family *family) {
  return kv_log_bytes(family->log);
}

struct kv_log *kv_family_log(struct kv_family *family) {
  return family->log;
}

const struct kv_table_config *kv_family_table_config(struct kv_family *family) {
  return &family->config;
}

const struct kv_comparator *kv_family_comparator(const struct kv_family *family) {
  return family->config.comparator;
}

struct kv_cache *kv_family_cache(struct kv_family *family) {
  return family->cache;
}

bool kv_family_head(const struct kv_family *family, struct kv_slice value, struct kv_buf *head) {
  return !family->head || family->head(value, head);
}

/* ---- The file set. All under family->lock. */

/* The place of the first file with an id >= `id`. */
static size_t set_position(const struct kv_family *family, uint64_t id) {
  size_t low = 0;
  size_t high = family->file_count;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (family->files[middle]->info.id < id)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

static bool set_has(const struct kv_family *family, size_t at, uint64_t id) {
  return at < family->file_count && family->files[at]->info.id == id;
}

static kv_status set_reserve(struct kv_family *family, struct kv_err *err) {
  if (family->file_count < family->file_capacity) return KV_OK;
  size_t capacity = family->file_capacity ? 2 * family->file_capacity : 16;
  struct kv_sst **files = kv_realloc(family->files, capacity, sizeof *files);
  if (!files) return kv_fail_nomem(err);
  family->files = files;
  family->file_capacity = capacity;
  return KV_OK;
}

static void set_insert(struct kv_family *family, size_t at, struct kv_sst *sst) {
  struct kv_sst **place = family->files + at;
  memmove(place + 1, place, (family->file_count - at) * sizeof *place);
  *place = sst;
  family->file_count++;
}

static void set_remove(struct kv_family *family, const struct kv_sst *sst) {
  size_t at = set_position(family, sst->info.id);
  struct kv_sst **place = family->files + at;
  family->file_count--;
  memmove(place, place + 1, (family->file_count - at) * sizeof *place);
}

/* ---- Files */

static void sst_free(struct kv_sst *sst) {
  if (sst->table) kv_table_close(sst->table);
  if (sst->lock) kv_mutex_free(sst->lock);
  kv_file_info_release(&sst->info);
  kv_free(sst);
}

static kv_status sst_new(struct kv_family *family, const struct kv_file_info *info,
                         struct kv_sst **out, struct kv_err *err) {
  struct kv_sst *sst = kv_alloc_zero(1, sizeof *sst);
  if (!sst) return kv_fail_nomem(err);
  sst->refs = 1;
  sst->family = family;
  kv_file_info_init(&sst->info);
  kv_status status = kv_file_info_copy(&sst->info, info, err);
  if (status == KV_OK) status = kv_mutex_new(&sst->lock, err);
  if (status == KV_OK)
    *out = sst;
  else
    sst_free(sst);
  return status;
}

static bool same_file(const struct kv_file_info *a, const struct kv_file_info *b) {
  return a->level == b->level && a->seq == b->seq && a->bytes == b->bytes &&
         a->entries == b->entries && a->tombstones == b->tombstones && a->checksum == b->checksum &&
         kv_slice_equal(kv_buf_slice(&a->smallest), kv_buf_slice(&b->smallest)) &&
         kv_slice_equal(kv_buf_slice(&a->largest), kv_buf_slice(&b->largest));
}

static kv_status ref_locked(struct kv_family *family, const struct kv_file_info *info,
                            struct kv_sst **sst, struct kv_err *err) {
  size_t at = set_position(family, info->id);
  if (set_has(family, at, info->id)) {
    struct kv_sst *known = family->files[at];
    if (!same_file(&known->info, info))
      return kv_fail(err, KV_CORRUPT, "table file %016llx: the manifest describes it in two ways",
                     (unsigned long long)info->id);
    known->refs++;
    *sst = known;
    return KV_OK;
  }
  kv_status status = set_reserve(family, err);
  if (status == KV_OK) status = sst_new(family, info, sst, err);
  if (status == KV_OK) set_insert(family, at, *sst);
  return status;
}

kv_status kv_family_sst_ref(struct kv_family *family, const struct kv_file_info *info,
                            struct kv_sst **sst, struct kv_err *err) {
  *sst = NULL;
  kv_mutex_lock(family->lock);
  kv_status status = ref_locked(family, info, sst, err);
  kv_mutex_unlock(family->lock);
  return status;
}

void kv_family_sst_unref(struct kv_family *family, struct kv_sst *sst) {
  kv_mutex_lock(family->lock);
  bool last = --sst->refs == 0;
  if (last) set_remove(family, sst);
  kv_mutex_unlock(family->lock);
  if (last) sst_free(sst);
}

const struct kv_file_info *kv_sst_info(const struct kv_sst *sst) {
  return &sst->info;
}

const struct kv_comparator *kv_sst_comparator(const struct kv_sst *sst) {
  return sst->family->config.comparator;
}

static kv_status sst_open(struct kv_sst *sst, struct kv_err *err) {
  struct kv_family *family = sst->family;
  struct kv_table *table = NULL;
  kv_status status =
      kv_table_open(&family->config, &sst->info, family->cache, &family->stats, &table, err);
  if (status == KV_OK) __atomic_store_n(&sst->table, table, __ATOMIC_RELEASE);
  return status;
}

kv_status kv_sst_table(struct kv_sst *sst, struct kv_table **table, struct kv_err *err) {
  kv_status status = KV_OK;
  *table = __atomic_load_n(&sst->table, __ATOMIC_ACQUIRE);
  if (*table) return KV_OK;
  kv_mutex_lock(sst->lock);
  if (!sst->table) status = sst_open(sst, err);
  *table = sst->table;
  kv_mutex_unlock(sst->lock);
  return status;
}

struct kv_table *kv_sst_opened(const struct kv_sst *sst) {
  return __atomic_load_n(&sst->table, __ATOMIC_ACQUIRE);
}

/* ---- Views. The list is under family->lock. */

void kv_family_add_view(struct kv_family *family, struct kv_view *view) {
  view->made_us = kv_env_now_us(family->env);
  kv_mutex_lock(family->lock);
  view->next = family->views;
  view->link = &family->views;
  if (view->next) view->next->link = &view->next;
  family->views = view;
  kv_mutex_unlock(family->lock);
}

void kv_family_drop_view(struct kv_family *family, struct kv_view *view) {
  kv_mutex_lock(family->lock); /* for the look at the link too: neighbours change it */
  if (view->link) *view->link = view->next;
  if (view->link && view->next) view->next->link = view->link;
  kv_mutex_unlock(family->lock);
}

static bool has_same_files(const struct kv_view *a, const struct kv_view *b) {
  return a->layout == b->layout ||
         (a->file_count == b->file_count &&
          memcmp(a->files, b->files, a->file_count * sizeof *a->files) == 0);
}

/* By what is committed, and by what of it is in files; of equals the one that was made last, which the list
** has first, is the newest. */
static bool is_older(const struct kv_view *view, const struct kv_view *other) {
  const struct kv_log_state *a = &view->log.state, *b = &other->log.state;
  if (a->last_seq != b->last_seq) return a->last_seq < b->last_seq;
  return a->flushed_seq < b->flushed_seq;
}

static const struct kv_view *newest_view(const struct kv_family *family) {
  const struct kv_view *newest = family->views;
  for (const struct kv_view *view = newest; view; view = view->next)
    if (is_older(newest, view)) newest = view;
  return newest;
}

/* All files that views name, without the newest view's. */
static uint64_t pinned_bytes(const struct kv_family *family, const struct kv_view *newest) {
  uint64_t bytes = 0;
  for (size_t i = 0; i < family->file_count; i++)
    if (!kv_view_names_file(newest, family->files[i]->info.id))
      bytes += family->files[i]->info.bytes;
  return bytes;
}

void kv_family_view_facts(struct kv_family *family, struct kv_view_facts *facts) {
  uint64_t now = kv_env_now_us(family->env);
  *facts = (struct kv_view_facts){0, 0, 0};
  kv_mutex_lock(family->lock);
  const struct kv_view *newest = newest_view(family);
  for (const struct kv_view *view = family->views; view; view = view->next) {
    facts->count++;
    bool is_behind = is_older(view, newest) || !has_same_files(view, newest);
    if (is_behind && now - view->made_us > facts->oldest_us) facts->oldest_us = now - view->made_us;
  }
  if (newest) facts->pinned_bytes = pinned_bytes(family, newest);
  kv_mutex_unlock(family->lock);
}

/* ---- Deletion */

bool kv_family_names_file(struct kv_family *family, uint64_t id) {
  kv_mutex_lock(family->lock);
  bool named = set_has(family, set_position(family, id), id);
  kv_mutex_unlock(family->lock);
  return named;
}

/* Under family->removing. */
static kv_status unlink_file(struct kv_family *family, uint64_t id, struct kv_err *err) {
  struct kv_err refused;
  kv_buf_clear(&family->path);
  kv_table_path(&family->path, family->config.dir, id);
  if (family->path.status != KV_OK) return kv_fail_nomem(err);
  kv_status status = kv_env_remove(family->env, (const char *)family->path.data, &refused);
  if (status == KV_OK) kv_stats_add(&family->stats, KV_STAT_FILES_REMOVED, 1);
  if (status == KV_OK || status == KV_MISSING) return KV_OK;
  if (err) *err = refused;
  return status;
}

static kv_status remove_empty_dir(struct kv_family *family, struct kv_err *err) {
  struct kv_err refused;
  kv_status status = kv_env_remove_dir(family->env, family->config.dir, &refused);
  if (status == KV_OK || status == KV_BUSY || status == KV_MISSING) return KV_OK;
  if (err) *err = refused;
  return status;
}

kv_status kv_family_remove_file(struct kv_family *family, uint64_t id, struct kv_err *err) {
  if (kv_family_names_file(family, id))
    return kv_fail(err, KV_BUSY, "table file %016llx: a view of this process still names it",
                   (unsigned long long)id);
  kv_mutex_lock(family->removing);
  kv_status status = unlink_file(family, id, err);
  kv_mutex_unlock(family->removing);
  if (status == KV_OK) status = remove_empty_dir(family, err);
  return status;
}
