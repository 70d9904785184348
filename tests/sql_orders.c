/* Tables in another order than the bytewise one: reverse, by a registered sort-key encoder, by a
** registered comparator. Whatever the order, each statement gives the rows of an ordinary table; without
** ORDER BY they come in the table's own order. And what registering, opening without and unregistering
** say. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness_both.h"
#include "harness_orders.h"
#include "harness_sql.h"

static sqlite3 *db;

static void open_database(void) {
  db = sql_open(sql_path("app.db"));
  orders_register(db, &(struct colfam_order){.name = "turned", .encode = orders_encode_turned});
  orders_register(db, &(struct colfam_order){.name = "folded", .encode = orders_encode_folded});
  orders_register(db,
                  &(struct colfam_order){.name = "backwards", .compare = orders_compare_backwards});
}

static void close_database(void) {
  sql_close(db);
}

/* ---- Rows and plans */

START_TEST(reverse_is_the_other_direction_of_each_column) {
  sql_ok(db, "CREATE VIRTUAL TABLE t USING colfam(a TEXT, b INTEGER, PRIMARY KEY(a, b DESC),"
             " comparator = reverse);"
             "INSERT INTO t VALUES('x', 1), ('y', 1), ('x', 2), ('z', 3)");
  sql_rows(db, "SELECT a, b FROM t", "z|3\ny|1\nx|1\nx|2");
  sql_ok(db, "INSERT INTO t(t) VALUES('flush'); INSERT INTO t VALUES('y', 0)");
  sql_rows(db, "SELECT a, b FROM t", "z|3\ny|0\ny|1\nx|1\nx|2");
  sql_plan(db, "SELECT * FROM t ORDER BY a, b DESC", "range a");
  sql_rows(db, "SELECT a, b FROM t ORDER BY a, b DESC", "x|2\nx|1\ny|1\ny|0\nz|3");
  sql_plan(db, "SELECT * FROM t WHERE a = 'y' AND b > 0", "range a=,b");
  sql_rows(db, "SELECT a, b FROM t WHERE a = 'y' AND b > 0", "y|1");
  sql_rows(db, "SELECT a, b FROM t WHERE a IN ('x', 'z', 'y') AND b = 1", "y|1\nx|1");
  sql_rows(db, "SELECT min(a), max(a) FROM t", "x|z");
  sql_rows(db, "SELECT * FROM colfam_check('t')", "");
}
END_TEST

START_TEST(rowids_in_reverse_are_given_as_ever) {
  sql_ok(db, "CREATE VIRTUAL TABLE t USING colfam(v, comparator = reverse);"
             "INSERT INTO t VALUES('one'), ('two'); INSERT INTO t(t) VALUES('flush');"
             "INSERT INTO t VALUES('three'); DELETE FROM t WHERE rowid = 1");
  sql_rows(db, "SELECT rowid, v FROM t", "3|three\n2|two");
  sql_rows(db, "SELECT v FROM t WHERE rowid < 3", "two");
  sql_rows(db, "SELECT max(rowid), last_insert_rowid() FROM t", "3|3");
}
END_TEST

START_TEST(an_encoder_orders_texts_and_blobs) {
  sql_ok(db, "CREATE VIRTUAL TABLE t USING colfam(k PRIMARY KEY, v, comparator = turned);"
             "INSERT INTO t VALUES('a', 1), ('b', 2), ('c', 3), (x'01', 4), (x'02', 5), (7, 6), "
             "(-1.5, 7)");
  for (int flushed = 0; flushed < 2; flushed++) {
    sql_rows(db, "SELECT v FROM t", "7\n6\n2\n1\n3\n5\n4");
    sql_rows(db, "SELECT k FROM t WHERE k IN ('a', 'c', x'02', 'b')", "b\na\nc\nx'02'");
    sql_rows(db, "SELECT typeof(k), k FROM t WHERE v = 7", "real|-1.5");
    sql_ok(db, "INSERT INTO t(t) VALUES('flush')");
  }
  sql_plan(db, "SELECT * FROM t WHERE k = 'a'", "get k");
  sql_plan(db, "SELECT * FROM t WHERE k > 'a'", "scan");
  sql_plan(db, "SELECT * FROM t ORDER BY k", "TEMP B-TREE");
  sql_rows(db, "SELECT v FROM t WHERE k > 'a' AND k <= x'01' ORDER BY k DESC", "4\n3\n2");
}
END_TEST

