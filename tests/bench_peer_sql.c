/* Through SQL, the same statements on a table t(k BLOB PRIMARY KEY, v BLOB) of four makes: SQLite's own
** without and with a rowid, the floor (bench_floor.h), and colfam; and colfam through ext/colfam.h
** (bench_peer.h). All statements are prepared once; reads happen inside a transaction. */
#include "bench_peer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench_floor.h"
#include "bench_peer_sql.h"
#include "colfam.h"
#include "harness_sql.h"

#define LIST_KINDS 8 /* lengths of IN lists for which a statement is kept */

enum statement {
  BEGIN,
  COMMIT,
  ROLLBACK,
  SAVEPOINT,
  ROLLBACK_TO,
  RELEASE,
  PUT,
  REMOVE,
  GET,
  EXISTS,
  MAY_EXIST,
  PACKED,
  SCAN,
  RANGE,
  STATEMENTS
};

struct sql_store {
  sqlite3 *db;
  sqlite3_stmt *statements[STATEMENTS];
  sqlite3_stmt *lists[LIST_KINDS];
  size_t list_sizes[LIST_KINDS];
  const struct colfam_api *api;
  struct colfam_value *values; /* for keys of a call */
  unsigned char *answers;
  struct colfam_room *rooms;
  char *buffers; /* of value_bytes each */
  size_t values_room;
  size_t value_bytes;
};

static void need(sqlite3 *db, int rc) {
  bool ok = rc == SQLITE_OK || rc == SQLITE_ROW || rc == SQLITE_DONE;
  bench_need(ok, "SQLite: code %d: %s", rc, sqlite3_errmsg(db));
}

sqlite3 *bench_sql_db(void *store) {
  return ((struct sql_store *)store)->db;
}

void bench_sql(sqlite3 *db, const char *sql) {
  need(db, sqlite3_exec(db, sql, NULL, NULL, NULL));
}

sqlite3_stmt *bench_sql_prepare(sqlite3 *db, const char *sql) {
  sqlite3_stmt *made = NULL;
  need(db, sqlite3_prepare_v3(db, sql, -1, SQLITE_PREPARE_PERSISTENT, &made, NULL));
  return made;
}

sqlite3_int64 bench_sql_step(sqlite3_stmt *statement) {
  sqlite3_int64 value = 0;
  int rc = sqlite3_step(statement);
  if (rc == SQLITE_ROW) value = sqlite3_column_int64(statement, 0);
  while (rc == SQLITE_ROW) rc = sqlite3_step(statement);
  need(sqlite3_db_handle(statement), rc);
  sqlite3_reset(statement);
  return value;
}

sqlite3 *bench_sql_open(const char *dir, size_t cache_bytes, int durable) {
  sqlite3 *db = NULL;
  char *message = NULL;
  char text[4096];
  snprintf(text, sizeof text, "%s/app.db", dir);
  need(db, sqlite3_open(text, &db));
  sql_use_threads(1);
  bench_need(sql_load(db, &message) == SQLITE_OK, "%s: %s", sql_extension(), message);
  need(db, bench_floor_register(db));
  bench_sql(db, "PRAGMA journal_mode = wal");
  bench_sql(db, durable ? "PRAGMA synchronous = full" : "PRAGMA synchronous = normal");
  if (cache_bytes) {
    snprintf(text, sizeof text,
             "PRAGMA cache_size = -%zu; SELECT colfam_config('cache_bytes', %zu)",
             cache_bytes / 1024, cache_bytes);
    bench_sql(db, text);
  }
  return db;
}

/* ---- Opening */

static sqlite3_stmt *prepared(struct sql_store *store, enum statement which) {
  static const char *const texts[] = {
      [BEGIN] = "BEGIN",
      [COMMIT] = "COMMIT",
      [ROLLBACK] = "ROLLBACK",
      [SAVEPOINT] = "SAVEPOINT s",
      [ROLLBACK_TO] = "ROLLBACK TO s",
      [RELEASE] = "RELEASE s",
      [PUT] = "INSERT OR REPLACE INTO t VALUES(?1, ?2)",
      [REMOVE] = "DELETE FROM t WHERE k = ?1",
      [GET] = "SELECT v FROM t WHERE k = ?1",
      [EXISTS] = "SELECT EXISTS (SELECT 1 FROM t WHERE k = ?1)",
      [MAY_EXIST] = "SELECT colfam_may_exist('t', ?1)",
      [PACKED] = "SELECT v FROM t WHERE colfam_keys = ?1",
      [SCAN] = "SELECT v FROM t",
      [RANGE] = "SELECT v FROM t WHERE k >= ?1 ORDER BY k LIMIT ?2",
  };
  if (!store->statements[which]) {
    store->statements[which] = bench_sql_prepare(store->db, texts[which]);
  }
  return store->statements[which];
}

