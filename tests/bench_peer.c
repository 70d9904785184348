/* See bench_peer.h: what is the same for all peers. */
#include "bench_peer.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void bench_open(struct bench_store *store, const struct bench_peer *peer,
                const struct bench_setup *setup) {
  *store = (struct bench_store){peer, *setup, bench_make_dir("store"), NULL, false};
  store->handle = peer->open(store->dir, &store->setup);
}

void bench_open_beside(struct bench_store *store, const struct bench_peer *peer,
                       const struct bench_store *on) {
  *store = (struct bench_store){peer, on->setup, on->dir, NULL, true};
  store->handle = peer->open(store->dir, &store->setup);
}

void bench_reopen(struct bench_store *store) {
  store->peer->close(store->handle);
  store->handle = store->peer->open(store->dir, &store->setup);
}

void bench_close(struct bench_store *store) {
  store->peer->close(store->handle);
  if (!store->beside) bench_remove_dir(store->dir);
}

/* Rows that are made before the clock runs. */
#define CHUNK_ROWS 1000

struct chunk {
  uint8_t *bytes;
  size_t key_bytes, value_bytes;
};

static void fill_chunk(struct chunk *chunk, const struct bench_shape *shape, uint64_t first,
                       size_t count) {
  uint8_t *at = chunk->bytes;
  for (size_t i = 0; i < count; i++) {
    bench_fill_key(shape, first + i, at);
    bench_fill_value(shape, first + i, at + chunk->key_bytes);
    at += chunk->key_bytes + chunk->value_bytes;
  }
}

static void put_chunk(const struct bench_store *store, const struct chunk *chunk, size_t count) {
  const uint8_t *at = chunk->bytes;
  for (size_t i = 0; i < count; i++) {
    store->peer->put(store->handle, kv_slice_of(at, chunk->key_bytes),
                     kv_slice_of(at + chunk->key_bytes, chunk->value_bytes));
    at += chunk->key_bytes + chunk->value_bytes;
  }
}

double bench_put_rows(struct bench_store *store, uint64_t first, uint64_t count) {
  const struct bench_shape *shape = &store->setup.shape;
  size_t row_bytes = shape->key_bytes + shape->value_bytes;
  struct chunk chunk = {malloc(CHUNK_ROWS * row_bytes), shape->key_bytes, shape->value_bytes};
  double took = 0;
  for (uint64_t done = 0; done < count;) {
    size_t part = count - done < CHUNK_ROWS ? (size_t)(count - done) : CHUNK_ROWS;
    fill_chunk(&chunk, shape, first + done, part);
    double begun = bench_clock(true);
    put_chunk(store, &chunk, part);
    took += bench_clock(true) - begun;
    done += part;
  }
  free(chunk.bytes);
  return took;
}

double bench_load(struct bench_store *store, uint64_t first, uint64_t count, uint64_t each) {
  double took = 0;
  for (uint64_t done = 0; done < count;) {
    uint64_t rows = count - done < each ? count - done : each;
    double begun = bench_clock(true);
    store->peer->begin(store->handle);
    took += bench_clock(true) - begun + bench_put_rows(store, first + done, rows);
    begun = bench_clock(true);
    store->peer->commit(store->handle);
    took += bench_clock(true) - begun;
    done += rows;
  }
  return took;
}

void bench_settle(struct bench_store *store) {
  if (store->peer->settle) store->peer->settle(store->handle);
}

static void warm(struct bench_store *store, const struct bench_way *way, uint64_t count) {
  uint8_t *key = malloc(store->setup.shape.key_bytes);
  if (store->peer->read_begin) store->peer->read_begin(store->handle);
  for (uint64_t i = 0; i < count; i++) {
    bench_fill_key(&store->setup.shape, i, key);
    struct kv_slice slice = kv_slice_of(key, store->setup.shape.key_bytes);
    bench_need(way->run(store->handle, &slice, 1) != 0, "%s has lost rows", store->peer->name);
  }
  if (store->peer->read_end) store->peer->read_end(store->handle);
  free(key);
}

void bench_warm(struct bench_store *stores, size_t store_count, uint64_t count) {
  for (size_t i = 0; i < store_count; i++) {
    const struct bench_peer *peer = stores[i].peer;
    size_t way = 0;
    while (way < peer->way_count && peer->ways[way].kind != BENCH_GET) way++;
    if (way < peer->way_count) warm(&stores[i], &peer->ways[way], count);
  }
}

uint64_t bench_run_way(struct bench_lane *lane, size_t round) {
  struct bench_store *store = lane->store;
  const struct bench_asked *asked = lane->with;
  const struct kv_slice *keys = asked->keys + round * asked->batches * asked->batch;
  uint64_t sum = 0;
  if (store->peer->read_begin) store->peer->read_begin(store->handle);
  for (size_t i = 0; i < asked->batches; i++, keys += asked->batch) {
    sum += lane->operation(store->handle, keys, asked->batch);
  }
  if (store->peer->read_end) store->peer->read_end(store->handle);
  return sum;
}

void bench_add_ways(struct bench_case *to, enum bench_kind kind, struct bench_store *stores,
                    size_t count, const struct bench_asked *asked) {
  for (size_t i = 0; i < count; i++) {
    const struct bench_peer *peer = stores[i].peer;
    for (size_t way = 0; way < peer->way_count; way++) {
      if (peer->ways[way].kind != kind) continue;
      bench_add(to, peer->ways[way].name, bench_run_way, &stores[i], asked)->operation =
          peer->ways[way].run;
    }
  }
}

void bench_print_settings(const struct bench_store *stores, size_t count) {
  for (size_t i = 0; i < count; i++) {
    const struct bench_store *store = &stores[i];
    char text[400];
    size_t same = 0;
    while (same < i && (stores[same].peer != store->peer ||
                        stores[same].setup.cache_bytes != store->setup.cache_bytes ||
                        stores[same].setup.option != store->setup.option))
      same++;
    if (same < i || !store->peer) continue;
    store->peer->describe(store->handle, &store->setup, text, sizeof text);
    if (store->setup.cache_bytes)
      printf("%-12s %s; cache %zu MiB, ", store->peer->name, text, store->setup.cache_bytes >> 20);
    else
      printf("%-12s %s; cache by default, ", store->peer->name, text);
    printf("%s%s%s\n", store->setup.durable ? "each commit synced" : "commits not synced",
           store->setup.option ? "; " : "", store->setup.option ? store->setup.option : "");
  }
}

const char *bench_library_of(const void *symbol) {
  static char path[PATH_MAX];
  Dl_info info;
  if (!dladdr(symbol, &info) || !realpath(info.dli_fname, path)) return "library unknown";
  const char *slash = strrchr(path, '/');
  return slash ? slash + 1 : path;
}
