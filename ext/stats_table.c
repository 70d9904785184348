/* colfam_stats: every counter of the engine for each table that this connection has opened, and what the
** process has for all (table_name NULL). Counters belong to the process: what other connections to the same
** table did is in them. Thread rule: the connection's. */
#include <stdbool.h>

#include "engine/kv.h"
#include "store.h"
#include "table.h"
#include "tvf.h"
#include "vtab.h"
#include "worker.h"

static void append_fact(struct colfam_list *list, const char *name, sqlite3_int64 value,
                        const char *unit, const char *meaning) {
  colfam_list_text(list, name);
  colfam_list_integer(list, value);
  colfam_list_text(list, unit);
  colfam_list_text(list, meaning);
}

static void append_name(struct colfam_list *list, const struct colfam_vtab *vtab) {
  const char *table = vtab->schema->table;
  colfam_list_table(list, vtab->database, table, colfam_conn_hides(vtab->conn, table));
  colfam_list_text(list, vtab->database);
}

static void append_counters(struct colfam_list *list, const struct colfam_vtab *vtab) {
  const struct kv_stats *stats = kv_family_stats(vtab->table->family);
  for (int i = 0; i < KV_STAT_COUNT; i++) {
    const struct kv_stat_info *info = kv_stat_info((enum kv_stat)i);
    append_name(list, vtab);
    append_fact(list, info->name, (sqlite3_int64)kv_stats_get(stats, (enum kv_stat)i), info->unit,
                info->text);
  }
}

/* What the process holds now. */
static void append_state(struct colfam_list *list, const struct colfam_vtab *vtab) {
  struct kv_family *family = vtab->table->family;
  struct kv_view_facts views;
  kv_family_view_facts(family, &views);
  append_name(list, vtab);
  append_fact(list, "memtable_memory", (sqlite3_int64)kv_family_memory(family), "bytes",
              "memory of the memtables held now");
  append_name(list, vtab);
  append_fact(list, "views", (sqlite3_int64)views.count, "views",
              "views held now, by statements, transactions, work and caches");
  append_name(list, vtab);
  append_fact(list, "oldest_view_ms", (sqlite3_int64)(views.oldest_us / 1000), "milliseconds",
              "age of the oldest view that is behind the newest one");
  append_name(list, vtab);
  append_fact(list, "view_pinned_bytes", (sqlite3_int64)views.pinned_bytes, "bytes",
              "files that only such views still need");
  append_name(list, vtab);
  append_fact(list, "files_waiting",
              (sqlite3_int64)colfam_store_count_removals(vtab->table->store, family), "files",
              "files that wait until nobody can need them");
}

static void append_process_fact(struct colfam_list *list, const char *name, uint64_t value,
                                const char *unit, const char *meaning) {
  colfam_list_null(list);
  colfam_list_null(list);
  append_fact(list, name, (sqlite3_int64)value, unit, meaning);
}

static void append_process(struct colfam_list *list, struct kv_cache *cache) {
  struct colfam_worker_facts thread = colfam_worker_facts();
  append_process_fact(list, "cache_bytes", kv_cache_bytes(cache), "bytes",
                      "blocks held by the process's cache now");
  append_process_fact(list, "cache_budget_bytes", kv_cache_budget(cache), "bytes",
                      "what the process's cache may hold");
  append_process_fact(list, "open_files", kv_open_files_count(kv_cache_files(cache)), "files",
                      "table files open for reading now");
  append_process_fact(list, "thread_jobs", thread.jobs, "jobs",
                      "flushes and merges finished by the background thread");
  append_process_fact(list, "thread_failures", thread.failures, "jobs", "of its jobs that failed");
  append_process_fact(list, "thread_steps", thread.steps, "steps",
                      "pieces of about 1 MiB that it has worked through");
}

/* Several vtab objects may stand for one table (DDL makes new ones): the first speaks for it. */
static bool is_first(const struct colfam_conn *conn, const struct colfam_vtab *vtab) {
  const struct colfam_vtab *other = conn->vtabs;
  while (other != vtab && other->table != vtab->table) other = other->next;
  return other == vtab;
}

static int stats_gather(struct colfam_conn *conn, const char *name, struct colfam_list *list,
                        char **message) {
  (void)name, (void)message;
  for (const struct colfam_vtab *vtab = conn->vtabs; vtab; vtab = vtab->next) {
    if (!vtab->table || !is_first(conn, vtab)) continue;
    append_counters(list, vtab);
    append_state(list, vtab);
  }
  struct kv_cache *cache = colfam_store_cache();
  if (cache) append_process(list, cache);
  return SQLITE_OK;
}

const struct colfam_tvf colfam_stats_tvf = {
    .name = "colfam_stats",
    .columns = "table_name TEXT, schema TEXT, name TEXT, value INTEGER, unit TEXT, meaning TEXT",
    .column_count = 6,
    .harmless = true,
    .gather = stats_gather,
};
