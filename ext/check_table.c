/* colfam_check('t'): one row a problem, none when all is sound. Reads everything: the engine's kv_check
** over the view, every log row again from t_cflog (memory may hold what the disk no longer has), every row
** through the row codec, and SQLite's own check of the shadow tables. Damage gives rows; only troubles that
** say nothing about the data (memory, interrupt, no such table) are errors.
** Thread rule: the connection's. */
#include "check_table.h"

#include <stdbool.h>

#include "catalog.h"
#include "engine/kv.h"
#include "error.h"
#include "key_text.h"
#include "newer.h"
#include "row.h"
#include "table.h"
#include "tvf.h"
#include "vtab.h"

/* Undecodable rows that are named one by one, and problems in one text of PRAGMA integrity_check. */
enum { BAD_ROWS_MAX = 100, PROBLEMS_MAX = 100 };
/* Rows between two questions whether to stop. */
enum { ROWS_A_TURN = 1000 };

struct check {
  struct colfam_vtab *vtab;
  struct kv_view *view;
  uint64_t
      flushed_seq; /* in t_cfmeta now: a COMMIT that failed may have published a flush already */
  struct colfam_list *list;
};

static const struct colfam_schema *schema_of(const struct check *check) {
  return check->vtab->schema;
}

static sqlite3_int64 problems(const struct check *check) {
  return check->list->count / 4;
}

static void append_problem(struct colfam_list *list, uint64_t file, sqlite3_int64 position,
                           const char *text) {
  colfam_list_text(list, "error");
  if (file) {
    colfam_list_format(list, "%016llx", (unsigned long long)file);
  } else {
    colfam_list_null(list);
  }
  if (position >= 0) {
    colfam_list_integer(list, position);
  } else {
    colfam_list_null(list);
  }
  colfam_list_text(list, text);
}

/* Damage becomes a row, all else the call's failure. */
static int settle(struct check *check, kv_status status, const struct kv_err *err,
                  sqlite3_int64 position) {
  if (status == KV_OK) return SQLITE_OK;
  bool damage = status == KV_CORRUPT || status == KV_MISSING || status == KV_IO ||
                status == KV_DENIED || status == KV_VERSION;
  if (!damage) return colfam_code(status);
  append_problem(check->list, 0, position, err->text);
  return check->list->rc;
}

static bool is_damage(int rc) {
  int primary = rc & 0xff;
  return primary == SQLITE_CORRUPT || primary == SQLITE_CANTOPEN ||
         (primary == SQLITE_IOERR && rc != SQLITE_IOERR_NOMEM);
}

/* The same for a code of SQLite's; takes the message over. */
static int settle_code(struct colfam_list *list, int rc, char **message) {
  if (!is_damage(rc)) return rc;
  append_problem(list, 0, -1, *message ? *message : sqlite3_errstr(rc));
  sqlite3_free(*message);
  *message = NULL;
  return list->rc;
}

/* ---- Files, memtables, row count: the engine's check */

static kv_status report(void *ctx, const char *severity, uint64_t file, uint64_t position,
                        const char *text) {
  struct colfam_list *list = ctx;
  colfam_list_text(list, severity);
  if (file) {
    colfam_list_format(list, "%016llx", (unsigned long long)file);
  } else {
    colfam_list_null(list);
  }
  colfam_list_integer(list, (sqlite3_int64)position);
  colfam_list_text(list, text);
  return list->rc ? KV_NOMEM : KV_OK;
}