static struct sql_store *open_table(const char *dir, const struct bench_setup *setup,
                                    const char *create, const char *packed) {
  struct sql_store *store = calloc(1, sizeof *store);
  store->value_bytes = setup->shape.value_bytes;
  char *sql = sqlite3_mprintf(create, setup->option ? ", " : "", setup->option);
  store->db = bench_sql_open(dir, setup->cache_bytes, setup->durable);
  sqlite3_stmt *look =
      bench_sql_prepare(store->db, "SELECT count(*) FROM sqlite_schema WHERE name = 't'");
  if (bench_sql_step(look) == 0) bench_sql(store->db, sql);
  sqlite3_finalize(look);
  sqlite3_free(sql);
  if (packed) store->statements[PACKED] = bench_sql_prepare(store->db, packed);
  if (!setup->replaces) {
    store->statements[PUT] = bench_sql_prepare(store->db, "INSERT INTO t VALUES(?1, ?2)");
  }
  return store;
}

#define PACKED_SQLITE "SELECT v FROM t WHERE k IN (SELECT key FROM bench_keys(?1))"
static void *open_sqlite(const char *dir, const struct bench_setup *setup) {
  return open_table(dir, setup, "CREATE TABLE t(k BLOB PRIMARY KEY, v BLOB) WITHOUT ROWID",
                    PACKED_SQLITE);
}

#define MAPPED_BYTES "1073741824"
static void *open_sqlite_mapped(const char *dir, const struct bench_setup *setup) {
  struct sql_store *store = open_sqlite(dir, setup);
  bench_sql(store->db, "PRAGMA mmap_size = " MAPPED_BYTES);
  return store;
}

static void *open_rowid(const char *dir, const struct bench_setup *setup) {
  return open_table(dir, setup, "CREATE TABLE t(k BLOB, v BLOB); CREATE UNIQUE INDEX tk ON t(k)",
                    PACKED_SQLITE);
}

static void *open_floor(const char *dir, const struct bench_setup *setup) {
  return open_table(dir, setup, "CREATE VIRTUAL TABLE t USING bench_floor",
                    "SELECT v FROM t WHERE keys = ?1");
}

static void *open_colfam(const char *dir, const struct bench_setup *setup) {
  struct sql_store *store = open_table(
      dir, setup, "CREATE VIRTUAL TABLE t USING colfam(k BLOB PRIMARY KEY, v BLOB%s%s)", NULL);
  sqlite3_stmt *ask = bench_sql_prepare(store->db, "SELECT colfam_api(?1)");
  sqlite3_bind_pointer(ask, 1, &store->api, COLFAM_API_POINTER, NULL);
  bench_sql_step(ask);
  sqlite3_finalize(ask);
  bench_need(store->api, "colfam gives no functions");
  return store;
}

static void describe(const struct sql_store *store, const char *what, char *text, size_t size) {
  sqlite3_stmt *ask = bench_sql_prepare(store->db, "PRAGMA mmap_size");
  sqlite3_int64 mapped = bench_sql_step(ask);
  sqlite3_finalize(ask);
  snprintf(text, size, "%s, SQLite %s; WAL, prepared statements, mmap_size %lld", what,
           sqlite3_libversion(), (long long)mapped);
}

static void describe_sqlite(const void *opened, const struct bench_setup *setup, char *text,
                            size_t size) {
  (void)setup;
  describe(opened, "WITHOUT ROWID", text, size);
}

static void describe_rowid(const void *opened, const struct bench_setup *setup, char *text,
                           size_t size) {
  (void)setup;
  describe(opened, "rowid table with a unique index", text, size);
}

static void describe_floor(const void *opened, const struct bench_setup *setup, char *text,
                           size_t size) {
  (void)setup;
  describe(opened, "virtual table over a hash table in memory: what SQLite itself costs", text,
           size);
}

