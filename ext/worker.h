/* The background thread: one a process, started by the first commit that leaves work, ended with the last
** connection. It computes flushes and merges from immutable views, a bounded step at a time, and touches
** neither SQLite nor any lock of it: what is finished is fetched by the application's own threads, which
** publish it with a later commit (jobs.h). A fork leaves the child without it. Thread rule: any thread. */
#ifndef COLFAM_WORKER_H
#define COLFAM_WORKER_H

#include <stdbool.h>
#include <stdint.h>

#include "jobs.h"
#include "store.h"

/* 1 (at first), or 0: no thread, everything happens inside commits. Lowering it ends the thread and frees
** what it had to do. */
int colfam_worker_threads(void);
void colfam_worker_set_threads(int threads);

/* Takes the offer over and has the thread work on it; when it has enough to do, or there is none and none
** can be started, the offer is freed and the answer false. */
bool colfam_worker_give(struct colfam_store *store, struct colfam_offer *offer);
/* Whether a job of this kind for the table is being worked on, or finished and not yet fetched. */
bool colfam_worker_has(struct colfam_store *store, const uint8_t uuid[16], enum kv_job_kind kind);
/* Waits for it. */
void colfam_worker_wait(struct colfam_store *store, const uint8_t uuid[16], enum kv_job_kind kind);
/* What is finished goes to jobs.h; what has failed is freed, its text goes to SQLite's log. */
void colfam_worker_fetch(struct colfam_store *store);
/* The store is about to be freed: nothing of it is worked on from now on. */
void colfam_worker_forget(struct colfam_store *store);

/* What the thread has done since the process began: jobs that it finished, jobs that failed, steps of them
** (kv_job_step). */
struct colfam_worker_facts {
  uint64_t jobs;
  uint64_t failures;
  uint64_t steps;
};
struct colfam_worker_facts colfam_worker_facts(void);

/* Every connection comes once and leaves once; the last one ends the thread. False: no memory, and it has not
** come. */
bool colfam_worker_come(void);
void colfam_worker_leave(void);
/* Moves with every fork, in the child. What was made under another number belongs to the parent. */
unsigned colfam_worker_fork_number(void);

#endif