/* A stretch of keys that a file has lost, in words. */
static kv_status report_lost(void *ctx, const struct kv_lost *lost) {
  struct check *check = ctx;
  const struct colfam_schema *schema = schema_of(check);
  sqlite3_str *text = sqlite3_str_new(NULL);
  sqlite3_str_appendf(text, "table file %016llx: rows with keys from ",
                      (unsigned long long)lost->file);
  int rc = colfam_key_text(schema, lost->lower, text);
  sqlite3_str_appendall(text, lost->closed ? " to " : " to below ");
  if (!rc) rc = colfam_key_text(schema, lost->upper, text);
  sqlite3_str_appendf(text, " may be lost (%lld entries of this file in all)",
                      (sqlite3_int64)lost->entries);
  if (rc && !check->list->rc) check->list->rc = rc;
  colfam_list_text(check->list, "error");
  colfam_list_format(check->list, "%016llx", (unsigned long long)lost->file);
  colfam_list_integer(check->list, (sqlite3_int64)lost->position);
  colfam_list_str(check->list, text);
  return check->list->rc ? KV_NOMEM : KV_OK;
}

/* With damage, all files are read once more to tell what is lost. */
static int check_engine(struct check *check) {
  struct kv_err err = {0};
  sqlite3_int64 before = problems(check);
  kv_status status = kv_check(check->view, report, check->list, &err);
  if (status == KV_OK && problems(check) > before)
    status = kv_survey(check->view, report_lost, check, &err);
  return settle(check, status, &err, -1);
}

/* What a file says of itself, against the manifest. */
static int check_files(struct check *check) {
  size_t count = kv_view_file_count(check->view);
  int rc = SQLITE_OK;
  for (size_t i = 0; i < count && !rc; i++) {
    struct kv_err err = {0};
    uint64_t raw;
    rc = settle(check, kv_view_file_raw_bytes(check->view, i, &raw, &err), &err, -1);
  }
  return rc;
}

/* ---- The catalog as it stands in the shadow tables now */

static int check_catalog(struct check *check, char **message) {
  struct colfam_catalog *catalog = &check->vtab->table->catalog;
  struct colfam_meta meta;
  struct colfam_snapshot snapshot;
  int rc = colfam_catalog_read_meta(catalog, &meta, message);
  if (rc) return rc;
  check->flushed_seq = meta.flushed.seq;
  rc = colfam_catalog_read_snapshot(catalog, &meta, &snapshot, message);
  if (!rc) colfam_snapshot_release(&snapshot);
  return rc;
}

/* ---- The log as it stands in t_cflog */

static kv_status check_log_row(const struct kv_log_row *row, const uint8_t uuid[16],
                               uint64_t expected, uint64_t gen, struct kv_err *err) {
  struct kv_batch_reader reader;
  kv_status status = KV_OK;
  if (row->seq != expected) {
    return kv_fail(err, KV_CORRUPT, "log: row %llu is missing", (unsigned long long)expected);
  }
  if (row->gen < gen) {
    return kv_fail(err, KV_CORRUPT, "log: row %llu is of generation %llu, after generation %llu",
                   (unsigned long long)row->seq, (unsigned long long)row->gen,
                   (unsigned long long)gen);
  }
  status = kv_log_row_check(row, err);
  if (status == KV_OK) status = kv_batch_reader_init(&reader, row->batch, uuid, row->seq, err);
  if (status != KV_OK) return status;
  while (kv_batch_reader_next(&reader, &status, err)) continue;
  kv_batch_reader_release(&reader);
  return status;
}

static kv_status read_log(const struct kv_log_source *source, uint64_t expected, uint64_t last,
                          const uint8_t uuid[16], struct kv_err *err) {
  uint64_t gen = 0;
  kv_status status = source->open(source->ctx, expected, err);
  for (; status == KV_OK && expected <= last; expected++) {
    struct kv_log_row row;
    bool found = false;
    status = source->next(source->ctx, &row, &found, err);
    if (status != KV_OK) return status;
    if (!found) row = (struct kv_log_row){.seq = 0};
    status = check_log_row(&row, uuid, expected, gen, err);
    gen = row.gen;
  }
  return status;
}