START_TEST(columns_behind_an_encoded_one_are_ranges) {
  sql_ok(db, "CREATE VIRTUAL TABLE t USING colfam(a TEXT, b INTEGER, PRIMARY KEY(a, b DESC),"
             " comparator = turned);"
             "INSERT INTO t VALUES('x', 1), ('x', 2), ('x', 3), ('y', 2), ('x', 'text')");
  sql_plan(db, "SELECT * FROM t WHERE a = 'x' AND b > 1", "range a=,b");
  sql_rows(db, "SELECT b FROM t WHERE a = 'x' AND b > 1", "text\n3\n2");
  sql_rows(db, "SELECT b FROM t WHERE a = 'x' AND b < 'u'", "text\n3\n2\n1");
  sql_rows(db, "SELECT b FROM t WHERE a = 'x' AND b >= 'a'", "text");
  sql_rows(db, "SELECT b FROM t WHERE a = 'x' AND b GLOB 't*'", "text");
}
END_TEST

START_TEST(keys_that_are_encoded_alike_are_one) {
  sql_ok(db, "CREATE VIRTUAL TABLE t USING colfam(k TEXT PRIMARY KEY, v, comparator = folded);"
             "INSERT INTO t VALUES('Abc', 1), ('abd', 2)");
  sql_fails(db, "INSERT INTO t VALUES('aBC', 3)", SQLITE_CONSTRAINT_PRIMARYKEY,
            "UNIQUE constraint failed: t.k");
  sql_rows(db, "SELECT k FROM t", "Abc\nabd");
  sql_rows(db, "SELECT count(*) FROM t WHERE k = 'abc'", "0");
  sql_rows(db, "SELECT v FROM t WHERE k = 'Abc'", "1");
  sql_rows(db, "SELECT v FROM t WHERE k = 'abc' COLLATE NOCASE", "1");
  sql_rows(db, "SELECT k FROM t WHERE k IN ('ABC', 'Abc', 'abd', 'ABD')", "Abc\nabd");
  sql_ok(db, "REPLACE INTO t VALUES('ABC', 4); UPDATE t SET k = 'ABD' WHERE v = 2");
  sql_rows(db, "SELECT k, v FROM t", "ABC|4\nABD|2");
  sql_ok(db, "INSERT INTO t(t) VALUES('compact'); DELETE FROM t WHERE k = 'abc'");
  sql_rows(db, "SELECT k, v FROM t", "ABC|4\nABD|2");
  sql_rows(db, "SELECT * FROM colfam_check('t')", "");
}
END_TEST

START_TEST(a_comparator_orders_the_content_of_one_column) {
  sql_ok(db,
         "CREATE VIRTUAL TABLE t USING colfam(k PRIMARY KEY, v, comparator = backwards);"
         "CREATE VIRTUAL TABLE d USING colfam(k, v, PRIMARY KEY(k DESC), comparator = backwards);"
         "INSERT INTO t VALUES('ab', 1), ('ca', 2), ('b', 3), (x'0100', 4), (x'0001', 5), (10, 6), "
         "(9, 7);"
         "INSERT INTO d SELECT * FROM t");
  for (int flushed = 0; flushed < 2; flushed++) {
    sql_rows(db, "SELECT v FROM t", "7\n6\n2\n3\n1\n4\n5");
    sql_rows(db, "SELECT v FROM d", "5\n4\n1\n3\n2\n6\n7");
    sql_rows(db, "SELECT v FROM t WHERE k IN (x'0100', 'ab', 9, 'ca', 'b', 'none')",
             "7\n2\n3\n1\n4");
    sql_rows(db, "SELECT v FROM d WHERE k IN (x'0100', 'ab', 9, 'ca', 'b', 'none')",
             "4\n1\n3\n2\n7");
    sql_ok(db, "INSERT INTO t(t) VALUES('flush'); INSERT INTO d(d) VALUES('flush')");
  }
  sql_plan(db, "SELECT * FROM t WHERE k = 'a'", "get k");
  sql_plan(db, "SELECT * FROM t WHERE k > 'a'", "scan");
  sql_rows(db, "SELECT v FROM t WHERE k > 'a' ORDER BY k", "1\n3\n2\n5\n4");
  sql_rows(db, "SELECT v FROM t WHERE colfam_keys = '[\"b\", \"ca\", 9]'", "7\n2\n3");
  sql_rows(db, "SELECT * FROM colfam_check('t') UNION ALL SELECT * FROM colfam_check('d')", "");
}
END_TEST

