/* SQL. Any text of SELECTs and writes, on three colfam tables and on ordinary ones of the same columns and
** rows: the same rows, the same code and message, the same tables at the end. Left out is what README.md's
** Limits list as forced by SQLite, what depends on the order of rows that no ORDER BY fixes, and what looks
** at the schema. What begins with '[' is a JSON array of packed keys, what begins with the byte 3 a blob of
** them.
**
** Between statements the byte 1 flushes colfam's tables, 2 compacts them, inside the transaction. */
#include <stdlib.h>
#include <string.h>

#include "harness_answer.h"
#include "harness_fuzz.h"
#include "harness_sql.h"

enum { ORDINARY, COLFAM, STATEMENTS_MAX = 40, OPCODES_MAX = 100000, ROWS_MAX = 2000 };

static sqlite3 *dbs[2];

/* ---- What may be compared */

static const char *const tables[] = {"tab", "pair", "note"};

static const char *const unordered_functions[] = {"random",
                                                  "randomblob",
                                                  "changes",
                                                  "total_changes",
                                                  "last_insert_rowid",
                                                  "date",
                                                  "time",
                                                  "datetime",
                                                  "julianday",
                                                  "strftime",
                                                  "unixepoch",
                                                  "sum",
                                                  "total",
                                                  "avg",
                                                  "group_concat",
                                                  "row_number",
                                                  "first_value",
                                                  "json_group_object",
                                                  "json_group_array",
                                                  "nth_value",
                                                  "last_value",
                                                  "lag",
                                                  "lead",
                                                  "ntile",
                                                  "load_extension",
                                                  "fts3_tokenizer",
                                                  "string_agg",
                                                  "median",
                                                  "percentile",
                                                  "timediff"};

/* Words of a text that is not run at all. */
static const char *const refused_words[] = {"limit",   "conflict", "returning", "indexed",
                                            "explain", "colfam",   "_cf",       "pragma",
                                            "sqlite_", "current_", "rowid",     "oid"};

static int allow_function(const char *name) {
  for (size_t i = 0; i < sizeof unordered_functions / sizeof *unordered_functions; i++)
    if (sqlite3_stricmp(name, unordered_functions[i]) == 0) return SQLITE_DENY;
  return SQLITE_OK;
}

static int authorize(void *unused, int action, const char *first, const char *second,
                     const char *schema, const char *trigger) {
  (void)unused, (void)first, (void)schema, (void)trigger;
  switch (action) {
    case SQLITE_SELECT:
    case SQLITE_READ:
    case SQLITE_INSERT:
    case SQLITE_UPDATE:
    case SQLITE_DELETE:
    case SQLITE_RECURSIVE:
    case SQLITE_SAVEPOINT:
      return SQLITE_OK;
    case SQLITE_FUNCTION:
      return allow_function(second);
    default:
      return SQLITE_DENY;
  }
}

static bool is_comparable(const char *text) {
  char pattern[32];
  for (size_t i = 0; i < sizeof refused_words / sizeof *refused_words; i++) {
    sqlite3_snprintf(sizeof pattern, pattern, "%%%s%%", refused_words[i]);
    if (sqlite3_strlike(pattern, text, '\\') == 0) return false;
  }
  return true;
}

/* Outside of parentheses; quotes are not looked at. */
static bool has_word(const char *sql, int size, const char *word) {
  int depth = 0, length = (int)strlen(word);
  for (int i = 0; i + length <= size; i++) {
    depth += (sql[i] == '(') - (sql[i] == ')');
    if (depth == 0 && sqlite3_strnicmp(sql + i, word, length) == 0) return true;
  }
  return false;
}

/* UPDATE FROM takes any of the rows that a row is joined with. */
static bool is_arbitrary(const char *sql, int size) {
  return has_word(sql, size, "update") && has_word(sql, size, "from");
}

/* ---- Databases: opened once, each input is a transaction that is rolled back */

static int count_opcodes(void *unused) {
  (void)unused;
  return 1;
}

static const char *const rows =
    "INSERT INTO tab VALUES(1, 'one'), (2.5, 2), ('a', NULL), ('B', x'00'), ('10', 10), (10, '10'),"
    " (x'61', 1.0), (-3, ''), (1e10, 'a'), ('', 0);"
    "INSERT INTO pair VALUES('x', 1, 'p'), ('X', 2, NULL), ('x', -1, 3), ('y', 0, 1.5), ('z ', 7, "
    "'');"
    "INSERT INTO note(body) VALUES('first'), (2), (NULL), ('4');";
static const char *const more_rows =
    "UPDATE tab SET v = 'uno' WHERE k = 1; DELETE FROM tab WHERE k = 'B';"
    "INSERT INTO pair VALUES('y', 1, 'new'); DELETE FROM note WHERE id = 2;";