/* With the options that the table has. */
static void describe_colfam(const void *opened, const struct bench_setup *setup, char *text,
                            size_t size) {
  const struct sql_store *store = opened;
  (void)setup;
  sqlite3_stmt *ask = bench_sql_prepare(
      store->db, "SELECT colfam_version(), options, colfam_config('threads') FROM colfam_families"
                 " WHERE table_name = 't'");
  bench_need(sqlite3_step(ask) == SQLITE_ROW, "no colfam table");
  snprintf(text, size, "colfam %s, SQLite %s; WAL, prepared statements, %d background thread; %s",
           sqlite3_column_text(ask, 0), sqlite3_libversion(), sqlite3_column_int(ask, 2),
           sqlite3_column_text(ask, 1));
  sqlite3_finalize(ask);
}

static void close_store(void *opened) {
  struct sql_store *store = opened;
  for (int i = 0; i < STATEMENTS; i++) sqlite3_finalize(store->statements[i]);
  for (int i = 0; i < LIST_KINDS; i++) sqlite3_finalize(store->lists[i]);
  need(store->db, sqlite3_close(store->db));
  free(store->values);
  free(store->answers);
  free(store->rooms);
  free(store->buffers);
  free(store);
}

/* ---- Writing */

static void run(struct sql_store *store, enum statement which) {
  bench_sql_step(prepared(store, which));
}

static void begin(void *opened) {
  run(opened, BEGIN);
}
static void commit(void *opened) {
  run(opened, COMMIT);
}
static void rollback(void *opened) {
  run(opened, ROLLBACK);
}
static void savepoint(void *opened) {
  run(opened, SAVEPOINT);
}
/* The savepoint stays, as in an application that tries again; a new one of its name hides it. */
static void rollback_to(void *opened) {
  run(opened, ROLLBACK_TO);
  run(opened, RELEASE);
}

static void bind_bytes(sqlite3_stmt *statement, int index, struct kv_slice bytes) {
  sqlite3_bind_blob(statement, index, bytes.data, (int)bytes.size, SQLITE_STATIC);
}

static void put(void *opened, struct kv_slice key, struct kv_slice value) {
  sqlite3_stmt *statement = prepared(opened, PUT);
  bind_bytes(statement, 1, key);
  bind_bytes(statement, 2, value);
  bench_sql_step(statement);
}

static void remove_key(void *opened, struct kv_slice key) {
  sqlite3_stmt *statement = prepared(opened, REMOVE);
  bind_bytes(statement, 1, key);
  bench_sql_step(statement);
}

static void settle_sqlite(void *opened) {
  bench_sql(((struct sql_store *)opened)->db, "PRAGMA wal_checkpoint(TRUNCATE)");
}

/* A commit that changes something, and nothing of the rows. */
#define FORGET                                                                   \
  "INSERT OR REPLACE INTO t VALUES(x'00', x''); DELETE FROM t WHERE k = x'00'; " \
  "PRAGMA wal_checkpoint(TRUNCATE)"

/* Files that are dropped go once their drop is in the database file and the thread has let go of them. */
static void settle_colfam(void *opened) {
  sqlite3 *db = ((struct sql_store *)opened)->db;
  bench_sql(db, "INSERT INTO t(t) VALUES('compact')");
  bench_sql(db, "PRAGMA wal_checkpoint(TRUNCATE)");
  sqlite3_stmt *ask = bench_sql_prepare(
      db, "SELECT value FROM colfam_stats WHERE table_name = 't' AND name = 'files_waiting'");
  bench_sql(db, FORGET);
  for (int i = 0; i < 100 && bench_sql_step(ask) > 0; i++) {
    bench_rest(0.05);
    bench_sql(db, FORGET);
  }
  sqlite3_finalize(ask);
}

/* ---- Reading */

static uint64_t digest_rows(sqlite3_stmt *statement) {
  uint64_t sum = 0;
  int rc;
  while ((rc = sqlite3_step(statement)) == SQLITE_ROW) {
    const void *value = sqlite3_column_blob(statement, 0);
    sum += bench_digest(value, (size_t)sqlite3_column_bytes(statement, 0));
  }
  need(sqlite3_db_handle(statement), rc);
  sqlite3_reset(statement);
  return sum;
}