START_TEST(a_comparator_gets_the_whole_of_longer_keys) {
  sql_ok(db, "CREATE VIRTUAL TABLE t USING colfam(a TEXT, b TEXT, PRIMARY KEY(a, b), comparator = "
             "backwards);"
             "INSERT INTO t VALUES('a', 'z'), ('b', 'y'), ('c', 'z'), ('a', 'y')");
  sql_rows(db, "SELECT a, b FROM t", "a|y\nb|y\na|z\nc|z");
  sql_rows(db, "SELECT b FROM t WHERE a = 'a' ORDER BY b", "y\nz");
  sql_plan(db, "SELECT b FROM t WHERE a = 'a'", "scan");
  sql_plan(db, "SELECT 1 FROM t WHERE a = 'a' AND b = 'y'", "exists a,b");
  sql_rows(db, "SELECT a, b FROM t WHERE a IN ('c', 'a', 'b') AND b IN ('y', 'z')",
           "a|y\nb|y\na|z\nc|z");
}
END_TEST

START_TEST(copies_are_in_their_tables_order) {
  sql_ok(db, "CREATE VIRTUAL TABLE t USING colfam(k PRIMARY KEY, v, comparator = backwards, "
             "value_bytes = 100);"
             "CREATE VIRTUAL TABLE e USING colfam(k PRIMARY KEY, v, comparator = turned, "
             "value_bytes = 100);"
             "CREATE VIRTUAL TABLE r USING colfam(k PRIMARY KEY, v, comparator = reverse);"
             "INSERT INTO t VALUES('ab', zeroblob(50)), ('ca', zeroblob(200)), ('b', 3);"
             "INSERT INTO e SELECT * FROM t; INSERT INTO r SELECT * FROM t;"
             "INSERT INTO t(t) VALUES('flush'); INSERT INTO e(e) VALUES('flush');"
             "INSERT INTO r(r) VALUES('flush'); INSERT INTO t VALUES('d', 4)");
  sql_okf(db, "SELECT * FROM colfam_backup('%s'); ATTACH '%s' AS copy", sql_path("copy.db"),
          sql_path("copy.db"));
  sql_rows(db, "SELECT k, length(v) FROM copy.t", "ca|200\nb|1\nab|50\nd|1");
  sql_same(db, "SELECT * FROM copy.e", "SELECT * FROM e");
  sql_same(db, "SELECT * FROM copy.r", "SELECT * FROM r");
  sql_rows(db,
           "SELECT * FROM colfam_check('copy.t') UNION ALL SELECT * FROM colfam_check('copy.e')",
           "");
}
END_TEST

/* More keys than are looked up one by one, in an order in which keys that begin alike stand apart. */
START_TEST(lists_of_a_product_too_large_are_walked) {
  sql_ok(db, "CREATE VIRTUAL TABLE t USING colfam(a INT, b INT, PRIMARY KEY(a, b), comparator = "
             "backwards);"
             "CREATE TABLE list(i INTEGER PRIMARY KEY);"
             "WITH RECURSIVE n(i) AS (VALUES(0) UNION ALL SELECT i + 1 FROM n LIMIT 300)"
             "INSERT INTO list SELECT i FROM n;"
             "INSERT INTO t SELECT i, i * 7 % 600 FROM list");
  sql_same(db,
           "SELECT count(*), sum(a) FROM t WHERE a IN (SELECT i FROM list) AND b IN (SELECT i FROM "
           "list)",
           "SELECT count(*), sum(i) FROM list WHERE i * 7 % 600 < 300");
}
END_TEST

START_TEST(numbers_find_the_texts_that_spell_them) {
  static const char *const orders[] = {"turned", "backwards", "reverse"};
  sql_ok(db, "CREATE TABLE n(i INTEGER); INSERT INTO n VALUES(1), (20)");
  for (size_t i = 0; i < sizeof orders / sizeof *orders; i++) {
    sql_okf(db, "CREATE VIRTUAL TABLE t USING colfam(k TEXT PRIMARY KEY, comparator = '%s')",
            orders[i]);
    sql_ok(db, "INSERT INTO t VALUES('1'), ('01'), ('1.0'), (' 20'), ('2'), ('x')");
    sql_rows(db, "SELECT k FROM n CROSS JOIN t ON k = i ORDER BY k", " 20\n01\n1\n1.0");
    sql_rows(db, "SELECT k FROM t WHERE k IN (SELECT i FROM n) ORDER BY k", " 20\n01\n1\n1.0");
    sql_rows(db, "SELECT k FROM t WHERE k = 1", "1");
    sql_ok(db, "DROP TABLE t");
  }
}
END_TEST

/* ---- Beside ordinary tables, at random */

struct world {
  struct harness_random random;
  const char *order;
  int keys; /* columns */
};