static void open_ordinary(void) {
  ck_assert_int_eq(sqlite3_open(":memory:", &dbs[ORDINARY]), SQLITE_OK);
  sqlite3_extended_result_codes(dbs[ORDINARY], 1);
  sql_ok(dbs[ORDINARY],
         "CREATE TABLE tab(k PRIMARY KEY, v) WITHOUT ROWID;"
         "CREATE TABLE pair(a TEXT COLLATE NOCASE, b INT, c, PRIMARY KEY(a, b DESC)) WITHOUT ROWID;"
         "CREATE TABLE note(id INTEGER PRIMARY KEY, body TEXT);"
         "CREATE TEMP TABLE packed(a TEXT, b INT, PRIMARY KEY(a, b)) WITHOUT ROWID");
}

static void open_colfam(void) {
  dbs[COLFAM] = sql_open(":memory:");
  sql_ok(dbs[COLFAM], "CREATE VIRTUAL TABLE tab USING colfam(k PRIMARY KEY, v);"
                      "CREATE VIRTUAL TABLE pair USING colfam(a TEXT COLLATE NOCASE, b INT, c,"
                      " PRIMARY KEY(a, b DESC));"
                      "CREATE VIRTUAL TABLE note USING colfam(id INTEGER PRIMARY KEY, body TEXT)");
}

static void upkeep(const char *what) {
  for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
    char sql[80];
    sqlite3_snprintf(sizeof sql, sql, "INSERT INTO %s(%s) VALUES('%s')", tables[i], tables[i],
                     what);
    sql_ok(dbs[COLFAM], sql);
  }
}

static void open_databases(void) {
  open_ordinary();
  open_colfam();
  for (int i = 0; i < 2; i++) {
    fuzz_close_at_exit(dbs[i]);
    sql_ok(dbs[i], rows);
    if (i == COLFAM) upkeep("flush");
    sql_ok(dbs[i], more_rows);
    sqlite3_limit(dbs[i], SQLITE_LIMIT_LENGTH, 1000000);
    sqlite3_limit(dbs[i], SQLITE_LIMIT_EXPR_DEPTH, 60);
    sqlite3_limit(dbs[i], SQLITE_LIMIT_COMPOUND_SELECT, 6);
  }
  sqlite3_set_authorizer(dbs[ORDINARY], authorize, NULL);
}

static void begin(void) {
  if (!dbs[ORDINARY]) open_databases();
  for (int i = 0; i < 2; i++) {
    sqlite3_set_authorizer(dbs[i], NULL, NULL);
    sqlite3_set_last_insert_rowid(dbs[i], 0);
    sql_ok(dbs[i], "BEGIN");
  }
  sqlite3_set_authorizer(dbs[ORDINARY], authorize, NULL);
}

static void roll_back(void) {
  sqlite3_set_authorizer(dbs[ORDINARY], NULL, NULL);
  for (int i = 0; i < 2; i++)
    if (!sqlite3_get_autocommit(dbs[i])) sql_ok(dbs[i], "ROLLBACK");
}

/* ---- One statement on both */

static void run(sqlite3 *db, sqlite3_stmt *stmt, struct answer *answer) {
  answer_init(answer);
  sqlite3_progress_handler(db, OPCODES_MAX, count_opcodes, NULL);
  if (answer_step(answer, stmt, ROWS_MAX)) answer_end(answer, db, SQLITE_INTERRUPT);
  sqlite3_progress_handler(db, 0, NULL, NULL);
  sqlite3_finalize(stmt);
}

/* The statement took too long on one side: what it did before is not known. */
static bool is_cut_short(const struct answer *answers) {
  return answers[0].rc == SQLITE_INTERRUPT || answers[1].rc == SQLITE_INTERRUPT;
}

/* False when nothing more can be compared. */
static bool run_both(sqlite3_stmt *const stmts[2], const char *sql, int size, bool in_order) {
  struct answer answers[2];
  bool counted = !sqlite3_stmt_readonly(stmts[ORDINARY]);
  for (int i = 0; i < 2; i++) run(dbs[i], stmts[i], &answers[i]);
  bool cut = is_cut_short(answers);
  if (!cut && !answer_same(&answers[ORDINARY], &answers[COLFAM], in_order, counted)) {
    char *difference =
        answer_difference("ordinary", &answers[ORDINARY], "colfam", &answers[COLFAM], in_order);
    ck_abort_msg("%.*s\n%s", size, sql, difference);
  }
  for (int i = 0; i < 2; i++) answer_release(&answers[i]);
  return !cut && !sqlite3_get_autocommit(dbs[ORDINARY]);
}

/* Hidden columns are there for colfam only, and with them tab(...) as a table-valued function. */
static bool is_about_column(const char *message) {
  return strstr(message, "is not a function") || strstr(message, "no such column") ||
         strstr(message, "has no column") || strstr(message, "values for") ||
         strstr(message, "values were supplied");
}

