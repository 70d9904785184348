/* B5, the engine alone: each order of keys in each way to call its function, by 1, 2 and 8 threads, with keys
** that fit in the buffer of 64 bytes for copies and keys that do not. A put goes all the way that it goes in
** a commit and a flush (batch, log row, memtable, file), in a store of the thread's own whose files are in
** memory; a get reads the view that all threads share, out of cached blocks. Nanoseconds by the clock on the
** wall, of the thread that took longest. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "kv.h"

#define VALUE_BYTES 32
#define THREADS_MAX 8

#define KEY_BYTES_MAX 100
static struct bench_shape shape = {16, VALUE_BYTES}; /* of the keys at hand */

static int compare_bytes(void *context, const void *a, int a_size, const void *b, int b_size) {
  (void)context;
  int order = memcmp(a, b, (size_t)(a_size < b_size ? a_size : b_size));
  return order ? order : a_size - b_size;
}

static int encode_same(void *context, const void *bytes, int size, void *into, int room) {
  (void)context;
  if (size && size <= room) memcpy(into, bytes, (size_t)size);
  return size;
}

static void *open_own(void *context) {
  (void)context;
  return malloc(1);
}

/* ---- Orders */

/* A store of one order, with rows in one file. */
struct store {
  struct kv_cache *cache;
  struct kv_family *family;
  struct kv_view *view;
};

#define CALLED(text) .name = (text), .compare = compare_bytes, .open = open_own, .close = free

struct order {
  const char *name;
  struct kv_custom_config config; /* without a function: native */
  bool descending;
  struct kv_custom *custom;
  struct kv_comparator *comparator;
  struct kv_key_part part;
  struct kv_env *env;
  struct store store;
};

#define WAYS 4
static const char *const ways[WAYS] = {"", ", own contexts", ", mutex", ", adaptive mutex"};
static const struct order forms[] = {
    {.name = "bytewise"},
    {.name = "reverse", .descending = true},
    {.name = "encoder",
     .config = {.name = "encoder", .encode = encode_same, .open = open_own, .close = free}},
    {.name = "callback", .config = {CALLED("callback")}},
    {.name = "callback, copies in 64 bytes",
     .config = {CALLED("buffers"), .copies = true, .copy_bytes = 64}},
    {.name = "callback, new copies", .config = {CALLED("copies"), .copies = true}},
};
#define NATIVE 2
#define ORDERS (NATIVE + (sizeof forms / sizeof *forms - NATIVE) * WAYS)
static struct order orders[ORDERS];

static void need(kv_status status, const struct kv_err *err) {
  bench_need(status == KV_OK, "colfam's engine: %s", err->text);
}

static void set_order(struct order *order, const struct order *form, size_t way) {
  static char names[ORDERS][64];
  char *name = names[order - orders];
  struct kv_err err;
  *order = *form;
  snprintf(name, sizeof names[0], "%s%s", form->name, ways[way]);
  order->name = name;
  order->part = (struct kv_key_part){.last = true, .descending = form->descending};
  order->config.threads = (enum kv_custom_threads)way;
  if (!order->config.name) return;
  need(kv_custom_new(&order->config, &order->custom, &err), &err);
  order->part.encoder = kv_custom_encoder(order->custom);
  if (!order->part.encoder)
    need(kv_custom_comparator(order->custom, KV_CUSTOM_CONTENT, false, &order->comparator, &err),
         &err);
}

static void set_orders(void) {
  for (size_t i = 0; i < ORDERS; i++) {
    size_t custom = i < NATIVE ? 0 : i - NATIVE;
    set_order(&orders[i], &forms[i < NATIVE ? i : NATIVE + custom / WAYS], custom % WAYS);
  }
}

/* ---- Rows */

static void make_key(const struct order *order, uint64_t row, struct kv_buf *key) {
  uint8_t bytes[KEY_BYTES_MAX];
  bench_fill_key(&shape, row, bytes);
  struct kv_datum datum = {.type = KV_BLOB, .bytes = kv_slice_of(bytes, shape.key_bytes)};
  kv_buf_clear(key);
  kv_key_append(key, order->part, &datum);
}