static int below(struct world *world, int bound) {
  return (int)harness_below(&world->random, (uint64_t)bound);
}

/* A key value as SQL, often one that is there. */
static const char *random_value(struct world *world) {
  static char values[4][40];
  static int next;
  char *text = values[next++ % 4];
  switch (below(world, 8)) {
    case 0:
      snprintf(text, 40, "%d", below(world, 20) - 5);
      break;
    case 1:
      snprintf(text, 40, "x'%02x%02x'", below(world, 3), below(world, 256));
      break;
    case 2:
      snprintf(text, 40, "''");
      break;
    default:
      snprintf(text, 40, "'%c%c%.*s'", 'a' + below(world, 5), 'A' + below(world, 40),
               below(world, 20), "with-a-longer-tail!!");
      break;
  }
  for (char *c = text + 1; *text == '\'' && c[1]; c++)
    if (*c == '\'' || *c == '\\') *c = '_';
  return text;
}

static char *random_where(struct world *world) {
  static const char *const operators[] = {"=", "=", "=", "<", ">", "<=", ">=", "IS", "<>"};
  const char *column = world->keys == 2 && below(world, 2) ? "b" : "a";
  switch (below(world, 6)) {
    case 0:
      return sqlite3_mprintf("%s IN (%s, %s, %s)", column, random_value(world), random_value(world),
                             random_value(world));
    case 1:
      return sqlite3_mprintf("a = %s AND b %s %s", random_value(world), operators[below(world, 9)],
                             random_value(world));
    case 2:
      return sqlite3_mprintf("%s BETWEEN %s AND %s", column, random_value(world),
                             random_value(world));
    case 3:
      return sqlite3_mprintf("%s GLOB '%c*'", column, 'a' + below(world, 5));
    default:
      return sqlite3_mprintf("%s %s %s", column, operators[below(world, 9)], random_value(world));
  }
}

static void random_write(struct world *world) {
  char *where = random_where(world), *sql;
  switch (below(world, 6)) {
    case 0:
      sql = sqlite3_mprintf("DELETE FROM @ WHERE %s AND v %% 3 = 0", where);
      break;
    case 1:
      sql = sqlite3_mprintf("UPDATE @ SET v = v + 1 WHERE %s", where);
      break;
    default:
      sql = sqlite3_mprintf("INSERT OR REPLACE INTO @ VALUES(%s, %s, %d)", random_value(world),
                            random_value(world), below(world, 1000));
      break;
  }
  ck_assert_ptr_nonnull(sql);
  both(db, sql);
  sqlite3_free(sql);
  sqlite3_free(where);
}

static void random_read(struct world *world) {
  static const char *const reads[] = {
      "SELECT *, typeof(a), typeof(b) FROM @ WHERE %s ORDER BY a, b",
      "SELECT a, v FROM @ WHERE %s ORDER BY a DESC, b DESC LIMIT 5",
      "SELECT count(*), min(a), max(a), min(b), sum(v) FROM @ WHERE %s",
      "SELECT a, count(*) FROM @ WHERE %s GROUP BY a ORDER BY a",
      "SELECT DISTINCT b FROM @ WHERE %s ORDER BY b",
      "SELECT EXISTS(SELECT 1 FROM @ WHERE %s), (SELECT max(a) FROM @), (SELECT count(*) FROM @)",
  };
  char *where = random_where(world);
  bothf(db, reads[below(world, sizeof reads / sizeof *reads)], where);
  sqlite3_free(where);
}

static void random_work(struct world *world) {
  switch (below(world, 60)) {
    case 0:
      sql_ok(db, "INSERT INTO t(t) VALUES('flush')");
      break;
    case 1:
      sql_ok(db, "INSERT INTO t(t) VALUES('compact')");
      break;
    case 2:
      sql_ok(db, "SAVEPOINT s");
      random_write(world);
      random_read(world);
      sql_ok(db, below(world, 2) ? "ROLLBACK TO s; RELEASE s" : "RELEASE s");
      break;
    case 3:
      sql_rows(db, "SELECT * FROM colfam_check('t')", "");
      break;
    default:
      if (below(world, 2))
        random_write(world);
      else
        random_read(world);
      break;
  }
}

static const char *const order_names[] = {"reverse", "turned", "backwards"};
static const char *const key_forms[] = {"PRIMARY KEY(a)", "PRIMARY KEY(a DESC)",
                                        "PRIMARY KEY(a, b)", "PRIMARY KEY(a DESC, b)",
                                        "PRIMARY KEY(b, a)"};
static const char *const types[] = {"a, b", "a TEXT, b INTEGER", "a BLOB, b TEXT"};
enum { FORMS = 5, TYPES = 3, ORDERS = 3 };