/* Runs the statement at *text and moves behind it; false when nothing more can be compared. */
static bool run_next(const char **text) {
  sqlite3_stmt *stmts[2] = {NULL, NULL};
  const char *sql = *text;
  int rc = sqlite3_prepare_v2(dbs[ORDINARY], sql, -1, &stmts[ORDINARY], text);
  int size = (int)(*text - sql);
  if ((rc & 0xff) == SQLITE_AUTH) return true;
  if (rc == SQLITE_OK && is_arbitrary(sql, size)) {
    sqlite3_finalize(stmts[ORDINARY]);
    return true;
  }
  if (rc != SQLITE_OK && is_about_column(sqlite3_errmsg(dbs[ORDINARY]))) return true;
  int other = sqlite3_prepare_v2(dbs[COLFAM], sql, -1, &stmts[COLFAM], NULL);
  ck_assert_msg(rc == other, "%s\nordinary: %d %s\ncolfam: %d %s", sql, rc,
                sqlite3_errmsg(dbs[ORDINARY]), other, sqlite3_errmsg(dbs[COLFAM]));
  if (!stmts[ORDINARY]) return rc == SQLITE_OK;
  return run_both(stmts, sql, size, false);
}

static void expect_same_tables(void) {
  static const char *const all[] = {"SELECT * FROM tab ORDER BY k",
                                    "SELECT * FROM pair ORDER BY a, b DESC",
                                    "SELECT id, body, rowid FROM note ORDER BY id"};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    sqlite3_stmt *stmts[2];
    for (int side = 0; side < 2; side++)
      ck_assert_int_eq(sqlite3_prepare_v2(dbs[side], all[i], -1, &stmts[side], NULL), SQLITE_OK);
    if (!run_both(stmts, all[i], (int)strlen(all[i]), true)) return;
  }
}

static void run_text(const char *text) {
  if (!is_comparable(text)) return;
  begin();
  bool comparable = true;
  for (int i = 0; i < STATEMENTS_MAX && *text && comparable; i++) {
    if (*text == 1 || *text == 2) {
      upkeep(*text == 1 ? "flush" : "compact");
      text++;
    } else {
      comparable = run_next(&text);
    }
  }
  if (comparable) expect_same_tables();
  roll_back();
}

/* ---- Packed keys */

static const char *const packed_sql[2] = {
    "SELECT k, v FROM tab WHERE k IN (SELECT value FROM json_each(?1)) ORDER BY k",
    "SELECT k, v FROM tab WHERE colfam_keys = ?1 ORDER BY k"};

/* Whether SQLite takes the text for an array of nothing but keys. */
static bool is_array_of_keys(const char *json) {
  sqlite3_stmt *stmt;
  static const char sql[] =
      "SELECT json_type(?1) = 'array' AND NOT EXISTS (SELECT 1 FROM json_each(?1) WHERE"
      " type NOT IN ('text', 'integer', 'real', 'null'))";
  ck_assert_int_eq(sqlite3_prepare_v2(dbs[ORDINARY], sql, -1, &stmt, NULL), SQLITE_OK);
  sqlite3_bind_text(stmt, 1, json, -1, SQLITE_STATIC);
  bool is_array = sqlite3_step(stmt) == SQLITE_ROW && sqlite3_column_int(stmt, 0);
  sqlite3_finalize(stmt);
  return is_array;
}

static void run_packed(const char *json) {
  if (strstr(json, "\\u0000")) return; /* json_each ends the text there */
  begin();
  sqlite3_stmt *stmts[2];
  for (int i = 0; i < 2; i++) {
    ck_assert_int_eq(sqlite3_prepare_v2(dbs[i], packed_sql[i], -1, &stmts[i], NULL), SQLITE_OK);
    sqlite3_bind_text(stmts[i], 1, json, -1, SQLITE_STATIC);
  }
  if (is_array_of_keys(json)) {
    run_both(stmts, json, (int)strlen(json), true);
  } else {
    int rc = sqlite3_step(stmts[COLFAM]);
    ck_assert_msg(rc == SQLITE_ERROR, "%s: code %d", json, rc);
    for (int i = 0; i < 2; i++) sqlite3_finalize(stmts[i]);
  }
  roll_back();
}