static int check_log(struct check *check) {
  struct colfam_catalog *catalog = &check->vtab->table->catalog;
  const struct kv_log_state *state = kv_view_log(check->view);
  struct colfam_log_reader reader = {.catalog = catalog, .last_seq = state->last_seq};
  struct kv_log_source source = colfam_log_source(&reader);
  struct kv_err err = {0};
  uint64_t flushed =
      state->flushed_seq > check->flushed_seq ? state->flushed_seq : check->flushed_seq;
  kv_status status = read_log(&source, flushed + 1, state->last_seq, catalog->uuid, &err);
  colfam_log_reader_close(&reader);
  return settle(check, status, &err, -1);
}

/* ---- Every row through the codec */

static void append_bad_row(struct check *check, struct kv_slice key) {
  sqlite3_str *text = sqlite3_str_new(NULL);
  sqlite3_str_appendf(text, "table %s: the row with key ", schema_of(check)->table);
  int rc = colfam_key_text(schema_of(check), key, text);
  if (rc && !check->list->rc) check->list->rc = rc;
  sqlite3_str_appendall(text, " does not decode");
  colfam_list_text(check->list, "error");
  colfam_list_null(check->list);
  colfam_list_null(check->list);
  colfam_list_str(check->list, text);
}

static int check_row(struct check *check, const struct kv_scan *scan, struct kv_slice value,
                     sqlite3_int64 *bad) {
  int rc = colfam_row_check(schema_of(check), kv_scan_key(scan), value);
  if (!is_damage(rc)) return rc;
  if (*bad < BAD_ROWS_MAX) append_bad_row(check, kv_scan_key(scan));
  ++*bad;
  return check->list->rc;
}

static int check_rows(struct check *check) {
  struct kv_scan *scan = NULL;
  struct kv_bounds all = {.has_upper = false};
  struct kv_err err = {0};
  sqlite3_int64 before = problems(check), bad = 0;
  int rc = SQLITE_OK;
  kv_status status = kv_scan_open(check->view, NULL, &all, &scan, &err);
  if (status == KV_OK) status = kv_scan_first(scan, &err);
  for (uint64_t n = 1; status == KV_OK && !rc && kv_scan_valid(scan); n++) {
    struct kv_slice value;
    status = kv_scan_value(scan, &value, &err);
    if (status == KV_OK) rc = check_row(check, scan, value, &bad);
    if (!rc && n % ROWS_A_TURN == 0 && colfam_is_interrupted(check->vtab->conn->db))
      rc = SQLITE_INTERRUPT;
    if (!rc && status == KV_OK) status = kv_scan_next(scan, &err);
  }
  kv_scan_close(scan);
  if (bad > BAD_ROWS_MAX) {
    char text[100];
    sqlite3_snprintf(sizeof text, text, "%lld rows in all do not decode", bad);
    append_problem(check->list, 0, -1, text);
  }
  /* What stopped the scan was named by the engine's check, unless that found nothing. */
  if (rc || (before > 0 && status != KV_NOMEM)) return rc;
  return settle(check, status, &err, -1);
}

/* ---- The shadow tables as SQLite's own b-trees */

static int quick_check(struct check *check, const char *suffix) {
  const struct colfam_catalog *catalog = &check->vtab->table->catalog;
  char *sql = sqlite3_mprintf("PRAGMA \"%w\".quick_check(\"%w%s\")", catalog->database,
                              catalog->table, suffix);
  if (!sql) return SQLITE_NOMEM;
  sqlite3_stmt *stmt = NULL;
  int rc = sqlite3_prepare_v2(catalog->db, sql, -1, &stmt, NULL);
  sqlite3_free(sql);
  while (!rc && (rc = sqlite3_step(stmt)) == SQLITE_ROW) {
    const char *text = (const char *)sqlite3_column_text(stmt, 0);
    if (!text || sqlite3_stricmp(text, "ok")) append_problem(check->list, 0, -1, text);
    rc = SQLITE_OK;
  }
  sqlite3_finalize(stmt);
  return rc == SQLITE_DONE ? check->list->rc : rc;
}