/* All orders, forms of keys and types. */
START_TEST(random_statements_give_an_ordinary_tables_rows) {
  struct world world = {.order = order_names[_i % ORDERS], .keys = _i / ORDERS % FORMS < 2 ? 1 : 2};
  const char *steps = getenv("COLFAM_STEPS");
  int count = steps ? atoi(steps) / 100 : 250;
  harness_seed(&world.random, harness_seed_env(1 + (uint64_t)_i));
  char *columns =
      sqlite3_mprintf("%s, v, %s", types[_i / ORDERS / FORMS], key_forms[_i / ORDERS % FORMS]);
  char *options = sqlite3_mprintf(", comparator = '%s', memtable_bytes = 16384", world.order);
  both_create(db, columns, " WITHOUT ROWID", options);
  for (int i = 0; i < count; i++) random_work(&world);
  sql_rows(db, "SELECT * FROM colfam_check('t')", "");
  both_drop(db);
  sqlite3_free(columns);
  sqlite3_free(options);
}
END_TEST

/* ---- Registering */

static int destroyed, opened, closed;

static void count_destroy(void *context) {
  (void)context;
  destroyed++;
}

static void *count_open(void *context) {
  (void)context;
  __atomic_add_fetch(&opened, 1, __ATOMIC_RELAXED);
  return &opened;
}

static void count_close(void *context) {
  ck_assert_ptr_eq(context, &opened);
  __atomic_add_fetch(&closed, 1, __ATOMIC_RELAXED);
}

/* *text is to be freed. */
static int registers(const struct colfam_order *order, char **text) {
  const struct colfam_api *api = orders_api(db);
  struct colfam_order sized = *order;
  sized.size = sizeof sized;
  return api->register_order(api, &sized, text);
}

static int unregisters(const char *name, char **text) {
  const struct colfam_api *api = orders_api(db);
  return api->unregister_order(api, name, text);
}

START_TEST(orders_that_cannot_be_are_refused) {
  const struct colfam_order bad[] = {
      {.name = NULL, .encode = orders_encode_turned},
      {.name = "", .encode = orders_encode_turned},
      {.name = "reverse", .encode = orders_encode_turned},
      {.name = "Bytewise", .encode = orders_encode_turned},
      {.name = "1st", .encode = orders_encode_turned},
      {.name = "two words", .encode = orders_encode_turned},
      {.name = "a-name-of-sixty-four-letters-is-one-letter-too-long-for-an-order",
       .encode = orders_encode_turned},
      {.name = "neither"},
      {.name = "both", .encode = orders_encode_turned, .compare = orders_compare_backwards},
      {.name = "no-open", .encode = orders_encode_turned, .threads = COLFAM_THREADS_OWN_CONTEXT},
      {.name = "threads", .encode = orders_encode_turned, .threads = 4},
      {.name = "copies", .compare = orders_compare_backwards, .copy_bytes = 1000000}};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    char *text = NULL;
    ck_assert_int_eq(registers(&bad[i], &text), SQLITE_MISUSE);
    ck_assert_ptr_nonnull(text);
    sqlite3_free(text);
  }
  ck_assert_int_eq(registers(&(struct colfam_order){.name = "Turned",
                                                    .encode = orders_encode_turned,
                                                    .destroy = count_destroy},
                             NULL),
                   SQLITE_BUSY);
  ck_assert_int_eq(destroyed, 0);
}
END_TEST

START_TEST(an_order_is_kept_while_it_is_used) {
  orders_register(db, &(struct colfam_order){.name = "counted",
                                             .compare = orders_compare_backwards,
                                             .threads = COLFAM_THREADS_OWN_CONTEXT,
                                             .open = count_open,
                                             .close = count_close,
                                             .destroy = count_destroy});
  sql_ok(db, "CREATE VIRTUAL TABLE t USING colfam(k TEXT PRIMARY KEY, comparator = counted);"
             "INSERT INTO t VALUES('b'), ('a'), ('c'); INSERT INTO t(t) VALUES('flush')");
  char *text = NULL;
  ck_assert_int_eq(unregisters("counted", &text), SQLITE_BUSY);
  ck_assert_msg(strstr(text, "counted is in use") != NULL, "%s", text);
  sqlite3_free(text);
  sql_rows(db, "SELECT k FROM t", "a\nb\nc");
  sql_close(db);
  db = sql_open(sql_path("app.db"));
  ck_assert_int_eq(opened - closed, 1);
  ck_assert_int_eq(unregisters("COUNTED", NULL), SQLITE_OK);
  ck_assert_int_eq(opened, closed);
  ck_assert_int_eq(destroyed, 1);
  ck_assert_int_eq(unregisters("counted", NULL), SQLITE_NOTFOUND);
  sql_fails(db, "SELECT k FROM t", SQLITE_ERROR,
            "table t: its comparator counted is not registered");
  sql_fails(db, "INSERT INTO t VALUES('d')", SQLITE_ERROR, "counted is not registered");
  orders_register(db,
                  &(struct colfam_order){.name = "counted", .compare = orders_compare_backwards});
  sql_rows(db, "SELECT k FROM t", "a\nb\nc");
}
END_TEST

