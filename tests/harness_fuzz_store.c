/* See harness_fuzz_store.h. */
#include "harness_fuzz_store.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "ext/manifest.h"
#include "harness_answer.h"
#include "harness_fuzz_seal.h"
#include "harness_sql.h"
#include "log.h"

/* ---- Files */

static const char *path_of(const char *name) {
  static char path[PATH_MAX];
  snprintf(path, sizeof path, "%s/store/%s", harness_memory_dir(), name);
  return path;
}

static void read_file(struct store *store, const char *name) {
  struct store_file *file = &store->files[store->count++];
  ck_assert_int_le(store->count, STORE_FILES_MAX);
  snprintf(file->name, sizeof file->name, "%s", name);
  kv_buf_init(&file->bytes);
  FILE *stream = fopen(path_of(name), "rb");
  ck_assert_msg(stream != NULL, "%s", name);
  ck_assert_int_eq(fseek(stream, 0, SEEK_END), 0);
  size_t size = (size_t)ftell(stream);
  rewind(stream);
  ck_assert_uint_eq(fread(kv_buf_extend(&file->bytes, size), 1, size, stream), size);
  fclose(stream);
}

static void make_dirs(void) {
  char dir[PATH_MAX];
  snprintf(dir, sizeof dir, "%s", path_of(""));
  harness_remove_tree(dir);
  ck_assert_int_eq(mkdir(dir, 0700), 0);
}

void fuzz_store_write(const struct store *store) {
  make_dirs();
  ck_assert_int_eq(mkdir(path_of("fuzz.db-colfam"), 0700), 0);
  for (int i = 0; i < store->count; i++) {
    const struct store_file *file = &store->files[i];
    FILE *stream = fopen(path_of(file->name), "wb");
    ck_assert_msg(stream != NULL, "%s", file->name);
    ck_assert_uint_eq(fwrite(file->bytes.data, 1, file->bytes.size, stream), file->bytes.size);
    fclose(stream);
  }
}

void fuzz_store_release(struct store *store) {
  for (int i = 0; i < store->count; i++) kv_buf_release(&store->files[i].bytes);
  memset(store, 0, sizeof *store);
}

/* ---- The database */

static int count_opcodes(void *unused) {
  (void)unused;
  return 1;
}

sqlite3 *fuzz_store_open(bool with_colfam) {
  sqlite3 *db = NULL;
  char *message = NULL;
  ck_assert_int_eq(sqlite3_open(path_of("fuzz.db"), &db), SQLITE_OK);
  sqlite3_extended_result_codes(db, 1);
  if (with_colfam) ck_assert_msg(sql_load(db, &message) == SQLITE_OK, "%s", message);
  sqlite3_exec(db, "PRAGMA synchronous = off", NULL, NULL, NULL);
  sqlite3_progress_handler(db, 3000000, count_opcodes, NULL);
  return db;
}

static const char *const making =
    "PRAGMA page_size = 1024;"
    "CREATE VIRTUAL TABLE sound USING colfam(k PRIMARY KEY, v);"
    "INSERT INTO sound VALUES(1, 'a'), (2, 'b'); INSERT INTO sound(sound) VALUES('flush');"
    "INSERT INTO sound VALUES(3, 'c');"
    "CREATE VIRTUAL TABLE t USING colfam(k INT PRIMARY KEY, v, block_bytes = 1024,"
    " compression = none);"
    "WITH n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 40)"
    " INSERT INTO t SELECT i, 'value ' || hex(zeroblob(i)) FROM n;"
    "INSERT INTO t(t) VALUES('flush');"
    "DELETE FROM t WHERE k IN (3, 20); UPDATE t SET v = NULL WHERE k = 8;"
    "INSERT INTO t VALUES(50, 0.5), (51, x'00');"
    "INSERT INTO t(t) VALUES('compression=zstd:1'); INSERT INTO t(t) VALUES('flush');"
    "INSERT INTO t VALUES(60, 'sixty'); DELETE FROM t WHERE k = 5;"
    "UPDATE t SET v = 'changed' WHERE k = 17";

static void read_table_files(struct store *store, sqlite3 *db, const char *sql) {
  sqlite3_stmt *stmt;
  ck_assert_int_eq(sqlite3_prepare_v2(db, sql, -1, &stmt, NULL), SQLITE_OK);
  while (sqlite3_step(stmt) == SQLITE_ROW)
    read_file(store, (const char *)sqlite3_column_text(stmt, 0));
  sqlite3_finalize(stmt);
}