static struct kv_batch *make_batch(const struct order *order, uint64_t first, uint64_t count) {
  struct kv_batch *batch;
  struct kv_buf key;
  struct kv_err err;
  uint8_t value[VALUE_BYTES];
  kv_buf_init(&key);
  need(kv_batch_new(NULL, &batch, &err), &err);
  kv_batch_order_by(batch, order->comparator);
  for (uint64_t i = first; i < first + count; i++) {
    bench_fill_value(&shape, i, value);
    make_key(order, i, &key);
    need(kv_batch_put(batch, kv_buf_slice(&key), kv_slice_of(value, sizeof value), 0, &err), &err);
  }
  kv_buf_release(&key);
  return batch;
}

/* The batch as a log row in memory, and that as a file. */
static void flush_batch(struct store *store, const uint8_t uuid[16], struct kv_batch *batch) {
  struct kv_log_row row = {.seq = 1, .nonce = 1, .gen = 1, .rows = -1};
  struct kv_view *logged;
  struct kv_buf encoded;
  struct kv_job *job;
  struct kv_err err;
  bool done = false;
  kv_buf_init(&encoded);
  need(kv_batch_encode(batch, uuid, row.seq, &encoded, &err), &err);
  row.batch = kv_buf_slice(&encoded);
  need(kv_view_advance(store->view, &row, NULL, &logged, &err), &err);
  kv_view_unref(store->view);
  need(kv_job_new(logged, KV_JOB_FLUSH, &job, &err), &err);
  while (!done) need(kv_job_step(job, &done, &err), &err);
  need(kv_view_advance(logged, NULL, kv_job_edit(job), &store->view, &err), &err);
  kv_job_keep_files(job);
  kv_job_free(job);
  kv_buf_release(&encoded);
  kv_view_unref(logged);
}

static void fill_store(struct store *store, const struct order *order, struct kv_env *env,
                       uint64_t first, uint64_t count) {
  struct kv_family_config config = {.env = env, .dir = "modes", .comparator = order->comparator};
  struct kv_snapshot empty = {.rows = -1};
  struct kv_log_source none = {0};
  struct kv_err err;
  need(kv_cache_new((size_t)1 << 30, &store->cache, &err), &err);
  kv_options_default(&config.options);
  config.cache = store->cache;
  config.uuid[0] = (uint8_t)(order - orders);
  need(kv_family_new(&config, &store->family, &err), &err);
  need(kv_view_new(store->family, &empty, &none, &store->view, &err), &err);
  struct kv_batch *batch = make_batch(order, first, count);
  flush_batch(store, config.uuid, batch);
  kv_batch_unref(batch);
}

static void release_store(struct store *store) {
  kv_view_unref(store->view);
  kv_family_unref(store->family);
  kv_cache_unref(store->cache);
}

static struct kv_env *new_disk(void) {
  struct kv_env *env;
  struct kv_err err;
  need(kv_env_memory_new(&env, &err), &err);
  return env;
}

static void open_order(struct order *order, uint64_t rows) {
  order->env = new_disk();
  fill_store(&order->store, order, order->env, 0, rows);
}

static void close_order(struct order *order) {
  release_store(&order->store);
  kv_env_free(order->env);
  kv_comparator_unref(order->comparator);
  kv_custom_unref(order->custom);
}

/* ---- Work of a thread */

struct worker {
  const struct order *order;
  pthread_t thread;
  uint64_t rows; /* of the store */
  uint64_t count, seed;
  double took;
};

static void *get_rows(void *context) {
  struct worker *self = context;
  struct kv_value value = {0};
  struct kv_buf key;
  struct kv_err err;
  uint64_t row = self->seed;
  kv_buf_init(&key);
  double start = bench_clock(true);
  for (uint64_t i = 0; i < self->count; i++) {
    row = (row * 6364136223846793005u + 1442695040888963407u) % self->rows;
    make_key(self->order, row, &key);
    need(kv_get(self->order->store.view, NULL, kv_buf_slice(&key), &value, &err), &err);
    bench_need(value.found, "a row is missing");
  }
  self->took = bench_clock(true) - start;
  kv_value_release(&value);
  kv_buf_release(&key);
  return NULL;
}