START_TEST(a_table_of_an_unknown_order_can_be_dropped) {
  sql_ok(db, "CREATE VIRTUAL TABLE t USING colfam(k TEXT PRIMARY KEY, comparator = folded);"
             "CREATE VIRTUAL TABLE c USING colfam(k TEXT PRIMARY KEY, comparator = backwards);"
             "INSERT INTO t VALUES('a'); INSERT INTO t(t) VALUES('flush');"
             "INSERT INTO c VALUES('a'); INSERT INTO c(c) VALUES('flush')");
  sql_close(db);
  db = sql_open(sql_path("app.db"));
  ck_assert_int_eq(unregisters("folded", NULL), SQLITE_OK);
  ck_assert_int_eq(unregisters("backwards", NULL), SQLITE_OK);
  sql_fails(db, "SELECT * FROM t", SQLITE_ERROR, "folded is not registered");
  sql_ok(db, "DROP TABLE t; ALTER TABLE c RENAME TO d; DROP TABLE d");
  sql_rows(db, "SELECT name FROM sqlite_schema", "");
}
END_TEST

START_TEST(the_order_is_fixed) {
  sql_ok(db, "CREATE VIRTUAL TABLE t USING colfam(k TEXT PRIMARY KEY, comparator = folded)");
  sql_fails(db, "INSERT INTO t(t) VALUES('comparator=turned')", SQLITE_ERROR, "fixed at CREATE");
  sql_trust(db);
  sql_ok(db, "UPDATE t_cfmeta SET value = 'turned' WHERE name = 'option.comparator'");
  sql_close(db);
  db = sql_open(sql_path("app.db"));
  sql_fails(db, "SELECT * FROM t", SQLITE_CORRUPT,
            "created with comparator folded, t_cfmeta says turned");
  sql_ok(db, "DROP TABLE t");
}
END_TEST

/* What a collation makes equal has one sort key, and the text as it was written comes back. */
START_TEST(an_encoder_gets_what_a_collation_compares) {
  sql_ok(db, "CREATE VIRTUAL TABLE t USING colfam(k TEXT COLLATE NOCASE, j TEXT COLLATE RTRIM, v,"
             " PRIMARY KEY(k, j), comparator = turned);"
             "INSERT INTO t VALUES('Ab', 'x', 1), ('', ' ', 2), ('aC', 'y ', 3)");
  for (int flushed = 0; flushed < 2; flushed++) {
    sql_rows(db, "SELECT k, j || '.', v FROM t ORDER BY v", "Ab|x.|1\n| .|2\naC|y .|3");
    sql_plan(db, "SELECT v FROM t WHERE k = ?1 AND j = ?2", "get k,j");
    sql_rows(db, "SELECT v FROM t WHERE k = 'AB' AND j = 'x  '", "1");
    sql_rows(db, "SELECT v FROM t WHERE k = 'AB' COLLATE BINARY AND j = 'x'", "");
    sql_rows(db, "SELECT v FROM t WHERE k IN ('', 'AC') AND j IN ('', 'y') ORDER BY v", "2\n3");
    sql_fails(db, "INSERT INTO t VALUES('aB', 'x ', 4)", SQLITE_CONSTRAINT_PRIMARYKEY, NULL);
    sql_ok(db, "INSERT INTO t(t) VALUES('flush')");
  }
  sql_ok(db, "REPLACE INTO t VALUES('aB', 'x ', 4)");
  sql_rows(db, "SELECT k, j || '.', v FROM t WHERE k = 'ab' AND j = 'x'", "aB|x .|4");
  sql_rows(db, "SELECT * FROM colfam_check('t')", "");
}
END_TEST

START_TEST(a_comparator_stands_beside_a_collation) {
  sql_ok(db, "CREATE VIRTUAL TABLE t USING colfam(k TEXT COLLATE NOCASE PRIMARY KEY, comparator = "
             "backwards);"
             "INSERT INTO t VALUES('Ab'), ('aC'), ('ba')");
  sql_rows(db, "SELECT k FROM t", "ba\nAb\naC");
  sql_rows(db, "SELECT k FROM t WHERE k = 'AB'", "Ab");
}
END_TEST

