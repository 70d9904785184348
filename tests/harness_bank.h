/* A bank for suites with many connections, in threads or processes: accounts and tickets in an
** ordinary table, `plain`, and in a colfam table, `family`, alike. Writers move money between
** accounts, insert tickets and delete the oldest; readers hold the tables against each other and
** against what is known: money is neither made nor lost, a snapshot stands still, a deleted ticket
** is never seen again. */
#ifndef HARNESS_BANK_H
#define HARNESS_BANK_H

#include <sqlite3.h>
#include <stdatomic.h>

#include "harness.h"

#define BANK_ACCOUNTS 40
#define BANK_MONEY 1000 /* of an account, at first */
#define BANK_WRITERS 32

/* One database. Shared by the threads, or by processes when it lies in shared memory. */
struct bank {
  char path[4096];
  char journal[16];
  atomic_int
      deleted[BANK_WRITERS]; /* a writer's tickets whose deletion is committed: all up to this */
};
struct bank_worker {
  struct bank *bank;
  int writer; /* its number, unless it only reads */
  struct harness_random random;
  sqlite3 *db;
  int first_ticket, last_ticket;
};

/* Makes the database <harness_dir()>/app.db. */
void bank_set_up(struct bank *bank, const char *journal);
/* The worker's connection; waits for locks for minutes. A writer goes on with the tickets of its number. */
void bank_open(struct bank_worker *worker);
void bank_reopen(struct bank_worker *worker);

/* One transaction, committed or rolled back. */
void bank_write(struct bank_worker *worker);
/* Single statements. */
void bank_read(struct bank_worker *worker);
/* One snapshot, read in several ways, some of them beside a half-read cursor. */
void bank_read_snapshot(struct bank_worker *worker);
/* When all have left: rows, colfam_check, integrity, and that no named file is missing. */
void bank_check(struct bank *bank);

#endif