static uint64_t get(void *opened, const struct kv_slice *keys, size_t n) {
  sqlite3_stmt *statement = prepared(opened, GET);
  uint64_t sum = 0;
  for (size_t i = 0; i < n; i++) {
    bind_bytes(statement, 1, keys[i]);
    sum += digest_rows(statement);
  }
  return sum;
}

static uint64_t exists(void *opened, const struct kv_slice *keys, size_t n) {
  sqlite3_stmt *statement = prepared(opened, EXISTS);
  uint64_t count = 0;
  for (size_t i = 0; i < n; i++) {
    bind_bytes(statement, 1, keys[i]);
    count += (uint64_t)bench_sql_step(statement);
  }
  return count;
}

static sqlite3_stmt *prepare_list(sqlite3 *db, size_t n) {
  sqlite3_str *sql = sqlite3_str_new(db);
  sqlite3_str_appendall(sql, "SELECT v FROM t WHERE k IN (?");
  for (size_t i = 1; i < n; i++) sqlite3_str_appendall(sql, ", ?");
  sqlite3_str_appendall(sql, ")");
  char *text = sqlite3_str_finish(sql);
  sqlite3_stmt *made = bench_sql_prepare(db, text);
  sqlite3_free(text);
  return made;
}

static sqlite3_stmt *list_of(struct sql_store *store, size_t n) {
  size_t at = 0;
  while (at < LIST_KINDS && store->lists[at] && store->list_sizes[at] != n) at++;
  bench_need(at < LIST_KINDS, "too many lengths of lists");
  if (!store->lists[at]) store->lists[at] = prepare_list(store->db, n);
  store->list_sizes[at] = n;
  return store->lists[at];
}

static uint64_t in_list(void *opened, const struct kv_slice *keys, size_t n) {
  sqlite3_stmt *statement = list_of(opened, n);
  for (size_t i = 0; i < n; i++) bind_bytes(statement, (int)i + 1, keys[i]);
  return digest_rows(statement);
}

static uint64_t by_key_list(void *opened, const struct kv_slice *keys, size_t n) {
  sqlite3_stmt *statement = prepared(opened, PACKED);
  struct bench_key_list list = {keys, n};
  sqlite3_bind_pointer(statement, 1, &list, BENCH_KEYS_POINTER, NULL);
  return digest_rows(statement);
}

/* Keys as ext/colfam.h takes them. */
static struct colfam_keys colfam_keys_of(struct sql_store *store, const struct kv_slice *keys,
                                         size_t n) {
  if (n > store->values_room) {
    store->values = realloc(store->values, n * sizeof *store->values);
    store->answers = realloc(store->answers, n);
    store->rooms = realloc(store->rooms, n * sizeof *store->rooms);
    store->buffers = realloc(store->buffers, n * store->value_bytes);
    store->values_room = n;
  }
  for (size_t i = 0; i < n; i++) {
    store->values[i] = (struct colfam_value){
        .type = SQLITE_BLOB, .bytes = keys[i].data, .size = (sqlite3_int64)keys[i].size};
  }
  return (struct colfam_keys){store->values, (sqlite3_int64)n, 1};
}

static uint64_t by_colfam_keys(void *opened, const struct kv_slice *keys, size_t n) {
  sqlite3_stmt *statement = prepared(opened, PACKED);
  struct colfam_keys packed = colfam_keys_of(opened, keys, n);
  sqlite3_bind_pointer(statement, 1, &packed, COLFAM_KEYS_POINTER, NULL);
  return digest_rows(statement);
}

static uint64_t by_api(void *opened, const struct kv_slice *keys, size_t n) {
  struct sql_store *store = opened;
  struct colfam_request request = {"t", colfam_keys_of(store, keys, n)};
  struct colfam_result *result = NULL;
  char *message = NULL;
  uint64_t sum = 0;
  int rc = store->api->multi_get(store->api, &request, 1, &result, &message);
  bench_need(rc == SQLITE_OK, "multi_get: %s", message);
  for (size_t i = 0; i < n; i++) {
    struct colfam_value value;
    if (!store->api->found(result, 0, (sqlite3_int64)i)) continue;
    need(store->db, store->api->column(result, 0, (sqlite3_int64)i, 1, &value));
    sum += bench_digest(value.bytes, (size_t)value.size);
  }
  store->api->free_result(result);
  return sum;
}

