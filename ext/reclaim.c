/* See reclaim.h. What a successful xCommit proves, by journal mode (from system call traces):
**
**   WAL                       nothing by itself; a PASSIVE checkpoint on the application's own connection
**                             does: F = nLog of the first such call after the drop; proved when this or a
**                             later call returns OK with nLog >= 0 and (nCkpt >= F or nLog < F)
**   TRUNCATE  at FULL, EXTRA  durable; at NORMAL by the next commit, also when the lock is exclusive
**   PERSIST, or EXCLUSIVE     durable
**   DELETE    at EXTRA        durable; at NORMAL, FULL after our own sync of the database's directory
**   MEMORY, OFF, synchronous=OFF, databases in memory and temporary ones
**                             SQLite promises nothing: at once
**
** In rollback modes a commit needs the exclusive lock, so no reader of another process is older. */
#include "reclaim.h"

#include <string.h>

#include "error.h"
#include "killpoint.h"
#include "sweep.h"

/* What the last xSync found. */
enum proof { PROOF_NONE, PROOF_NOW, PROOF_WAL, PROOF_DIRECTORY, PROOF_NEXT_COMMIT };

static void queue(struct colfam_store *store, struct kv_family *family, uint64_t id, bool doubtful,
                  bool proved) {
  struct colfam_removal *removal = sqlite3_malloc64(sizeof *removal);
  if (!removal) return;
  *removal = (struct colfam_removal){.family = kv_family_ref(family),
                                     .id = id,
                                     .doubtful = doubtful,
                                     .found = doubtful,
                                     .unnamed = !doubtful,
                                     .left = !doubtful || colfam_is_mutant("sweep-age"),
                                     .proved = proved,
                                     .wal_frames = -1};
  colfam_store_give_removal(store, removal);
}

void colfam_reclaim_add(struct colfam_store *store, struct kv_family *family, const uint64_t *ids,
                        size_t count) {
  for (size_t i = 0; i < count; i++) queue(store, family, ids[i], false, false);
}

void colfam_reclaim_doubt(struct colfam_store *store, struct kv_family *family, uint64_t id) {
  queue(store, family, id, true, false);
}

void colfam_reclaim_unnamed(struct colfam_store *store, struct kv_family *family, uint64_t id) {
  queue(store, family, id, false, true);
}

/* For tests: this proof, or none, is asked for. */
static enum proof unless(const char *mutant, enum proof proof) {
  return colfam_is_mutant(mutant) || colfam_is_mutant("removal-proof") ? PROOF_NOW : proof;
}

static enum proof decide(const char *journal, const char *locking, const char *synchronous_text) {
  enum { OFF, NORMAL, FULL, EXTRA };
  if (!*journal || !*locking || !*synchronous_text) return PROOF_NONE;
  int synchronous = synchronous_text[0] - '0';
  if (strcmp(journal, "wal") == 0) return unless("proof-wal", PROOF_WAL);
  if (synchronous == OFF || strcmp(journal, "memory") == 0 || strcmp(journal, "off") == 0)
    return PROOF_NOW;
  if (strcmp(journal, "truncate") == 0)
    return synchronous >= FULL ? PROOF_NOW : unless("proof-truncate", PROOF_NEXT_COMMIT);
  if (strcmp(journal, "persist") == 0 || strcmp(locking, "exclusive") == 0) return PROOF_NOW;
  return synchronous >= EXTRA ? PROOF_NOW : unless("proof-delete", PROOF_DIRECTORY);
}

struct review {
  struct colfam_table *table;
  struct colfam_removal *list;
  char *message; /* of what failed, sqlite3_malloc */
};

static int fail(struct review *review, int rc) {
  return colfam_error(&review->message, rc, "%s", sqlite3_errmsg(review->table->conn->db));
}

