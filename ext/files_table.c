/* colfam_files('t'): the live files of a table, newest run first, from the manifest as this transaction
** sees it. The raw size stands in the file itself: a file that cannot be opened shows its manifest columns
** and the trouble in `problem`. Thread rule: the connection's. */
#include <stdbool.h>

#include "engine/kv.h"
#include "error.h"
#include "key_text.h"
#include "schema.h"
#include "table.h"
#include "tvf.h"
#include "vtab.h"

/* Share of absent keys that the filters let through since the table was opened, or -1 when none was asked.
** Counted for the table, not for each file. */
static double false_positive_rate(const struct kv_stats *stats) {
  double useful = (double)kv_stats_get(stats, KV_STAT_FILTER_USEFUL);
  double wrong = (double)kv_stats_get(stats, KV_STAT_FILTER_FALSE_POSITIVES);
  return useful + wrong > 0 ? wrong / (useful + wrong) : -1;
}

static void append_key(struct colfam_list *list, const struct colfam_schema *schema,
                       const struct kv_buf *key) {
  sqlite3_str *text = sqlite3_str_new(NULL);
  int rc = colfam_key_text(schema, kv_buf_slice(key), text);
  if (rc && !list->rc) list->rc = rc;
  colfam_list_str(list, text);
}

static void append_sizes(struct colfam_list *list, const struct kv_file_info *file, bool opened,
                         uint64_t raw) {
  colfam_list_integer(list, (sqlite3_int64)file->bytes);
  if (!opened) {
    colfam_list_null(list);
    colfam_list_null(list);
    return;
  }
  colfam_list_integer(list, (sqlite3_int64)raw);
  if (file->bytes) {
    colfam_list_real(list, (double)raw / (double)file->bytes);
  } else {
    colfam_list_null(list);
  }
}

static void append_rate(struct colfam_list *list, double rate) {
  if (rate >= 0) {
    colfam_list_real(list, rate);
  } else {
    colfam_list_null(list);
  }
}

/* Rows are in key files only, whatever the number of values apart. */
static void append_contents(struct colfam_list *list, const struct kv_file_info *file) {
  if (file->level == KV_LEVEL_VALUES) {
    colfam_list_text(list, "values");
    colfam_list_integer(list, (sqlite3_int64)file->seq);
    colfam_list_null(list);
    colfam_list_null(list);
    return;
  }
  colfam_list_integer(list, file->level);
  colfam_list_integer(list, (sqlite3_int64)file->seq);
  colfam_list_integer(list, (sqlite3_int64)(file->entries - file->tombstones));
  colfam_list_integer(list, (sqlite3_int64)file->tombstones);
}

/* NULL for files with keys, and when one of these does not open. */
static int append_dead(struct colfam_list *list, const struct colfam_anchor *anchor, size_t index) {
  kv_status status = KV_CORRUPT;
  uint64_t dead = 0;
  if (kv_view_file(anchor->view, index)->level == KV_LEVEL_VALUES)
    status = kv_view_file_dead_bytes(anchor->view, index, &dead, NULL);
  if (status == KV_OK)
    colfam_list_integer(list, (sqlite3_int64)dead);
  else
    colfam_list_null(list);
  return status == KV_NOMEM ? SQLITE_NOMEM : list->rc;
}

static void append_reclaimable(struct colfam_list *list, const struct colfam_anchor *anchor,
                               size_t index) {
  if (kv_view_file(anchor->view, index)->level == KV_LEVEL_VALUES)
    colfam_list_null(list);
  else
    colfam_list_integer(list, (sqlite3_int64)kv_view_file_reclaimable(anchor->view, index));
}

static int append_file(struct colfam_list *list, const struct colfam_anchor *anchor, size_t index,
                       double rate) {
  const struct kv_file_info *file = kv_view_file(anchor->view, index);
  const struct colfam_schema *schema = anchor->vtab->schema;
  struct kv_err err = {0};
  uint64_t raw = 0;
  kv_status status = kv_view_file_raw_bytes(anchor->view, index, &raw, &err);
  if (status == KV_NOMEM) return SQLITE_NOMEM;
  colfam_list_format(list, "%016llx", (unsigned long long)file->id);
  append_contents(list, file);
  append_sizes(list, file, status == KV_OK, raw);
  append_key(list, schema, &file->smallest);
  append_key(list, schema, &file->largest);
  append_rate(list, rate);
  colfam_list_text(list, status == KV_OK ? NULL : err.text);
  int rc = append_dead(list, anchor, index);
  append_reclaimable(list, anchor, index);
  return rc ? rc : list->rc;
}

static int files_gather(struct colfam_conn *conn, const char *name, struct colfam_list *list,
                        char **message) {
  struct colfam_anchor anchor;
  int rc = colfam_anchor_begin(conn, name, &anchor, message);
  if (rc) return rc;
  double rate = false_positive_rate(kv_family_stats(anchor.vtab->table->family));
  size_t count = kv_view_file_count(anchor.view);
  for (size_t i = 0; i < count && !rc; i++) rc = append_file(list, &anchor, i, rate);
  colfam_anchor_end(&anchor);
  return rc;
}

const struct colfam_tvf colfam_files_tvf = {
    .name = "colfam_files",
    .columns = "id TEXT, level INTEGER, seq INTEGER, rows INTEGER, tombstones INTEGER, "
               "bytes INTEGER, raw_bytes INTEGER, compression_ratio REAL, smallest TEXT, "
               "largest TEXT, filter_false_positive_rate REAL, problem TEXT, dead_bytes INTEGER, "
               "reclaimable INTEGER",
    .column_count = 14,
    .takes_table = true,
    .direct_only = true,
    .gather = files_gather,
};