static void note_expected(sqlite3 *db);

static void make_template(struct store *store) {
  make_dirs();
  sqlite3 *db = fuzz_store_open(true);
  sql_ok(db, making);
  note_expected(db);
  read_file(store, "fuzz.db");
  read_table_files(store, db,
                   "SELECT printf('fuzz.db-colfam/%016x.sst', id) FROM t_cffile ORDER BY seq");
  store->table_count = store->count - 1;
  ck_assert_int_eq(store->table_count, 2);
  read_table_files(store, db, "SELECT printf('fuzz.db-colfam/%016x.sst', id) FROM sound_cffile");
  sql_close(db);
}

void fuzz_store_take(struct store *store) {
  static struct store template;
  if (!template.count) make_template(&template);
  *store = template;
  for (int i = 0; i < store->count; i++) {
    struct kv_buf *bytes = &store->files[i].bytes;
    kv_buf_init(bytes);
    kv_buf_append(bytes, template.files[i].bytes.data, template.files[i].bytes.size);
  }
}

/* ---- Seals */

static uint64_t id_of(const struct store_file *file) {
  return strtoull(strchr(file->name, '/') + 1, NULL, 16);
}

/* Whose files they are stands in their footers; the template's is taken. */
static void uuid_of_t(uint8_t uuid[16]) {
  struct store template;
  fuzz_store_take(&template);
  const struct kv_buf *file = &template.files[1].bytes;
  memcpy(uuid, file->data + file->size - KV_TABLE_FOOTER_BYTES + 72, 16);
  fuzz_store_release(&template);
}

void fuzz_store_seal_files(struct store *store) {
  struct kv_table_place place;
  uuid_of_t(place.uuid);
  for (int i = 1; i <= store->table_count; i++) {
    place.id = id_of(&store->files[i]);
    fuzz_seal_table(&store->files[i].bytes, &place);
  }
}

/* seal_batch(uuid, seq, nonce, gen, rows, batch) */
static void seal_batch(sqlite3_context *context, int argc, sqlite3_value **argv) {
  (void)argc;
  struct kv_log_row row = {.seq = (uint64_t)sqlite3_value_int64(argv[1]),
                           .nonce = (uint64_t)sqlite3_value_int64(argv[2]),
                           .gen = (uint64_t)sqlite3_value_int64(argv[3]),
                           .rows = sqlite3_value_int64(argv[4])};
  struct kv_buf batch;
  kv_buf_init(&batch);
  kv_buf_append(&batch, sqlite3_value_blob(argv[5]), (size_t)sqlite3_value_bytes(argv[5]));
  fuzz_seal_batch(&batch, sqlite3_value_blob(argv[0]), row.seq, kv_log_row_seal(&row));
  sqlite3_result_blob(context, batch.size ? (const char *)batch.data : "", (int)batch.size,
                      SQLITE_TRANSIENT);
  kv_buf_release(&batch);
}

static void append_blob(struct kv_buf *buf, sqlite3_stmt *stmt, int column) {
  const void *bytes = sqlite3_column_blob(stmt, column);
  kv_buf_append(buf, bytes, (size_t)sqlite3_column_bytes(stmt, column));
}

static struct colfam_manifest manifest_of(sqlite3 *db) {
  struct colfam_manifest manifest = {0};
  sqlite3_stmt *stmt;
  const char *sql = "SELECT id, level, seq, bytes, entries, tombstones, checksum, smallest, largest"
                    " FROM t_cffile";
  ck_assert_int_eq(sqlite3_prepare_v2(db, sql, -1, &stmt, NULL), SQLITE_OK);
  while (sqlite3_step(stmt) == SQLITE_ROW) {
    struct kv_file_info info;
    kv_file_info_init(&info);
    info.id = (uint64_t)sqlite3_column_int64(stmt, 0);
    info.level = (uint32_t)sqlite3_column_int64(stmt, 1);
    info.seq = (uint64_t)sqlite3_column_int64(stmt, 2);
    info.bytes = (uint64_t)sqlite3_column_int64(stmt, 3);
    info.entries = (uint64_t)sqlite3_column_int64(stmt, 4);
    info.tombstones = (uint64_t)sqlite3_column_int64(stmt, 5);
    info.checksum = (uint64_t)sqlite3_column_int64(stmt, 6);
    append_blob(&info.smallest, stmt, 7);
    append_blob(&info.largest, stmt, 8);
    colfam_manifest_add(&manifest, &info);
    kv_file_info_release(&info);
  }
  sqlite3_finalize(stmt);
  return manifest;
}

