/* See worker.h. One list of tasks, under one lock. The thread takes the first flush, else the first task,
** works on it for one step and looks again: flushes, which keep the log short, overtake merges. A task that
** is being worked on is the thread's until the step ends: others mark it as unwanted, or wait.
**
** The thread may hold its lock and those of the engine when another thread forks. So a fork first takes the
** lock of the list and the registry's: in the child both are free, the tasks are left to the parent, and
** everything that the thread may have had in hand, the stores with their families and the cache, is made
** anew (colfam_store_abandon). */
#include "worker.h"

#include <string.h>

#include "engine/kv.h"
#include "error.h"
#include "orders.h"

#define TASKS_MAX 16 /* at a time: files that they have made keep their descriptors */

struct task {
  struct task *next;
  struct colfam_store *store; /* never looked into by the thread */
  struct colfam_offer *offer;
  bool running;  /* the thread is in a step of it */
  bool unwanted; /* to be freed by whoever waits for the step's end */
  bool ended;    /* finished or failed */
  kv_status status;
  struct kv_err err;
};

struct runner {
  struct kv_thread *thread;
  bool stop;
};

static struct {
  struct kv_mutex *lock;
  struct kv_cond *changed;
  struct task *tasks;
  struct runner *runner; /* NULL: no thread */
  int connections;
  int threads;          /* wanted */
  unsigned fork_number; /* atomic */
  struct colfam_worker_facts facts;
} worker = {.threads = 1};

/* ---- The thread */

static struct task *next_task(void) {
  struct task *first = NULL;
  for (struct task *task = worker.tasks; task; task = task->next) {
    if (task->ended || task->unwanted) continue;
    if (task->offer->kind == KV_JOB_FLUSH) return task;
    if (!first) first = task;
  }
  return first;
}

/* Called and left with the lock held, which is free meanwhile. */
static void work_on(struct task *task) {
  bool done = false;
  task->running = true;
  kv_mutex_unlock(worker.lock);
  task->status = kv_job_step(task->offer->job, &done, &task->err);
  kv_mutex_lock(worker.lock);
  task->running = false;
  task->offer->finished = done;
  task->ended = done || task->status != KV_OK;
  worker.facts.steps++;
  worker.facts.jobs += done;
  worker.facts.failures += task->status != KV_OK;
  kv_cond_broadcast(worker.changed);
}

static void run(void *context) {
  const struct runner *self = context;
  kv_mutex_lock(worker.lock);
  while (!self->stop) {
    struct task *task = next_task();
    if (task)
      work_on(task);
    else
      kv_cond_wait(worker.changed, worker.lock);
  }
  kv_mutex_unlock(worker.lock);
}

/* ---- Forks */

static void before_fork(void) {
  colfam_store_lock();
  kv_mutex_lock(worker.lock);
  colfam_orders_lock();
}

static void after_fork(void) {
  colfam_orders_unlock();
  kv_mutex_unlock(worker.lock);
  colfam_store_unlock();
}

static void in_child(void) {
  kv_cond_reset(worker.changed);
  worker.tasks = NULL;
  worker.runner = NULL;
  worker.connections = 0;
  __atomic_add_fetch(&worker.fork_number, 1, __ATOMIC_RELEASE);
  colfam_store_abandon();
  after_fork();
}

unsigned colfam_worker_fork_number(void) {
  return __atomic_load_n(&worker.fork_number, __ATOMIC_ACQUIRE);
}

/* ---- Life. The lock is made by the first connection, and stays. */

static bool make_lock(void) {
  struct kv_mutex *lock = NULL;
  struct kv_cond *changed = NULL;
  if (kv_mutex_new(&lock, NULL) == KV_OK && kv_cond_new(&changed, NULL) == KV_OK) {
    worker.changed = changed;
    worker.lock = lock;
    if (kv_at_fork(before_fork, after_fork, in_child, NULL) == KV_OK) return true;
    worker.lock = NULL;
  }
  kv_cond_free(changed);
  kv_mutex_free(lock);
  return false;
}

bool colfam_worker_come(void) {
  colfam_store_lock();
  bool made = worker.lock || make_lock();
  colfam_store_unlock();
  if (!made) return false;
  kv_mutex_lock(worker.lock);
  worker.connections++;
  kv_mutex_unlock(worker.lock);
  return true;
}

/* Under the lock. */
static bool start(void) {
  if (worker.runner) return true;
  struct runner *made = sqlite3_malloc64(sizeof *made);
  if (!made) return false;
  *made = (struct runner){NULL, false};
  if (kv_thread_start("colfam", run, made, &made->thread, NULL) != KV_OK) {
    sqlite3_free(made);
    return false;
  }
  worker.runner = made;
  return true;
}

static void free_task(struct task *task) {
  colfam_offer_free(task->offer);
  sqlite3_free(task);
}

static void free_tasks(struct task *list) {
  while (list) {
    struct task *task = list;
    list = task->next;
    free_task(task);
  }
}