/* Whether an ordinary table is only called like a manifest. */
static bool is_foreign(sqlite3 *db, const char *database, const char *name) {
  char *sql = sqlite3_mprintf("SELECT * FROM \"%w\".\"%w\" LIMIT 0", database, name);
  sqlite3_stmt *statement = NULL;
  bool readable = sql && sqlite3_prepare_v2(db, sql, -1, &statement, NULL) == SQLITE_OK;
  sqlite3_free(sql);
  sqlite3_finalize(statement);
  return readable;
}

/* Looks for the waiting files in one table's manifest. What is only called like one is left alone. Where it
** cannot be told, every file is taken for a live one: SQLITE_AUTH. An id that the authorizer hides is
** NULL. */
static int look_in(void *context, const char *manifest) {
  if (colfam_is_mutant("sweep-names")) return SQLITE_OK;
  struct review *review = context;
  sqlite3 *db = review->table->conn->db;
  char *sql = sqlite3_mprintf("SELECT 1 FROM \"%w\".\"%w\" WHERE id = ?1 OR id IS NULL",
                              review->table->catalog.database, manifest);
  if (!sql) return SQLITE_NOMEM;
  sqlite3_stmt *statement;
  int rc = sqlite3_prepare_v2(db, sql, -1, &statement, NULL);
  sqlite3_free(sql);
  if (rc == SQLITE_ERROR)
    return is_foreign(db, review->table->catalog.database, manifest) ? SQLITE_OK : SQLITE_AUTH;
  if (rc != SQLITE_OK) return fail(review, rc);
  for (struct colfam_removal *it = review->list; it && rc == SQLITE_OK; it = it->next) {
    sqlite3_bind_int64(statement, 1, (sqlite3_int64)it->id);
    if (sqlite3_step(statement) == SQLITE_ROW) it->unnamed = false;
    rc = sqlite3_reset(statement);
    if (rc != SQLITE_OK) fail(review, rc);
    if (rc == SQLITE_OK && !sqlite3_column_count(statement)) rc = SQLITE_AUTH;
  }
  sqlite3_finalize(statement);
  return rc;
}

static void free_removal(struct colfam_removal *removal) {
  kv_family_unref(removal->family);
  sqlite3_free(removal);
}

static bool is_left(struct colfam_store *store, const struct colfam_removal *removal) {
  return removal->unnamed && (!removal->doubtful || colfam_sweep_is_left(store, removal->id));
}

/* A file that waits may be wanted again, when an older copy of the database was put back in its place, and a
** doubtful one may never have been left: its removal is void then. One that this very transaction leaves, and
** that the sweep has found, is no older than its commit. As long as SQLite's write lock is held,
** nobody can name a file or let one go. Nothing is removed as long as the manifests could not be read. */
static int review_removals(struct colfam_table *table, char **message) {
  struct colfam_removal *list = colfam_store_take_removals(table->store);
  for (struct colfam_removal *removal = list; removal; removal = removal->next)
    removal->unnamed = true;
  struct review review = {table, list, NULL};
  int rc = SQLITE_OK;
  if (list)
    rc = colfam_catalog_each(table->conn->db, table->catalog.database, "_cffile", look_in, &review,
                             &review.message);
  while (list) {
    struct colfam_removal *removal = list;
    list = removal->next;
    if (rc == SQLITE_OK && !is_left(table->store, removal)) {
      free_removal(removal);
      continue;
    }
    removal->unnamed = rc == SQLITE_OK;
    if (rc == SQLITE_OK) removal->doubtful = false;
    removal->older = removal->older || (rc == SQLITE_OK && removal->left);
    colfam_store_give_removal(table->store, removal);
  }
  if (rc == SQLITE_AUTH) rc = SQLITE_OK;
  if (rc != SQLITE_OK && review.message) colfam_error(message, rc, "%s", review.message);
  sqlite3_free(review.message);
  return rc;
}

