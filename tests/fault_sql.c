/* Every operation of the pager and of the table files, and every allocation, fails: once, and from there on.
** Each scenario is one use of the extension; harness_fault_run.h says what must hold. COLFAM_SCENARIOS=n does
** n of them from the one numbered COLFAM_FIRST on; each COLFAM_SEED from 1 to 5 has the 14 scenarios, with
** other journals, keys, pages and options. Without that the first 13. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness_fault_run.h"
#include "harness_sql.h"

/* Rows a to b, in both tables. */
#define ROWS(table, a, b, value)                                                           \
  "WITH RECURSIVE i(i) AS (SELECT " #a " UNION ALL SELECT i + 1 FROM i WHERE i < " #b ") " \
  "INSERT OR REPLACE INTO " table " SELECT key(i), " value " FROM i"
#define PAIR_OF(schema)                              \
  "CREATE TABLE " schema "o(k $KEY PRIMARY KEY, v);" \
  "CREATE VIRTUAL TABLE " schema "t USING colfam(k $KEY PRIMARY KEY, v, $WITH);"
#define OTHER "CREATE VIRTUAL TABLE u USING colfam(k INT PRIMARY KEY, v);"
#define SHORT "'v' || i"
#define LONG "printf('%.*c', 400, 'x') || i"
#define FILL(schema, a, b) \
  "BEGIN;" ROWS(schema "o", a, b, SHORT) ";" ROWS(schema "t", a, b, SHORT) "; COMMIT;"
#define FLUSH "INSERT INTO t(t) VALUES('flush');"
/* A log over one run. */
#define ONE_RUN PAIR_OF("") OTHER FILL("", 1, 60) FLUSH FILL("", 58, 64)
/* A log over two. */
#define TWO_RUNS ONE_RUN FLUSH FILL("", 20, 24)