/* ---- Functions that do not keep their word */

static int compare_at_random(void *context, const void *a, int a_size, const void *b, int b_size) {
  (void)a, (void)b, (void)a_size, (void)b_size;
  return (int)harness_below(context, 3) - 1;
}

/* The same, but for what it calls equal. */
static int tell_apart_at_random(void *context, const void *a, int a_size, const void *b,
                                int b_size) {
  bool same = a_size == b_size && memcmp(a, b, (size_t)a_size) == 0;
  return same ? 0 : (int)harness_below(context, 2) * 2 - 1;
}

static int encode_too_much(void *context, const void *bytes, int size, void *into, int room) {
  (void)context, (void)bytes, (void)into, (void)room;
  return size > 3 ? 70000 : -1;
}

START_TEST(a_comparator_that_makes_no_sense_ends_each_statement) {
  static struct harness_random random;
  harness_seed(&random, 7);
  orders_register(db,
                  &(struct colfam_order){.name = "random",
                                         .context = &random,
                                         .compare = _i ? compare_at_random : tell_apart_at_random,
                                         .threads = COLFAM_THREADS_MUTEX});
  sql_ok(db, "CREATE VIRTUAL TABLE t USING colfam(k TEXT PRIMARY KEY, v, comparator = random, "
             "memtable_bytes = 16384)");
  static const char *const statements[] = {
      "INSERT OR REPLACE INTO t WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n "
      "WHERE i < 300)"
      " SELECT 'key' || i, i FROM n",
      "INSERT INTO t(t) VALUES('flush')",
      "SELECT count(*), sum(v) FROM t WHERE k > ''",
      "SELECT v FROM t WHERE k IN ('key1', 'key20', 'key3', 'key299')",
      "DELETE FROM t WHERE v % 3 = 1",
      "INSERT INTO t(t) VALUES('compact')",
      "SELECT * FROM t ORDER BY k DESC",
      "SELECT * FROM colfam_check('t')",
      "UPDATE t SET k = k || 'x' WHERE v % 5 = 0",
      "SELECT * FROM colfam_salvage('t')"};
  for (int i = 0; i < 60; i++) {
    int rc = sqlite3_exec(db, statements[i % 10], NULL, NULL, NULL) & 0xff;
    ck_assert_msg(rc == SQLITE_OK || rc == SQLITE_CORRUPT || rc == SQLITE_ERROR ||
                      rc == SQLITE_MISUSE || rc == SQLITE_CONSTRAINT,
                  "%d: %d", i, rc);
  }
}
END_TEST

/* Of three bytes of a key the first only. */
static int compare_beginnings(void *context, const void *a, int a_size, const void *b, int b_size) {
  (void)context;
  return orders_compare_backwards(NULL, a, a_size < 1 ? a_size : 1, b, b_size < 1 ? b_size : 1);
}

START_TEST(different_keys_called_equal_are_found_by_the_flush_at_the_latest) {
  orders_register(db, &(struct colfam_order){.name = "short", .compare = compare_beginnings});
  sql_ok(db, "CREATE VIRTUAL TABLE t USING colfam(k TEXT PRIMARY KEY, v, comparator = short);"
             "INSERT INTO t VALUES('a1', 1), ('b1', 2)");
  bool kept = sqlite3_exec(db, "INSERT INTO t VALUES('b2', 3)", NULL, NULL, NULL) == SQLITE_OK;
  if (kept)
    sql_fails(db, "INSERT INTO t(t) VALUES('flush')", SQLITE_MISUSE,
              "order short is not one: its comparator calls different keys equal");
  sql_rows(db, "SELECT v FROM t WHERE k IN ('a1', 'b1', 'b2', 'c1')", kept ? "1\n2\n3" : "1\n2");
  sql_ok(db, "DELETE FROM t WHERE k = 'b2'");
  sql_rows(db, "SELECT count(*) FROM t", "2");
}
END_TEST

START_TEST(sort_keys_that_are_too_long_are_refused) {
  orders_register(db, &(struct colfam_order){.name = "toomuch", .encode = encode_too_much});
  sql_ok(db, "CREATE VIRTUAL TABLE t USING colfam(k TEXT PRIMARY KEY, comparator = toomuch)");
  sql_fails(db, "INSERT INTO t VALUES('long')", SQLITE_TOOBIG, NULL);
  sql_fails(db, "INSERT INTO t VALUES('abc')", SQLITE_NOMEM, NULL);
  sql_rows(db, "SELECT count(*) FROM t WHERE k = 'long'", "0");
}
END_TEST