/* Buffers of the size that the values have. */
static uint64_t into_buffers(void *opened, const struct kv_slice *keys, size_t n) {
  static const int column = 1;
  struct sql_store *store = opened;
  struct colfam_request request = {"t", colfam_keys_of(store, keys, n)};
  struct colfam_into into = {&column, 1, store->rooms};
  char *message = NULL;
  uint64_t sum = 0;
  for (size_t i = 0; i < n; i++) {
    size_t size = store->value_bytes;
    store->rooms[i].bytes = store->buffers + i * size;
    store->rooms[i].capacity = (sqlite3_int64)size;
  }
  int rc = store->api->multi_get_into(store->api, &request, 1, &into, &message);
  bench_need(rc == SQLITE_OK, "multi_get_into: %s", message);
  for (size_t i = 0; i < n; i++) {
    const struct colfam_value *value = &store->rooms[i].value;
    if (store->rooms[i].found) sum += bench_digest(value->bytes, (size_t)value->size);
  }
  return sum;
}

typedef int (*asking)(const struct colfam_api *api, const struct colfam_request *requests,
                      int count, unsigned char *answers, char **message);

/* How many are not known to be absent. */
static uint64_t ask_api(struct sql_store *store, asking ask, const struct kv_slice *keys,
                        size_t n) {
  struct colfam_request request = {"t", colfam_keys_of(store, keys, n)};
  char *message = NULL;
  int rc = ask(store->api, &request, 1, store->answers, &message);
  bench_need(rc == SQLITE_OK, "colfam.h: %s", message);
  uint64_t count = 0;
  for (size_t i = 0; i < n; i++) count += store->answers[i] != COLFAM_ABSENT;
  return count;
}

static uint64_t exists_by_api(void *opened, const struct kv_slice *keys, size_t n) {
  struct sql_store *store = opened;
  return ask_api(store, store->api->exists, keys, n);
}

static uint64_t may_exist_by_api(void *opened, const struct kv_slice *keys, size_t n) {
  struct sql_store *store = opened;
  return ask_api(store, store->api->may_exist, keys, n);
}

/* A call a key. */
static uint64_t each_by_api(void *opened, const struct kv_slice *keys, size_t n) {
  uint64_t count = 0;
  for (size_t i = 0; i < n; i++) count += exists_by_api(opened, &keys[i], 1);
  return count;
}

static uint64_t may_exist_each_by_api(void *opened, const struct kv_slice *keys, size_t n) {
  uint64_t count = 0;
  for (size_t i = 0; i < n; i++) count += may_exist_by_api(opened, &keys[i], 1);
  return count;
}

static uint64_t get_each_by_api(void *opened, const struct kv_slice *keys, size_t n) {
  uint64_t sum = 0;
  for (size_t i = 0; i < n; i++) sum += by_api(opened, &keys[i], 1);
  return sum;
}

/* The function: 0 absent, 1 present, NULL not known. */
static uint64_t may_exist_by_function(void *opened, const struct kv_slice *keys, size_t n) {
  sqlite3_stmt *statement = prepared(opened, MAY_EXIST);
  uint64_t count = 0;
  for (size_t i = 0; i < n; i++) {
    bind_bytes(statement, 1, keys[i]);
    bench_need(sqlite3_step(statement) == SQLITE_ROW, "colfam_may_exist: no row");
    count += sqlite3_column_type(statement, 0) == SQLITE_NULL || sqlite3_column_int(statement, 0);
    sqlite3_reset(statement);
  }
  return count;
}

static uint64_t scan(void *opened, struct kv_slice from, size_t n) {
  if (!from.size && n == SIZE_MAX) return digest_rows(prepared(opened, SCAN));
  sqlite3_stmt *statement = prepared(opened, RANGE);
  bind_bytes(statement, 1, from);
  sqlite3_bind_int64(statement, 2, (sqlite3_int64)n);
  return digest_rows(statement);
}

/* ---- Peers */