static void *put_rows(void *context) {
  struct worker *self = context;
  struct store store;
  struct kv_env *env = new_disk();
  double start = bench_clock(true);
  fill_store(&store, self->order, env, self->seed * self->count, self->count);
  self->took = bench_clock(true) - start;
  release_store(&store);
  kv_env_free(env);
  return NULL;
}

/* Nanoseconds an operation of the slowest thread. */
static double run_threads(const struct order *order, void *(*work)(void *), size_t threads,
                          uint64_t rows, uint64_t count) {
  struct worker workers[THREADS_MAX];
  double took = 0;
  for (size_t i = 0; i < threads; i++) {
    workers[i] = (struct worker){.order = order, .rows = rows, .count = count, .seed = i + 1};
    bench_need(!pthread_create(&workers[i].thread, NULL, work, &workers[i]), "no thread");
  }
  for (size_t i = 0; i < threads; i++) {
    pthread_join(workers[i].thread, NULL);
    if (workers[i].took > took) took = workers[i].took;
  }
  return took * 1e9 / (double)count;
}

/* Orders are held against the native one; those that lock or copy by one thread only, since what they wait
** for each other then is what was asked for. */
static void set_goals(struct bench_case *table, size_t threads) {
  bench_goal(table, orders[1].name, 1.05, orders[0].name);
  for (size_t i = NATIVE; i < ORDERS; i++) {
    const struct kv_custom_config *config = &orders[i].config;
    bool waits = config->copies || config->threads == KV_CUSTOM_MUTEX ||
                 config->threads == KV_CUSTOM_ADAPTIVE;
    if (threads == 1 || !waits)
      bench_goal(table, orders[i].name, config->encode ? 1.05 : 1.25, orders[0].name);
  }
}

/* More threads than processors need long rounds: of some turns each. */
static void measure(const char *what, void *(*work)(void *), size_t threads, uint64_t rows) {
  static struct bench_case table;
  size_t rounds = bench_by_scale(1, 5, 5);
  uint64_t turns = work == get_rows ? threads : 1, count = turns * bench_by_scale(500, 5000, 20000);
  bench_case_init(&table, "B5", "ns", "%s by order, the engine alone, keys of %zu B, %zu thread%s",
                  what, shape.key_bytes, threads, threads == 1 ? "" : "s");
  table.waits = true;
  for (size_t i = 0; i < ORDERS; i++) (void)run_threads(&orders[i], work, threads, rows, count);
  for (size_t round = 0; round < rounds; round++)
    for (size_t i = 0; i < ORDERS; i++) {
      const struct order *order = &orders[(i + round) % ORDERS];
      bench_sample(&table, order->name, run_threads(order, work, threads, rows, count));
    }
  set_goals(&table, threads);
  bench_print(&table);
}

static void measure_all(uint64_t rows, size_t threads_max) {
  static const size_t threads[] = {1, 2, THREADS_MAX};
  set_orders();
  for (size_t i = 0; i < ORDERS; i++) open_order(&orders[i], rows);
  for (size_t i = 0; i < sizeof threads / sizeof *threads && threads[i] <= threads_max; i++) {
    measure("a put", put_rows, threads[i], rows);
    measure("a random get", get_rows, threads[i], rows);
  }
  for (size_t i = 0; i < ORDERS; i++) close_order(&orders[i]);
}

int main(void) {
  static const size_t key_bytes[] = {16, KEY_BYTES_MAX};
  uint64_t rows = bench_by_scale(2000, 50000, 1000000);
  bench_print_build();
  printf("engine/kv.h, options at their defaults, stores of %zu rows, values of %d B; files in "
         "memory, all"
         " blocks cached\n",
         (size_t)rows, VALUE_BYTES);
  for (size_t i = 0; i < 2; i++) {
    shape.key_bytes = key_bytes[i];
    measure_all(i == 0 ? rows : rows / 2, i == 0 || bench_scale() == BENCH_FULL ? THREADS_MAX : 1);
  }
  return 0;
}