START_TEST(check_order_says_what_contradicts_what) {
  const struct colfam_api *api = orders_api(db);
  struct harness_random random;
  harness_seed(&random, 3);
  static const char letters[] = "ABCdefabcDEFabcdefghij";
  struct colfam_value values[20];
  for (int i = 0; i < 20; i++)
    values[i] =
        (struct colfam_value){.type = SQLITE_TEXT, .bytes = &letters[i % 10], .size = i % 7};
  ck_assert_int_eq(api->check_order(api, "turned", values, 20, NULL), SQLITE_OK);
  ck_assert_int_eq(api->check_order(api, "folded", values, 20, NULL), SQLITE_OK);
  ck_assert_int_eq(api->check_order(api, "backwards", values, 20, NULL), SQLITE_OK);
  orders_register(db, &(struct colfam_order){.name = "random",
                                             .context = &random,
                                             .compare = compare_at_random,
                                             .threads = COLFAM_THREADS_MUTEX});
  char *text = NULL;
  ck_assert_int_eq(api->check_order(api, "random", values, 20, &text), SQLITE_CONSTRAINT);
  ck_assert_msg(strstr(text, "value") != NULL, "%s", text);
  sqlite3_free(text);
  ck_assert_int_eq(api->check_order(api, "none", values, 20, NULL), SQLITE_NOTFOUND);
  static uint8_t longest[65537];
  struct colfam_value large = {.type = SQLITE_BLOB, .bytes = longest, .size = 65536};
  ck_assert_int_eq(api->check_order(api, "backwards", &large, 1, NULL), SQLITE_OK);
  large.size++;
  ck_assert_int_eq(api->check_order(api, "backwards", &large, 1, &text), SQLITE_TOOBIG);
  ck_assert_str_eq(text, "value 0 has more bytes than a key can have, which are 65536");
  sqlite3_free(text);
  large.size = -1;
  ck_assert_int_eq(api->check_order(api, "turned", &large, 1, NULL), SQLITE_MISUSE);
  ck_assert_int_eq(api->check_order(api, "turned", NULL, 1, NULL), SQLITE_MISUSE);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("sql_orders");
  TCase *rows = tcase_create("rows");
  tcase_add_checked_fixture(rows, open_database, close_database);
  tcase_add_test(rows, reverse_is_the_other_direction_of_each_column);
  tcase_add_test(rows, rowids_in_reverse_are_given_as_ever);
  tcase_add_test(rows, an_encoder_orders_texts_and_blobs);
  tcase_add_test(rows, columns_behind_an_encoded_one_are_ranges);
  tcase_add_test(rows, keys_that_are_encoded_alike_are_one);
  tcase_add_test(rows, a_comparator_orders_the_content_of_one_column);
  tcase_add_test(rows, a_comparator_gets_the_whole_of_longer_keys);
  tcase_add_test(rows, copies_are_in_their_tables_order);
  tcase_add_test(rows, lists_of_a_product_too_large_are_walked);
  tcase_add_test(rows, numbers_find_the_texts_that_spell_them);
  suite_add_tcase(suite, rows);
  TCase *random = tcase_create("random");
  tcase_add_checked_fixture(random, open_database, close_database);
  tcase_add_loop_test(random, random_statements_give_an_ordinary_tables_rows, 0,
                      ORDERS * FORMS * TYPES);
  suite_add_tcase(suite, random);
  TCase *registering = tcase_create("registering");
  tcase_add_checked_fixture(registering, open_database, close_database);
  tcase_add_test(registering, orders_that_cannot_be_are_refused);
  tcase_add_test(registering, an_order_is_kept_while_it_is_used);
  tcase_add_test(registering, a_table_of_an_unknown_order_can_be_dropped);
  tcase_add_test(registering, the_order_is_fixed);
  tcase_add_test(registering, an_encoder_gets_what_a_collation_compares);
  tcase_add_test(registering, a_comparator_stands_beside_a_collation);
  tcase_add_loop_test(registering, a_comparator_that_makes_no_sense_ends_each_statement, 0, 2);
  tcase_add_test(registering, different_keys_called_equal_are_found_by_the_flush_at_the_latest);
  tcase_add_test(registering, sort_keys_that_are_too_long_are_refused);
  tcase_add_test(registering, check_order_says_what_contradicts_what);
  suite_add_tcase(suite, registering);
  return harness_run(suite);
}
