/* A scheduler that makes every interleaving of threads one that can be had again: of its threads, the
** actors, exactly one runs at any time, and where another goes on is decided by a seed. They change at
** points: calls of VFS and environment (harness_disk.h), mutexes, condition variables, and where the test
** says so. A thread that an actor starts, such as the extension's own, is an actor too.
**
** A program that uses this defines the functions of pthreads below by their namesakes here; the extension
** and SQLite then call those. Threads that are no actors pass through. */
#ifndef HARNESS_STEPS_H
#define HARNESS_STEPS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/* One schedule at a time. */
void steps_begin(uint64_t seed);
/* Before the run. What an actor starts is of its process. `title` is static storage. */
void steps_add(const char *title, int process, void (*run)(void *context), void *context);
/* Lets the actors run until all have ended, those that they have started too. */
void steps_run(void);

/* The same for the same seed and the same actors: a digest of who went on when; and how often they
** changed. */
uint64_t steps_trace(void);
uint64_t steps_changes(void);

/* For actors; nothing for other threads. Somebody else may go on here. */
void steps_point(void);
/* Somebody else goes on, when there is anybody. */
void steps_yield(void);
/* The process of the actor that asks; 0 for other threads. */
int steps_process(void);
/* Its actors go on no more, wherever they are: their threads stay as they are until the program ends, so
** it may hold nothing that others want. For one of them, which does not return. */
void steps_die(void);
/* Nobody else goes on at mutexes: so that none of SQLite's is held where an actor dies. */
void steps_keep_mutexes(void);
/* The title of the actor that asks; "" for other threads. A thread started by an actor is "thread of
** <title>". */
const char *steps_title(void);

int steps_mutex_lock(pthread_mutex_t *mutex);
int steps_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex);
int steps_cond_broadcast(pthread_cond_t *cond);
int steps_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
                 void *context);
int steps_join(pthread_t thread, void **result);

#endif