static const struct bench_way sqlite_ways[] = {
    {"SQLite IN", BENCH_MULTI_GET, in_list},
    {"SQLite keys by pointer", BENCH_MULTI_GET, by_key_list},
    {"SQLite", BENCH_GET, get},
    {"SQLite EXISTS", BENCH_EXISTS, exists},
};
const struct bench_peer bench_sqlite = {
    .name = "SQLite",
    .describe = describe_sqlite,
    .ways = sqlite_ways,
    .way_count = sizeof sqlite_ways / sizeof *sqlite_ways,
    .open = open_sqlite,
    .close = close_store,
    .begin = begin,
    .put = put,
    .remove = remove_key,
    .commit = commit,
    .rollback = rollback,
    .reads_own = true,
    .savepoint = savepoint,
    .rollback_to = rollback_to,
    .settle = settle_sqlite,
    .read_begin = begin,
    .read_end = commit,
    .scan = scan,
};

static const struct bench_way mapped_ways[] = {
    {"SQLite, mmap", BENCH_GET, get},
};
const struct bench_peer bench_sqlite_mapped = {
    .name = "SQLite, mmap",
    .describe = describe_sqlite,
    .ways = mapped_ways,
    .way_count = sizeof mapped_ways / sizeof *mapped_ways,
    .open = open_sqlite_mapped,
    .close = close_store,
    .begin = begin,
    .commit = commit,
    .read_begin = begin,
    .read_end = commit,
    .scan = scan,
};

static const struct bench_way rowid_ways[] = {
    {"SQLite rowid + index", BENCH_GET, get},
};
const struct bench_peer bench_sqlite_rowid = {
    .name = "SQLite rowid + index",
    .describe = describe_rowid,
    .ways = rowid_ways,
    .way_count = sizeof rowid_ways / sizeof *rowid_ways,
    .open = open_rowid,
    .close = close_store,
    .begin = begin,
    .put = put,
    .remove = remove_key,
    .commit = commit,
    .rollback = rollback,
    .reads_own = true,
    .savepoint = savepoint,
    .rollback_to = rollback_to,
    .settle = settle_sqlite,
    .read_begin = begin,
    .read_end = commit,
    .scan = scan,
};

static const struct bench_way floor_ways[] = {
    {"floor IN", BENCH_MULTI_GET, in_list},
    {"floor packed", BENCH_MULTI_GET, by_key_list},
    {"floor SQL", BENCH_GET, get},
    {"floor EXISTS", BENCH_EXISTS, exists},
};
const struct bench_peer bench_floor = {
    .name = "floor",
    .describe = describe_floor,
    .ways = floor_ways,
    .way_count = sizeof floor_ways / sizeof *floor_ways,
    .open = open_floor,
    .close = close_store,
    .begin = begin,
    .put = put,
    .remove = remove_key,
    .commit = commit,
    .rollback = rollback,
    .reads_own = true,
    .read_begin = begin,
    .read_end = commit,
    .scan = scan,
};

static const struct bench_way colfam_ways[] = {
    {"colfam.h", BENCH_MULTI_GET, by_api},
    {"colfam.h, caller's buffers", BENCH_MULTI_GET, into_buffers},
    {"colfam SQL IN", BENCH_MULTI_GET, in_list},
    {"colfam SQL packed", BENCH_MULTI_GET, by_colfam_keys},
    {"colfam SQL", BENCH_GET, get},
    {"colfam.h", BENCH_GET, get_each_by_api},
    {"colfam SQL EXISTS", BENCH_EXISTS, exists},
    {"colfam.h exists", BENCH_EXISTS, each_by_api},
    {"colfam.h exists", BENCH_EXISTS_MANY, exists_by_api},
    {"colfam SQL may_exist()", BENCH_MAY_EXIST, may_exist_by_function},
    {"colfam.h may_exist", BENCH_MAY_EXIST, may_exist_each_by_api},
    {"colfam.h may_exist", BENCH_MAY_EXIST_MANY, may_exist_by_api},
};
const struct bench_peer bench_colfam_sql = {
    .name = "colfam SQL",
    .describe = describe_colfam,
    .colfam = true,
    .ways = colfam_ways,
    .way_count = sizeof colfam_ways / sizeof *colfam_ways,
    .open = open_colfam,
    .close = close_store,
    .begin = begin,
    .put = put,
    .remove = remove_key,
    .commit = commit,
    .rollback = rollback,
    .reads_own = true,
    .savepoint = savepoint,
    .rollback_to = rollback_to,
    .settle = settle_colfam,
    .read_begin = begin,
    .read_end = commit,
    .scan = scan,
};
