/* Operators that no plan knows, and limits, on every kind of plan: as on an ordinary table, rows or error. */
#include <string.h>

#include "harness_sql.h"

static sqlite3 *db;

/* t and its ordinary twin t_o. */
static void open_database(void) {
  db = sql_open(sql_path("operators.db"));
  sql_ok(db, "CREATE TABLE t_o(k INT PRIMARY KEY, v) WITHOUT ROWID;"
             "CREATE VIRTUAL TABLE t USING colfam(k INT PRIMARY KEY, v);"
             "INSERT INTO t_o VALUES(1, 'a'), (2, 2), (3, NULL), (4, '3'), (7, 7), (8, 'c');"
             "INSERT INTO t SELECT * FROM t_o; INSERT INTO t(t) VALUES('flush');"
             "DELETE FROM t WHERE k = 8; DELETE FROM t_o WHERE k = 8");
}

static void close_database(void) {
  sql_close(db);
}

static int add_row(void *context, int columns, char **values, char **names) {
  (void)names;
  for (int i = 0; i < columns; i++) sqlite3_str_appendf(context, "%Q|", values[i]);
  sqlite3_str_appendchar(context, 1, '\n');
  return 0;
}

/* Rows, and the error when there is one, as one text. */
static char *answer(const char *sql) {
  char *message = NULL;
  sqlite3_str *text = sqlite3_str_new(NULL);
  int rc = sqlite3_exec(db, sql, add_row, text, &message);
  sqlite3_str_appendf(text, "code %d: %s", rc, message ? message : "");
  sqlite3_free(message);
  return sqlite3_str_finish(text);
}

/* The query with # for the ordinary tables' ending. */
static void same(const char *query) {
  char *answers[2];
  for (int side = 0; side < 2; side++) {
    sqlite3_str *text = sqlite3_str_new(NULL);
    for (const char *p = query; *p; p++) {
      if (*p != '#') sqlite3_str_appendchar(text, 1, *p);
      if (*p == '#' && side) sqlite3_str_appendall(text, "_o");
    }
    char *sql = sqlite3_str_finish(text);
    answers[side] = answer(sql);
    sql_settle_order(query, answers[side]);
    sqlite3_free(sql);
  }
  ck_assert_msg(!strcmp(answers[0], answers[1]), "%s\n--- colfam\n%s\n--- ordinary\n%s", query,
                answers[0], answers[1]);
  for (int side = 0; side < 2; side++) sqlite3_free(answers[side]);
}

static const char *const bases[] = {
    "k = 2", "k IN (1, 2, 7)", "k > 1", "k BETWEEN 1 AND 4", "1", "k IS 3", "k < 0",
};
static const char *const unknown[] = {
    "",
    " AND k <> 2",
    " AND v IS NOT NULL",
    " AND k IS NOT 3",
    " AND v NOTNULL",
    " AND v ISNULL",
    " AND v REGEXP 'a'",
    " AND v MATCH 'a'",
    " AND k MATCH 2",
    " AND v -> 'a'",
    " AND v LIKE 'A'",
    " AND k GLOB '[12]'",
    " AND v COLLATE nowhere = 'a'",
};
static const char *const ends[] = {
    "",
    " LIMIT 2",
    " LIMIT 1 OFFSET 1",
    " LIMIT -1 OFFSET 2",
    " LIMIT 0",
    " ORDER BY k DESC LIMIT 2",
    " ORDER BY v, k LIMIT 3",
};

START_TEST(operators_and_limits_on_every_plan) {
  for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++) {
    for (size_t k = 0; k < sizeof ends / sizeof *ends; k++) {
      char *query =
          sqlite3_mprintf("SELECT * FROM t# AS t WHERE %s%s%s", bases[_i], unknown[i], ends[k]);
      same(query);
      sqlite3_free(query);
    }
  }
}
END_TEST

int main(void) {
  Suite *suite = suite_create("sql_operators");
  TCase *tcase = tcase_create("operators");
  tcase_add_checked_fixture(tcase, open_database, close_database);
  tcase_add_loop_test(tcase, operators_and_limits_on_every_plan, 0, sizeof bases / sizeof *bases);
  suite_add_tcase(suite, tcase);
  return harness_run(suite);
}