static sqlite3_int64 meta_number(sqlite3 *db, const char *name) {
  char sql[100];
  sqlite3_snprintf(sizeof sql, sql, "SELECT max(value) FROM t_cfmeta WHERE name = '%s'", name);
  return sql_int(db, sql);
}

static void describe_file(sqlite3 *db, const struct store_file *file) {
  const struct kv_buf *bytes = &file->bytes;
  uint64_t checksum = 0;
  if (bytes->size >= 16) memcpy(&checksum, bytes->data + bytes->size - 16, sizeof checksum);
  sql_okf(db, "UPDATE t_cffile SET bytes = %lld, checksum = %lld WHERE id = %lld",
          (sqlite3_int64)bytes->size, (sqlite3_int64)checksum, (sqlite3_int64)id_of(file));
}

void fuzz_store_seal_rows(sqlite3 *db, const struct store *store) {
  uint8_t uuid[16];
  uuid_of_t(uuid);
  for (int i = 1; i <= store->table_count; i++) describe_file(db, &store->files[i]);
  sqlite3_create_function(db, "seal_batch", 6, SQLITE_UTF8, NULL, seal_batch, NULL, NULL);
  char *sql =
      sqlite3_mprintf("UPDATE t_cflog SET batch = seal_batch(?1, seq, nonce, gen, rows, batch)");
  sqlite3_stmt *stmt;
  ck_assert_int_eq(sqlite3_prepare_v2(db, sql, -1, &stmt, NULL), SQLITE_OK);
  sqlite3_bind_blob(stmt, 1, uuid, sizeof uuid, SQLITE_STATIC);
  ck_assert_int_eq(sqlite3_step(stmt), SQLITE_DONE);
  sqlite3_finalize(stmt);
  sqlite3_free(sql);
  struct colfam_manifest manifest = manifest_of(db);
  struct colfam_flushed flushed = {.seq = (uint64_t)meta_number(db, "flushed_seq"),
                                   .nonce = (uint64_t)meta_number(db, "flushed_nonce"),
                                   .rows = meta_number(db, "flushed_rows")};
  sql_okf(db, "UPDATE t_cfmeta SET value = %lld WHERE name = 'seal'",
          (sqlite3_int64)colfam_manifest_seal(&manifest, uuid, &flushed));
}

/* ---- Reads */

enum { WHOLE, BACKWARD, BY_GET, BY_LIST, COUNT, RANGE, POINT, ABSENT, READS };
static const char *const reads[READS] = {
    [WHOLE] = "SELECT k, v FROM t ORDER BY k",
    [BACKWARD] = "SELECT k, v FROM t ORDER BY k DESC",
    [BY_GET] = "SELECT a.k, b.v FROM t AS a CROSS JOIN t AS b ON b.k = a.k ORDER BY a.k",
    [BY_LIST] = "SELECT k, v FROM t WHERE k IN (SELECT k FROM t) ORDER BY k",
    [COUNT] = "SELECT count(*) FROM t",
    [RANGE] = "SELECT k, v FROM t WHERE k BETWEEN 7 AND 31 ORDER BY k",
    [POINT] = "SELECT k, v FROM t WHERE k = 17",
    [ABSENT] = "SELECT k, v FROM t WHERE k = 1000",
};
static struct answer expected[READS];

enum { ROWS_MAX = 100000 };

static void run(sqlite3 *db, const char *sql, struct answer *answer) {
  sqlite3_stmt *stmt = NULL;
  answer_init(answer);
  int rc = sqlite3_prepare_v2(db, sql, -1, &stmt, NULL);
  if (rc != SQLITE_OK) {
    answer_end(answer, db, rc);
  } else if (answer_step(answer, stmt, ROWS_MAX)) {
    answer_end(answer, db, SQLITE_INTERRUPT);
  }
  sqlite3_finalize(stmt);
}

static void note_expected(sqlite3 *db) {
  for (int i = 0; i < READS; i++) run(db, reads[i], &expected[i]);
}

static bool same_rows(const struct answer *a, const struct answer *b) {
  return a->row_count == b->row_count && answer_has(a, b, true);
}