static int note_proof(struct colfam_table *table, char **message) {
  char journal[16], locking[16], synchronous[16];
  table->proof = PROOF_NOW;
  if (!colfam_store_path(table->store)) return SQLITE_OK;
  int rc = colfam_table_pragma(table, "journal_mode", journal, sizeof journal, message);
  if (rc == SQLITE_OK)
    rc = colfam_table_pragma(table, "locking_mode", locking, sizeof locking, message);
  if (rc == SQLITE_OK)
    rc = colfam_table_pragma(table, "synchronous", synchronous, sizeof synchronous, message);
  if (rc == SQLITE_OK) table->proof = (int)decide(journal, locking, synchronous);
  return rc;
}

int colfam_reclaim_note_journal(struct colfam_table *table, char **message) {
  int rc = note_proof(table, message);
  return rc == SQLITE_OK ? review_removals(table, message) : rc;
}

static bool sync_database_dir(struct colfam_table *table) {
  const char *path = colfam_store_path(table->store);
  const char *slash = strrchr(path, '/');
  char *dir = slash ? sqlite3_mprintf("%.*s", slash > path ? (int)(slash - path) : 1, path)
                    : sqlite3_mprintf(".");
  bool synced = dir && (colfam_is_mutant("proof-sync") ||
                        kv_env_sync_dir(colfam_store_env(table->store), dir, NULL) == KV_OK);
  sqlite3_free(dir);
  return synced;
}

/* The rule for WAL. log_frames < 0: no checkpoint result this time. */
static void prove_by_checkpoint(struct colfam_removal *removal, int log_frames, int done_frames) {
  if (log_frames < 0) return;
  if (removal->wal_frames < 0) removal->wal_frames = log_frames;
  removal->proved = done_frames >= removal->wal_frames || log_frames < removal->wal_frames;
}

static bool waits_for_proof(const struct colfam_removal *removal) {
  return !removal->proved && removal->unnamed;
}

/* What is proved may be held by a view for long: it costs no checkpoint. */
static void prove(struct colfam_table *table, struct colfam_removal *list) {
  int log_frames = -1, done_frames = -1;
  bool synced = false;
  enum proof proof = (enum proof)table->proof;
  struct colfam_removal *first = list;
  while (first && !waits_for_proof(first)) first = first->next;
  if (!first) return;
  if (proof == PROOF_WAL &&
      sqlite3_wal_checkpoint_v2(table->conn->db, table->catalog.database, SQLITE_CHECKPOINT_PASSIVE,
                                &log_frames, &done_frames) != SQLITE_OK)
    log_frames = -1;
  if (proof == PROOF_NONE) return;
  if (proof == PROOF_DIRECTORY) synced = sync_database_dir(table);
  for (struct colfam_removal *removal = first; removal; removal = removal->next) {
    if (!waits_for_proof(removal)) continue;
    removal->left = true;
    if (proof == PROOF_WAL)
      prove_by_checkpoint(removal, log_frames, done_frames);
    else
      removal->proved = proof == PROOF_NOW || synced || removal->older;
  }
}

/* Removes what is proved and named by no view but such as are only cached; the rest goes back into the
** queue. */
static void remove_proved(struct colfam_store *store, struct colfam_removal *list) {
  while (list) {
    struct colfam_removal *removal = list;
    list = removal->next;
    colfam_kill_point("remove");
    kv_status status = KV_BUSY;
    bool may_go = removal->proved && removal->unnamed;
    if (may_go && colfam_store_knows_file(store, removal->id))
      colfam_store_shed(store, removal->id);
    if (may_go && !colfam_store_knows_file(store, removal->id))
      status = kv_family_remove_file(removal->family, removal->id, NULL);
    if (status != KV_OK) {
      colfam_store_give_removal(store, removal);
      continue;
    }
    if (removal->found) kv_stats_add(kv_family_stats(removal->family), KV_STAT_ORPHANS_REMOVED, 1);
    colfam_kill_point("removed");
    free_removal(removal);
  }
}

void colfam_reclaim_run(struct colfam_table *table) {
  struct colfam_removal *list = colfam_store_take_removals(table->store);
  if (!list) return;
  prove(table, list);
  remove_proved(table->store, list);
}

void colfam_reclaim_retry(struct colfam_store *store) {
  remove_proved(store, colfam_store_take_removals(store));
}
