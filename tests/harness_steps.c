/* See harness_steps.h. The token is handed over with semaphores, one an actor; whoever has it owns all of
** the state here. An actor that waits for a condition or for another's end does not get the token until
** that has come; one that finds a mutex taken gives the token away and looks again. */
#include "harness_steps.h"

#include <dlfcn.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"

enum { ACTORS_MAX = 32, IDLE_MAX = 1000000 };

struct actor {
  char title[40];
  int number;
  int process;
  void (*run)(void *context);
  void *(*run_thread)(void *context); /* of a thread that an actor has started, instead */
  void *context;
  pthread_t thread;
  sem_t go;
  const void *waits_for; /* a condition or another actor; NULL: can go on */
  bool ended;            /* or dead */
  bool dead;
};

static struct {
  struct harness_random random;
  struct actor *actors[ACTORS_MAX];
  int count;
  int left;                        /* that have not ended */
  unsigned io_one_in, lock_one_in; /* points at which somebody else goes on */
  uint64_t trace, changes;
  unsigned idle; /* times that a taken mutex was looked at, one after the other */
  sem_t over;
} steps;

static _Thread_local struct actor *self;

/* The functions that the program's own stand before. */
struct real {
  int (*mutex_lock)(pthread_mutex_t *);
  int (*cond_wait)(pthread_cond_t *, pthread_mutex_t *);
  int (*cond_broadcast)(pthread_cond_t *);
  int (*create)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
  int (*join)(pthread_t, void **);
};

static void find(const char *name, void *function) {
  void *found = dlsym(RTLD_NEXT, name);
  if (!found) abort();
  memcpy(function, &found, sizeof found);
}

static const struct real *real(void) {
  static struct real found;
  static bool done;
  if (__atomic_load_n(&done, __ATOMIC_ACQUIRE)) return &found;
  find("pthread_mutex_lock", &found.mutex_lock);
  find("pthread_cond_wait", &found.cond_wait);
  find("pthread_cond_broadcast", &found.cond_broadcast);
  find("pthread_create", &found.create);
  find("pthread_join", &found.join);
  __atomic_store_n(&done, true, __ATOMIC_RELEASE);
  return &found;
}

/* ---- The token */

static void stuck(const char *how) {
  fprintf(stderr, "steps: %s after %llu changes\n", how, (unsigned long long)steps.changes);
  for (int i = 0; i < steps.count; i++)
    fprintf(
        stderr, "  %s: %s\n", steps.actors[i]->title,
        steps.actors[i]->ended ? "ended" : (steps.actors[i]->waits_for ? "waits" : "can go on"));
  abort();
}

/* Another one that can go on, or NULL. */
static struct actor *choose(void) {
  struct actor *able[ACTORS_MAX];
  unsigned count = 0;
  for (int i = 0; i < steps.count; i++) {
    struct actor *actor = steps.actors[i];
    if (actor != self && !actor->ended && !actor->waits_for) able[count++] = actor;
  }
  return count ? able[harness_below(&steps.random, count)] : NULL;
}

static void wait_for(sem_t *semaphore) {
  while (sem_wait(semaphore)) {
  }
}

static void give_to(struct actor *next) {
  steps.changes++;
  steps.trace = (steps.trace ^ (uint64_t)next->number) * 0x100000001b3u + 1;
  sem_post(&next->go);
}

static void change(void) {
  struct actor *next = choose();
  if (!next && self->waits_for) stuck("nobody can go on");
  if (!next) return;
  struct actor *me = self;
  give_to(next);
  wait_for(&me->go);
}

static void wake(const void *what) {
  for (int i = 0; i < steps.count; i++)
    if (steps.actors[i]->waits_for == what) steps.actors[i]->waits_for = NULL;
}

static void pass_on(void) {
  struct actor *next = choose();
  if (next)
    give_to(next);
  else if (steps.left)
    stuck("nobody can go on");
  else
    sem_post(&steps.over);
}

static void end(void) {
  self->ended = true;
  wake(self);
  steps.left--;
  pass_on();
}

static void *actor_main(void *context) {
  struct actor *actor = context;
  void *result = NULL;
  self = actor;
  wait_for(&actor->go);
  if (actor->run_thread)
    result = actor->run_thread(actor->context);
  else
    actor->run(actor->context);
  end();
  return result;
}