static int check_shadow_tables(struct check *check) {
  static const char *const suffixes[] = {"_cfmeta", "_cffile", "_cflog"};
  int rc = SQLITE_OK;
  for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes && !rc; i++) {
    char *message = NULL;
    rc = settle_code(check->list, quick_check(check, suffixes[i]), &message);
  }
  return rc;
}

/* All but the shadow tables' own b-trees. */
static int check_data(struct check *check, bool quick, char **message) {
  int rc = quick ? check_files(check) : check_engine(check);
  if (!rc) rc = settle_code(check->list, check_catalog(check, message), message);
  if (!rc) rc = check_log(check);
  if (!rc && !quick) rc = check_rows(check);
  return rc;
}

static int check_gather(struct colfam_conn *conn, const char *name, struct colfam_list *list,
                        char **message) {
  struct colfam_anchor anchor;
  int rc = colfam_anchor_begin(conn, name, &anchor, message);
  if (rc) return settle_code(list, rc, message);
  struct check check = {.vtab = anchor.vtab, .view = anchor.view, .list = list};
  rc = check_data(&check, false, message);
  if (!rc) rc = check_shadow_tables(&check);
  colfam_anchor_end(&anchor);
  return rc;
}

/* ---- PRAGMA integrity_check */

/* The problems as lines; each row of the list is severity, file, position, text. */
static int join_problems(const struct colfam_list *list, const char *database, const char *table,
                         char **text) {
  sqlite3_int64 count = list->count / 4;
  sqlite3_str *lines = sqlite3_str_new(NULL);
  for (sqlite3_int64 i = 0; i < count && i < PROBLEMS_MAX; i++)
    sqlite3_str_appendf(lines, "%scolfam table %s.%s: %s", i ? "\n" : "", database, table,
                        list->cells[4 * i + 3].as.text);
  if (count > PROBLEMS_MAX)
    sqlite3_str_appendf(lines, "\ncolfam table %s.%s: %lld problems in all", database, table,
                        count);
  int rc = sqlite3_str_errcode(lines);
  *text = sqlite3_str_finish(lines);
  return rc;
}

static bool says_nothing_of_data(int rc) {
  int primary = rc & 0xff;
  return primary == SQLITE_NOMEM || primary == SQLITE_INTERRUPT || primary == SQLITE_BUSY ||
         primary == SQLITE_LOCKED || primary == SQLITE_AUTH || rc == SQLITE_IOERR_NOMEM;
}

/* A table that cannot be opened is a problem too. */
static int check_vtab(struct colfam_vtab *vtab, struct colfam_list *list, bool quick,
                      char **message) {
  struct check check = {.vtab = vtab, .list = list};
  struct kv_batch *batch;
  int rc = colfam_vtab_view(vtab, &check.view, &batch);
  if (rc == SQLITE_OK) {
    rc = check_data(&check, quick, message);
  } else {
    *message = vtab->base.zErrMsg;
    vtab->base.zErrMsg = NULL;
  }
  kv_view_unref(check.view);
  return rc;
}

int colfam_integrity(sqlite3_vtab *vtab, const char *database, const char *table, int flags,
                     char **text) {
  struct colfam_list list = {0};
  char *message = NULL;
  int rc = check_vtab((struct colfam_vtab *)vtab, &list, flags & 1, &message);
  if (rc && !says_nothing_of_data(rc)) {
    append_problem(&list, 0, -1, message ? message : sqlite3_errstr(rc));
    rc = list.rc;
  }
  if (!rc && list.count) rc = join_problems(&list, database, table, text);
  sqlite3_free(message);
  colfam_list_release(&list);
  return rc;
}

const struct colfam_tvf colfam_check_tvf = {
    .name = "colfam_check",
    .columns = "severity TEXT, file TEXT, position INTEGER, text TEXT",
    .column_count = 4,
    .takes_table = true,
    .direct_only = true,
    .gather = check_gather,
};