static void expect_right(const struct answer *answer, int read) {
  if (answer->rc == SQLITE_OK && !same_rows(&expected[read], answer))
    ck_abort_msg("%s:\n%s", reads[read],
                 answer_difference("right", &expected[read], "read", answer, true));
}

/* Misuse would be ours; and nothing here is large. */
static void expect_known(const char *sql, int rc, const char *message) {
  int code = rc & 0xff;
  ck_assert_msg(code != SQLITE_MISUSE && code != SQLITE_INTERNAL && code != SQLITE_NOMEM,
                "%s: %d %s", sql, rc, message);
}

/* colfam_check finds nothing and can tell. */
static bool checks_sound(sqlite3 *db) {
  struct answer answer;
  run(db, "SELECT * FROM colfam_check('t')", &answer);
  bool sound = answer.rc == SQLITE_OK && !answer.row_count;
  answer_release(&answer);
  return sound;
}

static void expect_agreement(const struct answer *answers) {
  for (int i = 0; i < READS; i++)
    ck_assert_msg(answers[i].rc == SQLITE_OK, "checked as sound, but %s: %s", reads[i],
                  answers[i].message);
  for (int i = BY_GET; i <= BY_LIST; i++)
    if (!same_rows(&answers[WHOLE], &answers[i]))
      ck_abort_msg("checked as sound, but %s:\n%s", reads[i],
                   answer_difference("scan", &answers[WHOLE], "other", &answers[i], true));
  ck_assert_msg(answers[BACKWARD].row_count == answers[WHOLE].row_count &&
                    answer_has(&answers[WHOLE], &answers[BACKWARD], false),
                "checked as sound, but rows are others backward");
  char count[32];
  snprintf(count, sizeof count, "i%d|", answers[WHOLE].row_count);
  ck_assert_msg(!strcmp(count, sqlite3_str_value(answers[COUNT].rows)),
                "checked as sound, but count(*) %s of %s", sqlite3_str_value(answers[COUNT].rows),
                count);
}

static void read_all(sqlite3 *db, enum store_trust trust) {
  struct answer answers[READS];
  bool sound = checks_sound(db);
  for (int i = 0; i < READS; i++) {
    run(db, reads[i], &answers[i]);
    expect_known(reads[i], answers[i].rc, answers[i].message);
    if (trust == STORE_ROWS) expect_right(&answers[i], i);
  }
  if (sound && trust != STORE_NOTHING) expect_agreement(answers);
  for (int i = 0; i < READS; i++) answer_release(&answers[i]);
}

/* ---- Everything else */

static void use(sqlite3 *db, const char *sql) {
  int rc = sqlite3_exec(db, sql, NULL, NULL, NULL);
  expect_known(sql, rc, sqlite3_errmsg(db));
}

static void expect_sound(sqlite3 *db) {
  sql_rows(db, "SELECT k, v FROM sound ORDER BY k", "1|a\n2|b\n3|c");
}

void fuzz_store_examine(sqlite3 *db, enum store_trust trust) {
  static const char *const looks[] = {
      "SELECT * FROM colfam_files('t')", "SELECT * FROM colfam_families",
      "SELECT colfam_may_exist('t', 17)", "SELECT * FROM colfam_stats"};
  static const char *const upkeep[] = {"INSERT INTO t(t) VALUES('flush')",
                                       "INSERT INTO t(t) VALUES('compact')"};
  static const char *const writes[] = {
      "INSERT INTO t VALUES(1000, 'new')", "INSERT OR REPLACE INTO t VALUES(17, 'other')",
      "UPDATE t SET v = 'x' WHERE k > 30", "DELETE FROM t WHERE k = 1"};
  read_all(db, trust);
  for (size_t i = 0; i < sizeof looks / sizeof *looks; i++) use(db, looks[i]);
  for (size_t i = 0; i < sizeof upkeep / sizeof *upkeep; i++) use(db, upkeep[i]);
  read_all(db, trust);
  for (size_t i = 0; i < sizeof writes / sizeof *writes; i++) use(db, writes[i]);
  read_all(db, trust == STORE_ROWS ? STORE_TABLE : trust);
  if (trust == STORE_NOTHING) {
    use(db, "PRAGMA integrity_check; SELECT * FROM sound; DROP TABLE t");
  } else {
    expect_sound(db);
    sql_ok(db, "DROP TABLE t");
    expect_sound(db);
  }
  int rc = sqlite3_close(db);
  ck_assert_msg(rc == SQLITE_OK, "close: %s", sqlite3_errmsg(db));
}