/* The values of a blob of packed keys into a table of the ordinary side; false when it is malformed. */
static bool unpack(struct kv_slice blob) {
  struct fuzz in = fuzz_begin(blob.data, blob.size);
  sqlite3_stmt *stmt;
  sql_ok(dbs[ORDINARY], "DELETE FROM packed");
  ck_assert_int_eq(sqlite3_prepare_v2(dbs[ORDINARY], "INSERT OR IGNORE INTO packed VALUES(?1, ?2)",
                                      -1, &stmt, NULL),
                   SQLITE_OK);
  bool whole = true;
  for (int column = 1; whole && (fuzz_left(&in) || column == 2); column = 3 - column) {
    whole = fuzz_left(&in) >= 4;
    size_t size = (size_t)fuzz_number(&in, 4);
    whole = whole && size <= fuzz_left(&in);
    if (!whole) break;
    sqlite3_bind_text(stmt, column, size ? (const char *)in.pos : "", (int)size, SQLITE_STATIC);
    in.pos += size;
    if (column == 2) sqlite3_step(stmt);
    if (column == 2) sqlite3_reset(stmt);
  }
  sqlite3_finalize(stmt);
  return whole;
}

static void run_packed_blob(struct kv_slice blob) {
  static const char *const sql[2] = {
      "SELECT DISTINCT p.a, p.b, p.c FROM pair AS p JOIN packed AS x ON p.a = x.a AND p.b = x.b"
      " ORDER BY p.a, p.b DESC",
      "SELECT a, b, c FROM pair WHERE colfam_keys = ?1 ORDER BY a, b DESC"};
  begin();
  sqlite3_set_authorizer(dbs[ORDINARY], NULL, NULL);
  bool whole = unpack(blob);
  sqlite3_stmt *stmts[2];
  for (int i = 0; i < 2; i++)
    ck_assert_int_eq(sqlite3_prepare_v2(dbs[i], sql[i], -1, &stmts[i], NULL), SQLITE_OK);
  sqlite3_bind_blob(stmts[COLFAM], 1, blob.size ? (const char *)blob.data : "", (int)blob.size,
                    SQLITE_STATIC);
  if (whole) {
    run_both(stmts, "packed blob", 11, true);
  } else {
    ck_assert_int_eq(sqlite3_step(stmts[COLFAM]), SQLITE_ERROR);
    for (int i = 0; i < 2; i++) sqlite3_finalize(stmts[i]);
  }
  roll_back();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct fuzz in = fuzz_begin(data, size);
  struct kv_slice rest = fuzz_rest(&in);
  char *text = sqlite3_mprintf("%.*s", (int)rest.size, rest.size ? (const char *)rest.data : "");
  if (*text == 3) {
    run_packed_blob(kv_slice_of(rest.data + 1, rest.size - 1));
  } else if (*text == '[') {
    run_packed(text);
  } else {
    run_text(text);
  }
  sqlite3_free(text);
  return 0;
}

void fuzz_seeds(void) {
  static const char *const seeds[] = {
      "SELECT * FROM tab WHERE k > 'a' OR v IN (1, 2) ORDER BY v, k",
      "SELECT a, b, c FROM pair WHERE a = 'X' AND b BETWEEN -1 AND 5",
      "SELECT count(*), max(k), min(v) FROM tab GROUP BY typeof(v)",
      "SELECT t.k, p.a FROM tab AS t LEFT JOIN pair p ON p.b = t.k WHERE p.a IS NOT NULL",
      "INSERT INTO tab VALUES('new', 1); INSERT OR REPLACE INTO tab(k) VALUES(1);"
      " INSERT OR IGNORE INTO pair VALUES('x', 1, 2)",
      "UPDATE tab SET k = k + 1 WHERE typeof(k) = 'integer'; DELETE FROM pair WHERE a LIKE 'x%'",
      "SAVEPOINT s; DELETE FROM note; ROLLBACK TO s; INSERT INTO note(body) VALUES('x'); RELEASE s",
      "INSERT INTO note VALUES('no', 1); INSERT INTO pair VALUES(NULL, 1, 1)",
      "DELETE FROM tab WHERE k = 10;\001SELECT * FROM tab;\002SELECT * FROM tab",
      "WITH c(x) AS (SELECT k FROM tab UNION SELECT a FROM pair) SELECT * FROM c WHERE x GLOB "
      "'[a-z]*'",
      "SELECT k FROM tab EXCEPT SELECT b FROM pair",
      "SELECT EXISTS (SELECT 1 FROM note WHERE id = 3), (SELECT body FROM note WHERE id = 1)",
      "SELECT * FROM tab WHERE (k, v) IN (SELECT b, c FROM pair) OR k IS NULL OR k = '1e1'",
      "[1, 2.5, \"a\", null, -3, 1e10, \"\\u0042\", 10]",
      "[]",
      "[true, {\"a\":[1]}]"};
  for (size_t i = 0; i < sizeof seeds / sizeof *seeds; i++)
    fuzz_seed(kv_slice_of(seeds[i], strlen(seeds[i])));
  static const char blob[] = "\3\1\0\0\0x\1\0\0\0"
                             "1\1\0\0\0Y\4\0\0\0 0.0\1\0\0\0x\2\0\0\0-1";
  fuzz_seed(kv_slice_of(blob, sizeof blob - 1));
}
