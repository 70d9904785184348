/* Threads, locks and waiting, as the environment gives them to the rest of the engine. */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "env.h"
#include "harness.h"
#include "mem.h"

enum { THREADS = 4, ROUNDS = 20000 };

#define OK(call) ck_assert_int_eq(call, KV_OK)

static struct kv_mutex *lock;
static struct kv_cond *changed;
static int counter;

static void count_locked(void *context) {
  (void)context;
  for (int i = 0; i < ROUNDS; i++) {
    kv_mutex_lock(lock);
    counter++;
    kv_mutex_unlock(lock);
  }
}

START_TEST(mutex_excludes) {
  struct kv_thread *threads[THREADS];
  OK(kv_mutex_new(&lock, NULL));
  for (int i = 0; i < THREADS; i++)
    OK(kv_thread_start("count", count_locked, NULL, &threads[i], NULL));
  for (int i = 0; i < THREADS; i++) kv_thread_join(threads[i]);
  ck_assert_int_eq(counter, THREADS * ROUNDS);
  kv_mutex_free(lock);
  ck_assert_int_eq(kv_mem_live_blocks(), 0);
}
END_TEST

/* Two threads take turns: whoever finds the counter's parity his own counts and tells the other. */
static void take_turns(void *context) {
  const int *parity = context;
  kv_mutex_lock(lock);
  for (int i = 0; i < 1000; i++) {
    while (counter % 2 != *parity) kv_cond_wait(changed, lock);
    counter++;
    kv_cond_broadcast(changed);
  }
  kv_mutex_unlock(lock);
}

START_TEST(waiting_ends_when_something_has_changed) {
  struct kv_thread *threads[2];
  static const int parities[] = {0, 1};
  OK(kv_mutex_new(&lock, NULL));
  OK(kv_cond_new(&changed, NULL));
  counter = 0;
  for (int i = 0; i < 2; i++)
    OK(kv_thread_start("turns", take_turns, (void *)(uintptr_t)&parities[i], &threads[i], NULL));
  for (int i = 0; i < 2; i++) kv_thread_join(threads[i]);
  ck_assert_int_eq(counter, 2000);
  kv_cond_free(changed);
  kv_mutex_free(lock);
  ck_assert_int_eq(kv_mem_live_blocks(), 0);
}
END_TEST

static void look_at_mask(void *context) {
  sigset_t mask;
  pthread_sigmask(SIG_SETMASK, NULL, &mask);
  *(int *)context = sigismember(&mask, SIGTERM) && sigismember(&mask, SIGUSR1);
}

START_TEST(threads_get_no_signals) {
  struct kv_thread *thread;
  int blocked = 0;
  OK(kv_thread_start("mask", look_at_mask, &blocked, &thread, NULL));
  kv_thread_join(thread);
  ck_assert(blocked);
  sigset_t mask;
  pthread_sigmask(SIG_SETMASK, NULL, &mask);
  ck_assert(!sigismember(&mask, SIGTERM)); /* the starting thread's are as before */
}
END_TEST

START_TEST(threads_locks_and_conditions_without_memory_are_nomem) {
  struct kv_thread *thread = NULL;
  struct kv_err err;
  kv_mem_fail_nth(1, 0);
  ck_assert_int_eq(kv_mutex_new(&lock, &err), KV_NOMEM);
  kv_mem_fail_nth(1, 0);
  ck_assert_int_eq(kv_cond_new(&changed, &err), KV_NOMEM);
  kv_mem_fail_nth(1, 0);
  ck_assert_int_eq(kv_thread_start("none", count_locked, NULL, &thread, &err), KV_NOMEM);
  kv_mem_fail_nth(0, 0);
  kv_cond_free(NULL);
  kv_mutex_free(NULL);
}
END_TEST

static int before, in_parent, in_child;

static void count_before(void) {
  before++;
}

static void count_in_parent(void) {
  in_parent++;
}

static void count_in_child(void) {
  in_child++;
}

START_TEST(forks_are_told_on_either_side) {
  OK(kv_at_fork(count_before, count_in_parent, count_in_child, NULL));
  pid_t child = fork();
  if (child == 0) _exit(before == 1 && in_child == 1 && in_parent == 0 ? 0 : 1);
  int status;
  ck_assert_int_eq(waitpid(child, &status, 0), child);
  ck_assert_int_eq(status, 0);
  ck_assert_int_eq(before, 1);
  ck_assert_int_eq(in_parent, 1);
  ck_assert_int_eq(in_child, 0);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("env: threads");
  TCase *tests = tcase_create("threads");
  tcase_add_test(tests, mutex_excludes);
  tcase_add_test(tests, waiting_ends_when_something_has_changed);
  tcase_add_test(tests, threads_get_no_signals);
  tcase_add_test(tests, threads_locks_and_conditions_without_memory_are_nomem);
  tcase_add_test(tests, forks_are_told_on_either_side);
  suite_add_tcase(suite, tests);
  return harness_run(suite);
}