static const struct scenario scenarios[] = {
    {.name = "create and fill",
     .setup = "CREATE TABLE z(x)",
     .prepare = "SELECT * FROM z",
     .steps = {"BEGIN", "CREATE TABLE o(k $KEY PRIMARY KEY, v)",
               "CREATE VIRTUAL TABLE t USING colfam(k $KEY PRIMARY KEY, v, $WITH)",
               ROWS("o", 1, 4, SHORT), ROWS("t", 1, 4, SHORT), "COMMIT", "SELECT * FROM t",
               "SELECT v FROM t WHERE k = key(3)"}},
    {.name = "load in bulk",
     .setup = ONE_RUN,
     .prepare = "SELECT * FROM o, t LIMIT 1",
     .steps = {"BEGIN", ROWS("o", 40, 140, LONG), ROWS("t", 40, 140, LONG), "COMMIT",
               "SELECT count(*), sum(length(v)) FROM t", "SELECT v FROM t WHERE k = key(50)"}},
    {.name = "small commits and flush",
     .setup = PAIR_OF("") OTHER,
     .prepare = "SELECT * FROM o, t LIMIT 1",
     .steps = {"BEGIN", ROWS("o", 1, 3, SHORT), ROWS("t", 1, 3, SHORT), "COMMIT", FLUSH, "BEGIN",
               ROWS("o", 3, 5, SHORT), ROWS("t", 3, 5, SHORT), "COMMIT", FLUSH, "SELECT * FROM t"}},
    {.name = "compact",
     .setup = TWO_RUNS,
     .prepare = "SELECT * FROM o, t LIMIT 1",
     .steps = {"BEGIN", "DELETE FROM o WHERE k BETWEEN key(5) AND key(12)",
               "DELETE FROM t WHERE k BETWEEN key(5) AND key(12)",
               "INSERT INTO t(t) VALUES('compact')", "COMMIT", "SELECT * FROM t ORDER BY k DESC"}},
    {.name = "work published later",
     .setup = TWO_RUNS,
     .prepare = "SELECT * FROM o, t LIMIT 1",
     .steps = {"SELECT * FROM colfam_compact('t')",
               "INSERT OR REPLACE INTO u VALUES(1, 'for another')",
               "SELECT * FROM colfam_flush('t')", "BEGIN", ROWS("o", 3, 5, "'new' || i"),
               ROWS("t", 3, 5, "'new' || i"), "COMMIT", "SELECT * FROM t"}},
    {.name = "reads of cold files",
     .setup = TWO_RUNS,
     .prepare = "SELECT * FROM o LIMIT 1",
     .steps = {"SELECT v FROM t WHERE k = key(33)",
               "SELECT v FROM t WHERE k IN (key(1), key(21), key(59), key(60), key(77))",
               "SELECT count(*) FROM o WHERE EXISTS(SELECT 1 FROM t WHERE t.k = o.k)",
               "SELECT v FROM t WHERE k BETWEEN key(10) AND key(22)",
               "SELECT v FROM t WHERE k > key(50) ORDER BY k DESC LIMIT 5",
               "SELECT count(*), max(k) FROM t"}},
    {.name = "savepoints",
     .setup = ONE_RUN,
     .prepare = "SELECT * FROM o, t LIMIT 1",
     .steps = {"BEGIN", "UPDATE o SET v = 'u' WHERE k < key(4)",
               "UPDATE t SET v = 'u' WHERE k < key(4)", "SAVEPOINT s",
               "DELETE FROM o WHERE k > key(40)", "DELETE FROM t WHERE k > key(40)",
               "ROLLBACK TO s", "UPDATE o SET k = key(200) WHERE k = key(59)",
               "UPDATE t SET k = key(200) WHERE k = key(59)", "RELEASE s", "COMMIT",
               "SELECT * FROM t"}},
    {.name = "drop and sweep",
     .setup = TWO_RUNS,
     .prepare = "SELECT * FROM o, t LIMIT 1",
     .steps = {"BEGIN", "DROP TABLE t", "DROP TABLE o", "COMMIT",
               "INSERT OR REPLACE INTO u VALUES(1, 2)", "INSERT OR REPLACE INTO u VALUES(2, 3)"}},
    {.name = "open after a crash",
     .setup = TWO_RUNS,
     .crash = "PRAGMA cache_size = 2; BEGIN;" ROWS(
         "o", 1, 90, LONG) ";"
                           "INSERT INTO t(t) VALUES('compact');" ROWS("t", 1, 90, LONG) ";",
     .steps = {"SELECT * FROM t", "BEGIN", ROWS("o", 3, 4, SHORT), ROWS("t", 3, 4, SHORT), "COMMIT",
               "INSERT OR REPLACE INTO u VALUES(1, 2)"}},
    {.name = "check and backup",
     .setup = ONE_RUN,
     .prepare = "SELECT * FROM o, t LIMIT 1",
     .steps = {"SELECT * FROM colfam_check('t')", "PRAGMA integrity_check",
               "SELECT * FROM colfam_backup(path('copy.db'))"}},
    {.name = "two databases",
     .setup = PAIR_OF("") PAIR_OF("x."),
     .prepare = "SELECT * FROM o, t, x.o, x.t LIMIT 1",
     .attaches = true,
     .steps = {"BEGIN", ROWS("o", 1, 3, SHORT), ROWS("t", 1, 3, SHORT), ROWS("x.o", 1, 3, SHORT),
               ROWS("x.t", 1, 3, SHORT), "COMMIT", "SELECT t.v FROM t JOIN x.t AS s ON s.k = t.k"}},
    {.name = "packed keys and colfam.h",
     .setup = TWO_RUNS,
     .prepare = "SELECT * FROM o LIMIT 1",
     .steps =
         {"SELECT v FROM t WHERE colfam_keys = (SELECT json_group_array(k) FROM (SELECT k FROM o "
          "WHERE k < key(9) UNION ALL SELECT key(77)) WHERE typeof(k) <> 'blob')",
          "api"}},
    {.name = "spill",
     .setup = ONE_RUN,
     .prepare = "SELECT * FROM o, t LIMIT 1; SELECT colfam_config('batch_bytes', 8192)",
     .steps = {"BEGIN", ROWS("o", 55, 75, LONG), ROWS("t", 55, 75, LONG), "SAVEPOINT s",
               "DELETE FROM o WHERE k > key(57)", "DELETE FROM t WHERE k > key(57)",
               ROWS("o", 1, 24, LONG), ROWS("t", 1, 24, LONG),
               "SELECT v FROM t WHERE k IN (key(3), key(60), key(99))", "ROLLBACK TO s",
               ROWS("o", 90, 112, LONG), ROWS("t", 90, 112, LONG), "COMMIT",
               "SELECT count(*), sum(length(v)) FROM t"}},
    {.name = "rename",
     .setup = ONE_RUN,
     .prepare = "SELECT * FROM o, t LIMIT 1",
     .steps = {"BEGIN", "ALTER TABLE o RENAME TO m", "ALTER TABLE t RENAME TO n",
               ROWS("m", 7, 8, "'r'"), ROWS("n", 7, 8, "'r'"), "COMMIT", "SELECT * FROM n"}},
};
enum {
  SCENARIOS = sizeof scenarios / sizeof *scenarios,
  SCENARIOS_OFTEN = SCENARIOS - 1 /* ALTER has as many allocations as all others together */
};