static struct actor *add(const char *before, const char *title, int process) {
  if (steps.count == ACTORS_MAX) stuck("too many actors");
  struct actor *actor = calloc(1, sizeof *actor);
  if (!actor) stuck("no memory");
  actor->number = steps.count;
  actor->process = process;
  snprintf(actor->title, sizeof actor->title, "%s%s", before, title);
  sem_init(&actor->go, 0, 0);
  steps.actors[steps.count++] = actor;
  steps.left++;
  return actor;
}

/* ---- The schedule */

void steps_begin(uint64_t seed) {
  static const unsigned often[] = {1, 2, 4, 10, 40, 200};
  harness_seed(&steps.random, seed);
  steps.count = steps.left = 0;
  steps.trace = steps.changes = 0;
  steps.io_one_in = often[harness_below(&steps.random, 6)];
  steps.lock_one_in = 20 * often[harness_below(&steps.random, 6)];
}

void steps_add(const char *title, int process, void (*run)(void *context), void *context) {
  struct actor *actor = add("", title, process);
  actor->run = run;
  actor->context = context;
}

void steps_run(void) {
  sem_init(&steps.over, 0, 0);
  int count = steps.count; /* they may start others */
  for (int i = 0; i < count; i++)
    if (real()->create(&steps.actors[i]->thread, NULL, actor_main, steps.actors[i])) abort();
  sem_post(&choose()->go);
  wait_for(&steps.over);
  for (int i = 0; i < count; i++)
    if (!steps.actors[i]->dead) real()->join(steps.actors[i]->thread, NULL);
  for (int i = 0; i < steps.count; i++)
    if (!steps.actors[i]->dead) free(steps.actors[i]); /* the dead wait with theirs */
}

uint64_t steps_trace(void) {
  return steps.trace;
}
uint64_t steps_changes(void) {
  return steps.changes;
}

void steps_point(void) {
  if (self && harness_below(&steps.random, steps.io_one_in) == 0) change();
}

void steps_yield(void) {
  if (self) change();
}

int steps_process(void) {
  return self ? self->process : 0;
}

void steps_keep_mutexes(void) {
  steps.lock_one_in = 0;
}

void steps_die(void) {
  struct actor *me = self;
  sem_t never;
  for (int i = 0; i < steps.count; i++) {
    struct actor *actor = steps.actors[i];
    if (actor->process != me->process || actor->ended) continue;
    actor->ended = actor->dead = true;
    steps.left--;
  }
  sem_init(&never, 0, 0);
  pass_on();
  for (;;) wait_for(&never);
}

const char *steps_title(void) {
  return self ? self->title : "";
}

/* ---- pthreads */

int steps_mutex_lock(pthread_mutex_t *mutex) {
  if (!self) return real()->mutex_lock(mutex);
  if (steps.lock_one_in && harness_below(&steps.random, steps.lock_one_in) == 0) change();
  int rc;
  while ((rc = pthread_mutex_trylock(mutex)) != 0) {
    if (++steps.idle > IDLE_MAX) stuck("a mutex stays taken");
    change();
  }
  steps.idle = 0;
  return rc;
}

int steps_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex) {
  if (!self) return real()->cond_wait(cond, mutex);
  pthread_mutex_unlock(mutex);
  self->waits_for = cond;
  change();
  return steps_mutex_lock(mutex);
}

int steps_cond_broadcast(pthread_cond_t *cond) {
  if (self) wake(cond);
  return real()->cond_broadcast(cond);
}

int steps_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
                 void *context) {
  if (!self) return real()->create(thread, attributes, run, context);
  struct actor *actor = add("thread of ", self->title, self->process);
  actor->run_thread = run;
  actor->context = context;
  if (real()->create(&actor->thread, attributes, actor_main, actor)) stuck("no thread");
  *thread = actor->thread;
  return 0;
}

int steps_join(pthread_t thread, void **result) {
  for (int i = 0; self && i < steps.count; i++) {
    struct actor *actor = steps.actors[i];
    if (!pthread_equal(actor->thread, thread) || actor->ended) continue;
    self->waits_for = actor;
    change();
  }
  return real()->join(thread, result);
}