/* Takes the tasks that are so, of the store or of all, out of the list. Under the lock. */
static struct task *take_tasks(const struct colfam_store *store,
                               bool (*are_so)(const struct task *)) {
  struct task *taken = NULL;
  for (struct task **link = &worker.tasks; *link;) {
    struct task *task = *link;
    if (!are_so(task) || (store && task->store != store)) {
      link = &task->next;
      continue;
    }
    *link = task->next;
    task->next = taken;
    taken = task;
  }
  return taken;
}

/* Nobody wants it, and the thread has let go of it. */
static bool is_free(const struct task *task) {
  return task->unwanted && !task->running;
}

static bool has_ended(const struct task *task) {
  return task->ended;
}

/* Whether one of the store's, of any when NULL, is being worked on; all of them are unwanted from now on. */
static bool mark_unwanted(const struct colfam_store *store) {
  bool running = false;
  for (struct task *task = worker.tasks; task; task = task->next) {
    if (store && task->store != store) continue;
    task->unwanted = true;
    running = running || task->running;
  }
  return running;
}

/* Ends the thread, if there is one, and frees all tasks. Called with the lock held, which is free at the
** end. */
static void stop(void) {
  struct runner *runner = worker.runner;
  worker.runner = NULL;
  mark_unwanted(NULL);
  if (runner) {
    runner->stop = true;
    kv_cond_broadcast(worker.changed);
    kv_mutex_unlock(worker.lock);
    kv_thread_join(runner->thread);
    sqlite3_free(runner);
    kv_mutex_lock(worker.lock);
  }
  struct task *tasks = take_tasks(NULL, is_free);
  kv_mutex_unlock(worker.lock);
  free_tasks(tasks);
}

void colfam_worker_leave(void) {
  kv_mutex_lock(worker.lock);
  if (--worker.connections > 0)
    kv_mutex_unlock(worker.lock);
  else
    stop();
}

int colfam_worker_threads(void) {
  return __atomic_load_n(&worker.threads, __ATOMIC_RELAXED);
}

void colfam_worker_set_threads(int threads) {
  __atomic_store_n(&worker.threads, threads, __ATOMIC_RELAXED);
  kv_mutex_lock(worker.lock);
  if (threads > 0)
    kv_mutex_unlock(worker.lock);
  else
    stop();
}

struct colfam_worker_facts colfam_worker_facts(void) {
  kv_mutex_lock(worker.lock);
  struct colfam_worker_facts facts = worker.facts;
  kv_mutex_unlock(worker.lock);
  return facts;
}

/* ---- Tasks */

bool colfam_worker_give(struct colfam_store *store, struct colfam_offer *offer) {
  struct task *task = sqlite3_malloc64(sizeof *task);
  bool given = false;
  if (task) {
    memset(task, 0, sizeof *task);
    task->store = store;
    task->offer = offer;
    kv_mutex_lock(worker.lock);
    struct task **link = &worker.tasks;
    int count = 0;
    for (; *link; link = &(*link)->next) count++;
    given = count < TASKS_MAX && start();
    if (given) {
      *link = task;
      kv_cond_broadcast(worker.changed);
    }
    kv_mutex_unlock(worker.lock);
  }
  if (given) return true;
  sqlite3_free(task);
  colfam_offer_free(offer);
  return false;
}

/* Under the lock. */
static const struct task *find_task(const struct colfam_store *store, const uint8_t uuid[16],
                                    enum kv_job_kind kind) {
  const struct task *task = worker.tasks;
  while (task && (task->store != store || task->unwanted || task->offer->kind != kind ||
                  memcmp(task->offer->uuid, uuid, 16) != 0))
    task = task->next;
  return task;
}

bool colfam_worker_has(struct colfam_store *store, const uint8_t uuid[16], enum kv_job_kind kind) {
  kv_mutex_lock(worker.lock);
  bool has = find_task(store, uuid, kind) != NULL;
  kv_mutex_unlock(worker.lock);
  return has;
}

void colfam_worker_wait(struct colfam_store *store, const uint8_t uuid[16], enum kv_job_kind kind) {
  kv_mutex_lock(worker.lock);
  const struct task *task;
  while (worker.runner && (task = find_task(store, uuid, kind)) && !task->ended)
    kv_cond_wait(worker.changed, worker.lock);
  kv_mutex_unlock(worker.lock);
}

static void log_failure(const struct task *task) {
  char *message = NULL;
  int rc = colfam_error_of(&message, NULL, task->status, &task->err);
  if (message) sqlite3_log(rc, "%s", message);
  sqlite3_free(message);
}

void colfam_worker_fetch(struct colfam_store *store) {
  kv_mutex_lock(worker.lock);
  struct task *list = take_tasks(store, has_ended);
  kv_mutex_unlock(worker.lock);
  while (list) {
    struct task *task = list;
    list = task->next;
    if (task->status == KV_OK) {
      colfam_jobs_give(store, task->offer);
      task->offer = NULL;
    } else {
      log_failure(task);
    }
    free_task(task);
  }
}

void colfam_worker_forget(struct colfam_store *store) {
  kv_mutex_lock(worker.lock);
  while (mark_unwanted(store)) kv_cond_wait(worker.changed, worker.lock);
  struct task *tasks = take_tasks(store, is_free);
  kv_mutex_unlock(worker.lock);
  free_tasks(tasks);
}