static const struct variant variants[] = {
    {"DELETE", "", "INT", "memtable_bytes = 16384"},
    {"WAL", "PRAGMA wal_autocheckpoint = 10", "TEXT",
     "memtable_bytes = 16384, compression = none, value_bytes = 2"},
    {"TRUNCATE", "PRAGMA cache_size = 10", "BLOB", "memtable_bytes = 16384, filter_bits = 0"},
    {"PERSIST", "PRAGMA synchronous = EXTRA", "REAL",
     "memtable_bytes = 16384, block_bytes = 1024, value_bytes = 0"},
    {"WAL", "PRAGMA page_size = 512; PRAGMA synchronous = NORMAL", "INT",
     "memtable_bytes = 16384, track_rows = off, value_bytes = 1"},
};
enum { VARIANTS = sizeof variants / sizeof *variants };

/* In WAL mode SQLite does not commit over several databases at once. */
static const struct variant *variant_of(int number) {
  const struct scenario *scenario = &scenarios[number % SCENARIOS];
  const struct variant *variant = &variants[(number % SCENARIOS + number / SCENARIOS) % VARIANTS];
  bool is_wal = strcmp(variant->journal, "WAL") == 0;
  return scenario->attaches && is_wal ? &variants[0] : variant;
}

START_TEST(every_place_fails) {
  const struct scenario *scenario = &scenarios[_i % SCENARIOS];
  const struct variant *variant = variant_of(_i);
  struct fault_totals totals = {0};
  setvbuf(stdout, NULL, _IOLBF, BUFSIZ);
  fault_run(scenario, variant, &totals);
  printf(
      "%-26s %-8s %4llu operations, %5llu allocations: %5llu runs with failing I/O, %5llu without "
      "memory\n",
      scenario->name, variant->journal, totals.operations, totals.allocations, totals.io,
      totals.memory);
}
END_TEST

static int setting(const char *name, int fallback) {
  const char *text = getenv(name);
  return text ? atoi(text) : fallback;
}

int main(void) {
  faults_install();
  int first = setting("COLFAM_FIRST", (int)((harness_seed_env(1) - 1) % VARIANTS) * SCENARIOS);
  int count = setting("COLFAM_SCENARIOS", SCENARIOS_OFTEN);
  Suite *suite = suite_create("faults through SQL");
  TCase *tcase = tcase_create("faults");
  tcase_set_timeout(tcase, 600);
  tcase_add_loop_test(tcase, every_place_fails, first, first + count);
  suite_add_tcase(suite, tcase);
  return harness_run(suite);
}
