/* The block cache: what is found, what is evicted, what pins keep, under one thread and under many. */
#include "cache.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"
#include "mem.h"

static struct kv_err err;

#define ok(call) ck_assert_msg((call) == KV_OK, "%s", err.text)

static struct kv_cache *new_cache(size_t budget) {
  struct kv_cache *cache;
  ok(kv_cache_new(budget, &cache, &err));
  return cache;
}

/* Bytes that tell owner and offset. */
static void fill(uint8_t *bytes, size_t size, uint64_t owner, uint64_t offset) {
  for (size_t i = 0; i < size; i++) bytes[i] = (uint8_t)(owner * 31 + offset * 7 + i);
}

static uint64_t note_of(uint64_t owner, uint64_t offset) {
  return ~(owner << 32 | offset);
}

static struct kv_cache_entry *insert(struct kv_cache *cache, uint64_t owner, uint64_t offset,
                                     size_t size) {
  uint8_t *bytes = kv_cache_alloc(cache, size);
  ck_assert_ptr_nonnull(bytes);
  fill(bytes, size, owner, offset);
  struct kv_cache_content content = {bytes, size, note_of(owner, offset)};
  struct kv_cache_entry *entry;
  ok(kv_cache_insert(cache, owner, offset, &content, &entry, &err));
  return entry;
}

static void insert_unpinned(struct kv_cache *cache, uint64_t owner, uint64_t offset, size_t size) {
  kv_cache_unpin(insert(cache, owner, offset, size));
}

static bool holds(struct kv_cache *cache, uint64_t owner, uint64_t offset) {
  struct kv_cache_entry *entry = kv_cache_lookup(cache, owner, offset);
  kv_cache_unpin(entry);
  return entry != NULL;
}

static void expect_bytes(const struct kv_cache_entry *entry, uint64_t owner, uint64_t offset,
                         size_t size) {
  uint8_t wanted[4096];
  ck_assert_uint_eq(kv_cache_content(entry)->size, size);
  fill(wanted, size, owner, offset);
  ck_assert_mem_eq(kv_cache_content(entry)->bytes, wanted, size);
  ck_assert_uint_eq(kv_cache_content(entry)->note, note_of(owner, offset));
}

static void expect_nothing_left(void) {
  ck_assert_int_eq(kv_mem_live_blocks(), 0);
}

/* ---- One thread */

START_TEST(lookup_of_what_was_inserted) {
  struct kv_cache *cache = new_cache(1 << 20);
  ck_assert_ptr_null(kv_cache_lookup(cache, 1, 0));
  struct kv_cache_entry *entry = insert(cache, 1, 0, 100);
  struct kv_cache_entry *again = kv_cache_lookup(cache, 1, 0);
  ck_assert_ptr_eq(entry, again);
  expect_bytes(again, 1, 0, 100);
  kv_cache_unpin(entry);
  kv_cache_unpin(again);
  ck_assert(holds(cache, 1, 0));
  ck_assert(!holds(cache, 1, 1));
  ck_assert(!holds(cache, 2, 0));
  kv_cache_unref(cache);
  expect_nothing_left();
}
END_TEST

START_TEST(second_insert_gives_the_first_entry) {
  struct kv_cache *cache = new_cache(1 << 20);
  struct kv_cache_entry *first = insert(cache, 1, 5, 64);
  size_t bytes = kv_cache_bytes(cache);
  struct kv_cache_entry *second = insert(cache, 1, 5, 64);
  ck_assert_ptr_eq(first, second);
  ck_assert_uint_eq(kv_cache_bytes(cache), bytes);
  kv_cache_unpin(first);
  expect_bytes(second, 1, 5, 64);
  kv_cache_unpin(second);
  kv_cache_unref(cache);
  expect_nothing_left();
}
END_TEST

START_TEST(owners_are_never_given_twice) {
  struct kv_cache *cache = new_cache(0);
  uint64_t last = kv_cache_new_owner(cache);
  for (int i = 0; i < 1000; i++) {
    uint64_t owner = kv_cache_new_owner(cache);
    ck_assert_uint_gt(owner, last);
    last = owner;
  }
  kv_cache_unref(cache);
}
END_TEST

START_TEST(unpinned_entries_never_pass_the_budget) {
  struct kv_cache *cache = new_cache(100000);
  for (uint64_t i = 0; i < 1000; i++) {
    insert_unpinned(cache, 1, i, 1000);
    ck_assert_uint_le(kv_cache_bytes(cache), 100000);
  }
  size_t held = 0;
  for (uint64_t i = 0; i < 1000; i++) held += holds(cache, 1, i);
  ck_assert_uint_ge(held, 80);
  kv_cache_unref(cache);
  expect_nothing_left();
}
END_TEST

START_TEST(pinned_entries_pass_the_budget_and_go_when_let_go) {
  enum { N = 300 };
  struct kv_cache *cache = new_cache(50000);
  struct kv_cache_entry *entries[N];
  for (uint64_t i = 0; i < N; i++) entries[i] = insert(cache, 1, i, 1000);
  ck_assert_uint_ge(kv_cache_bytes(cache), N * 1000);
  for (uint64_t i = 0; i < N; i++) expect_bytes(entries[i], 1, i, 1000);
  for (uint64_t i = 0; i < N; i++) kv_cache_unpin(entries[i]);
  ck_assert_uint_le(kv_cache_bytes(cache), 50000);
  ck_assert_uint_ge(kv_cache_bytes(cache), 25000);
  insert_unpinned(cache, 2, 0, 1000);
  ck_assert_uint_le(kv_cache_bytes(cache), 50000);
  kv_cache_unref(cache);
  expect_nothing_left();
}
END_TEST

START_TEST(budget_0_keeps_nothing_but_pins) {
  struct kv_cache *cache = new_cache(0);
  struct kv_cache_entry *entry = insert(cache, 1, 1, 10);
  kv_cache_pin(entry);
  kv_cache_unpin(entry);
  expect_bytes(entry, 1, 1, 10);
  ck_assert_uint_ge(kv_cache_bytes(cache), 10);
  kv_cache_unpin(entry);
  ck_assert_uint_eq(kv_cache_bytes(cache), 0);
  ck_assert(!holds(cache, 1, 1));
  kv_cache_unref(cache);
  expect_nothing_left();
}
END_TEST

START_TEST(huge_entry_does_not_empty_the_cache) {
  struct kv_cache *cache = new_cache(100000);
  for (uint64_t i = 0; i < 50; i++) insert_unpinned(cache, 1, i, 1000);
  struct kv_cache_entry *huge = insert(cache, 2, 0, 5000000);
  ck_assert_uint_ge(kv_cache_bytes(cache), 5000000);
  for (uint64_t i = 0; i < 50; i++) ck_assert(holds(cache, 1, i));
  kv_cache_unpin(huge);
  ck_assert(!holds(cache, 2, 0));
  ck_assert_uint_le(kv_cache_bytes(cache), 100000);
  kv_cache_unref(cache);
  expect_nothing_left();
}
END_TEST

START_TEST(used_entries_survive_a_scan) {
  struct kv_cache *cache = new_cache(200000);
  for (uint64_t i = 0; i < 40; i++) insert_unpinned(cache, 1, i, 1000);
  size_t hot = 0;
  for (uint64_t scan = 0; scan < 2000; scan++) {
    for (uint64_t i = 0; i < 40; i++) hot += holds(cache, 1, i);
    insert_unpinned(cache, 2, scan, 1000);
  }
  ck_assert_uint_ge(hot, 40 * 2000 * 9 / 10);
  kv_cache_unref(cache);
}
END_TEST

START_TEST(smaller_budget_takes_effect_at_once) {
  struct kv_cache *cache = new_cache(1 << 20);
  for (uint64_t i = 0; i < 500; i++) insert_unpinned(cache, 1, i, 1000);
  struct kv_cache_entry *pinned = kv_cache_lookup(cache, 1, 7);
  ck_assert_uint_eq(kv_cache_budget(cache), 1 << 20);
  kv_cache_set_budget(cache, 20000);
  ck_assert_uint_eq(kv_cache_budget(cache), 20000);
  ck_assert_uint_le(kv_cache_bytes(cache), 20000);
  kv_cache_set_budget(cache, 0);
  expect_bytes(pinned, 1, 7, 1000);
  ck_assert(!holds(cache, 1, 8));
  kv_cache_unpin(pinned);
  ck_assert_uint_eq(kv_cache_bytes(cache), 0);
  kv_cache_set_budget(cache, 1 << 20);
  insert_unpinned(cache, 1, 1, 100);
  ck_assert(holds(cache, 1, 1));
  kv_cache_unref(cache);
  expect_nothing_left();
}
END_TEST

START_TEST(dropped_owner_is_forgotten_and_pins_stay_good) {
  struct kv_cache *cache = new_cache(1 << 20);
  for (uint64_t i = 0; i < 100; i++) {
    insert_unpinned(cache, 1, i, 500);
    insert_unpinned(cache, 2, i, 500);
  }
  struct kv_cache_entry *pinned = kv_cache_lookup(cache, 1, 3);
  kv_cache_drop_owner(cache, 1);
  for (uint64_t i = 0; i < 100; i++) {
    ck_assert(!holds(cache, 1, i));
    ck_assert(holds(cache, 2, i));
  }
  expect_bytes(pinned, 1, 3, 500);
  size_t with = kv_cache_bytes(cache);
  kv_cache_unpin(pinned);
  ck_assert_uint_lt(kv_cache_bytes(cache), with);
  kv_cache_unref(cache);
  expect_nothing_left();
}
END_TEST

START_TEST(pin_outlives_the_last_reference) {
  struct kv_cache *cache = new_cache(1 << 20);
  struct kv_cache *second = kv_cache_ref(cache);
  struct kv_cache_entry *entry = insert(cache, 1, 1, 100);
  insert_unpinned(cache, 1, 2, 100);
  kv_cache_unref(cache);
  ck_assert(holds(second, 1, 2));
  kv_cache_unref(second);
  expect_bytes(entry, 1, 1, 100);
  kv_cache_pin(entry);
  kv_cache_unpin(entry);
  kv_cache_unpin(entry);
  expect_nothing_left();
}
END_TEST

START_TEST(null_is_allowed_where_said) {
  kv_cache_unpin(NULL);
  kv_cache_unref(NULL);
}
END_TEST

START_TEST(many_small_entries_grow_the_tables) {
  struct kv_cache *cache = new_cache(64 << 20);
  for (uint64_t i = 0; i < 50000; i++) insert_unpinned(cache, i % 7, i * 16384, 16);
  for (uint64_t i = 0; i < 50000; i++) ck_assert(holds(cache, i % 7, i * 16384));
  kv_cache_unref(cache);
  expect_nothing_left();
}
END_TEST

/* Pinning thousands over the budget must not walk all of them at each insert. */
START_TEST(pins_far_over_the_budget_stay_cheap) {
  enum { N = 100000 };
  struct kv_cache *cache = new_cache(10000);
  struct kv_cache_entry **entries = malloc(N * sizeof *entries);
  for (uint64_t i = 0; i < N; i++) entries[i] = insert(cache, 1, i, 16);
  for (uint64_t i = 0; i < N; i++) kv_cache_unpin(entries[i]);
  ck_assert_uint_le(kv_cache_bytes(cache), 10000);
  free(entries);
  kv_cache_unref(cache);
  expect_nothing_left();
}
END_TEST

/* Every third is there; more than one group of them, and the same one twice. */
START_TEST(many_lookups_are_as_many_single_ones) {
  enum { N = 200 };
  struct kv_cache *cache = new_cache(1 << 20);
  struct kv_cache_name names[N];
  struct kv_cache_entry *entries[N];
  for (uint64_t i = 0; i < N; i++) {
    names[i] = (struct kv_cache_name){1, i == N - 1 ? 0 : i * 4096};
    if (i % 3 == 0) insert_unpinned(cache, 1, names[i].offset, 50);
    insert_unpinned(cache, 2, names[i].offset, 60);
  }
  kv_cache_lookup_many(cache, names, 0, entries);
  kv_cache_lookup_many(cache, names, N, entries);
  kv_cache_drop_owner(cache, 1);
  kv_cache_drop_owner(cache, 2);
  for (uint64_t i = 0; i < N; i++) {
    ck_assert_int_eq(entries[i] != NULL, i % 3 == 0 || i == N - 1);
    if (entries[i]) expect_bytes(entries[i], 1, names[i].offset, 50);
    kv_cache_unpin(entries[i]);
  }
  ck_assert_uint_eq(kv_cache_bytes(cache), 0);
  kv_cache_unref(cache);
  expect_nothing_left();
}
END_TEST

/* ---- Against a model: which pins are held; what the cache holds may be more, never wrong. */

enum { OWNERS = 3, OFFSETS = 40, PINS = 30 };
struct pin {
  struct kv_cache_entry *entry;
  uint64_t owner, offset;
};

static size_t size_of(uint64_t owner, uint64_t offset) {
  return 1 + (owner * 977 + offset * 131) % 4000;
}

static void random_pin(struct harness_random *random, struct kv_cache *cache, struct pin *pin) {
  pin->owner = harness_below(random, OWNERS);
  pin->offset = harness_below(random, OFFSETS);
  pin->entry = kv_cache_lookup(cache, pin->owner, pin->offset);
  if (pin->entry) return;
  pin->entry = insert(cache, pin->owner, pin->offset, size_of(pin->owner, pin->offset));
}

START_TEST(random_operations_never_give_wrong_bytes) {
  uint64_t seed = harness_seed_env(11);
  struct harness_random random;
  harness_seed(&random, seed);
  struct kv_cache *cache = new_cache(50000);
  struct pin pins[PINS] = {0};
  for (int step = 0; step < 100000; step++) {
    struct pin *pin = &pins[harness_below(&random, PINS)];
    uint64_t what = harness_below(&random, 1000);
    if (what == 0) {
      kv_cache_drop_owner(cache, harness_below(&random, OWNERS));
    } else if (what == 1) {
      kv_cache_set_budget(cache, harness_below(&random, 100000));
    } else if (pin->entry) {
      expect_bytes(pin->entry, pin->owner, pin->offset, size_of(pin->owner, pin->offset));
      kv_cache_unpin(pin->entry);
      pin->entry = NULL;
    } else {
      random_pin(&random, cache, pin);
    }
  }
  for (int i = 0; i < PINS; i++) kv_cache_unpin(pins[i].entry);
  ck_assert_msg(kv_cache_bytes(cache) <= kv_cache_budget(cache), "seed %llu",
                (unsigned long long)seed);
  kv_cache_unref(cache);
  expect_nothing_left();
}
END_TEST

/* ---- Many threads */

static atomic_int wrong_bytes;
static atomic_bool stop_churn;

static void *use_cache(void *arg) {
  struct kv_cache *cache = arg;
  struct harness_random random;
  harness_seed(&random, (uint64_t)(uintptr_t)&random);
  for (int i = 0; i < 20000; i++) {
    uint64_t owner = harness_below(&random, OWNERS), offset = harness_below(&random, OFFSETS);
    size_t size = size_of(owner, offset);
    struct kv_cache_entry *entry = kv_cache_lookup(cache, owner, offset);
    if (!entry) {
      uint8_t *bytes = kv_cache_alloc(cache, size);
      fill(bytes, size, owner, offset);
      struct kv_cache_content content = {bytes, size, 0};
      if (kv_cache_insert(cache, owner, offset, &content, &entry, NULL)) abort();
    }
    const uint8_t *data = kv_cache_content(entry)->bytes;
    uint8_t last = (uint8_t)(owner * 31 + offset * 7 + size - 1);
    if (kv_cache_content(entry)->size != size || data[size - 1] != last)
      atomic_fetch_add(&wrong_bytes, 1);
    kv_cache_pin(entry);
    kv_cache_unpin(entry);
    kv_cache_unpin(entry);
  }
  kv_cache_unref(cache);
  return NULL;
}

static void *churn(void *arg) {
  struct kv_cache *cache = arg;
  for (size_t i = 0; !atomic_load(&stop_churn); i++) {
    kv_cache_set_budget(cache, i % 7 * 10000);
    kv_cache_drop_owner(cache, i % OWNERS);
  }
  kv_cache_unref(cache);
  return NULL;
}

START_TEST(threads_share_one_cache) {
  enum { THREADS = 4 };
  struct kv_cache *cache = new_cache(60000);
  pthread_t users[THREADS], churner;
  pthread_create(&churner, NULL, churn, kv_cache_ref(cache));
  for (int i = 0; i < THREADS; i++) {
    pthread_create(&users[i], NULL, use_cache, kv_cache_ref(cache));
  }
  kv_cache_unref(cache);
  for (int i = 0; i < THREADS; i++) pthread_join(users[i], NULL);
  atomic_store(&stop_churn, true);
  pthread_join(churner, NULL);
  ck_assert_int_eq(atomic_load(&wrong_bytes), 0);
  expect_nothing_left();
}
END_TEST

/* ---- The budget under a mixed load: bytes are never above it by more than what is pinned, and that is known
** exactly whenever nobody is inside a call, while pins are held. */

enum { LOAD_THREADS = 4, LOAD_PINS = 24, LOAD_OWNERS = 3, LOAD_OFFSETS = 300 };

struct load {
  struct kv_cache *cache;
  pthread_rwlock_t calls; /* read: around each call */
  atomic_size_t pinned;   /* bytes that some thread has pinned, each pin counted */
  atomic_int over;        /* times the budget was passed */
};

static size_t load_size(uint64_t offset) {
  return 100 + offset % 50 * 40;
}

/* At most what an entry costs beside its content. */
#define ENTRY_BYTES 200

static void note_pin(struct load *load, uint64_t offset) {
  atomic_fetch_add(&load->pinned, load_size(offset) + ENTRY_BYTES);
}

struct held {
  struct kv_cache_entry *entry;
  uint64_t offset;
};

static void let_go(struct load *load, struct held *held) {
  if (!held->entry) return;
  kv_cache_unpin(held->entry);
  atomic_fetch_sub(&load->pinned, load_size(held->offset) + ENTRY_BYTES);
  held->entry = NULL;
}

static struct kv_cache_entry *load_block(struct load *load, uint64_t owner, uint64_t offset) {
  size_t size = load_size(offset);
  uint8_t *bytes = kv_cache_alloc(load->cache, size);
  struct kv_cache_content content = {bytes, size, 0};
  struct kv_cache_entry *entry;
  fill(bytes, size, owner, offset);
  if (kv_cache_insert(load->cache, owner, offset, &content, &entry, NULL)) abort();
  return entry;
}

/* As a get: the pin stays for a while. */
static void get_one(struct load *load, struct harness_random *random, struct held *pins) {
  uint64_t owner = harness_below(random, LOAD_OWNERS);
  struct held *held = &pins[harness_below(random, LOAD_PINS)];
  let_go(load, held);
  held->offset = harness_below(random, LOAD_OFFSETS);
  note_pin(load, held->offset);
  held->entry = kv_cache_lookup(load->cache, owner, held->offset);
  if (!held->entry) held->entry = load_block(load, owner, held->offset);
}

/* As a multi-get: all pinned together. */
static void get_many(struct load *load, struct harness_random *random) {
  struct kv_cache_name names[16];
  struct kv_cache_entry *entries[16];
  for (int i = 0; i < 16; i++) {
    names[i].owner = harness_below(random, LOAD_OWNERS);
    names[i].offset = harness_below(random, LOAD_OFFSETS);
    note_pin(load, names[i].offset);
  }
  kv_cache_lookup_many(load->cache, names, 16, entries);
  for (int i = 0; i < 16; i++)
    if (!entries[i]) entries[i] = load_block(load, names[i].owner, names[i].offset);
  for (int i = 0; i < 16; i++) let_go(load, &(struct held){entries[i], names[i].offset});
}

/* As a scan: one block after the other, one pinned. */
static void scan_some(struct load *load, struct harness_random *random) {
  uint64_t owner = harness_below(random, LOAD_OWNERS);
  for (uint64_t i = 0, at = harness_below(random, LOAD_OFFSETS); i < 30; i++) {
    struct held held = {.offset = (at + i) % LOAD_OFFSETS};
    note_pin(load, held.offset);
    held.entry = kv_cache_lookup(load->cache, owner, held.offset);
    if (!held.entry) held.entry = load_block(load, owner, held.offset);
    let_go(load, &held);
  }
}

static void change_settings(struct load *load, struct harness_random *random) {
  uint64_t what = harness_below(random, 10);
  if (what < 3) kv_cache_set_budget(load->cache, harness_below(random, 200000));
  if (what == 3) kv_cache_set_budget(load->cache, 0);
  if (what == 4) kv_cache_drop_owner(load->cache, harness_below(random, LOAD_OWNERS));
}

/* Nobody is inside a call, but pins are held: the figures are of one moment. */
static void look(struct load *load) {
  pthread_rwlock_wrlock(&load->calls);
  size_t bytes = kv_cache_bytes(load->cache), budget = kv_cache_budget(load->cache);
  if (bytes > budget + atomic_load(&load->pinned)) atomic_fetch_add(&load->over, 1);
  pthread_rwlock_unlock(&load->calls);
}

static void *put_under_load(void *arg) {
  struct load *load = arg;
  static atomic_int threads;
  struct harness_random random;
  struct held pins[LOAD_PINS] = {{NULL, 0}};
  harness_seed(&random, harness_seed_env(5) + (uint64_t)atomic_fetch_add(&threads, 1));
  for (int i = 0; i < 4000; i++) {
    uint64_t what = harness_below(&random, 20);
    pthread_rwlock_rdlock(&load->calls);
    if (what < 14) get_one(load, &random, pins);
    if (what == 14 || what == 15) get_many(load, &random);
    if (what == 16) scan_some(load, &random);
    if (what == 17) change_settings(load, &random);
    pthread_rwlock_unlock(&load->calls);
    if (what >= 18) look(load);
  }
  for (int i = 0; i < LOAD_PINS; i++) let_go(load, &pins[i]);
  return NULL;
}

START_TEST(budget_holds_at_all_times_under_a_mixed_load) {
  struct load load = {.cache = new_cache(60000)};
  pthread_t threads[LOAD_THREADS];
  pthread_rwlock_init(&load.calls, NULL);
  for (int i = 0; i < LOAD_THREADS; i++) pthread_create(&threads[i], NULL, put_under_load, &load);
  for (int i = 0; i < LOAD_THREADS; i++) pthread_join(threads[i], NULL);
  ck_assert_int_eq(atomic_load(&load.over), 0);
  ck_assert_uint_eq(atomic_load(&load.pinned), 0);
  ck_assert_uint_le(kv_cache_bytes(load.cache), kv_cache_budget(load.cache));
  pthread_rwlock_destroy(&load.calls);
  kv_cache_unref(load.cache);
  expect_nothing_left();
}
END_TEST

/* Entries that a sweep has met pinned go with their last pin, whoever else comes and goes meanwhile. */
START_TEST(what_was_pinned_over_the_budget_does_not_stay) {
  enum { N = 200 };
  struct kv_cache *cache = new_cache(50000);
  struct kv_cache_entry *entries[N];
  for (uint64_t i = 0; i < N; i++) entries[i] = insert(cache, 1, i, 1000);
  kv_cache_set_budget(cache, 1 << 20); /* within the budget again: those below stay */
  for (uint64_t i = 0; i < N / 2; i++) kv_cache_unpin(entries[i]);
  for (uint64_t i = 0; i < N / 2; i++) ck_assert(holds(cache, 1, i));
  kv_cache_set_budget(cache, 20000); /* only those that nobody has can go */
  for (uint64_t i = 0; i < N / 2; i++) ck_assert(!holds(cache, 1, i));
  for (uint64_t i = N / 2; i < N; i++) {
    kv_cache_unpin(entries[i]);
    size_t pinned = (N - 1 - i) * (1000 + ENTRY_BYTES);
    ck_assert_uint_le(kv_cache_bytes(cache), 20000 + pinned);
  }
  insert_unpinned(cache, 2, 0, 1000);
  ck_assert_uint_le(kv_cache_bytes(cache), 20000);
  kv_cache_unref(cache);
  expect_nothing_left();
}
END_TEST

/* ---- Memory */

START_TEST(every_failing_allocation_of_new_is_nomem) {
  struct kv_cache *cache = NULL;
  kv_status status = KV_NOMEM;
  for (uint64_t nth = 1; status == KV_NOMEM; nth++) {
    kv_mem_fail_nth(nth, 0);
    status = kv_cache_new(1000, &cache, &err);
    kv_mem_fail_nth(0, 0);
    if (status) expect_nothing_left();
    ck_assert_uint_lt(nth, 1000);
  }
  ck_assert_int_eq(status, KV_OK);
  kv_cache_unref(cache);
  expect_nothing_left();
}
END_TEST

START_TEST(failed_insert_leaves_the_bytes_to_the_caller) {
  struct kv_cache *cache = new_cache(100000);
  uint8_t *bytes = kv_cache_alloc(cache, 10);
  struct kv_cache_content content = {bytes, 10, 0};
  struct kv_cache_entry *entry;
  kv_mem_fail_nth(1, 0);
  ck_assert_int_eq(kv_cache_insert(cache, 1, 1, &content, &entry, &err), KV_NOMEM);
  kv_mem_fail_nth(0, 0);
  memset(bytes, 0, 10);
  kv_cache_free(cache, bytes, 10);
  ck_assert(!holds(cache, 1, 1));
  kv_cache_unref(cache);
  expect_nothing_left();
}
END_TEST

/* Growing a hash table is not worth an error. */
START_TEST(inserts_go_on_when_tables_cannot_grow) {
  struct kv_cache *cache = new_cache(64 << 20);
  for (uint64_t i = 0; i < 4000; i++) {
    uint8_t *bytes = kv_cache_alloc(cache, 16);
    fill(bytes, 16, 1, i);
    struct kv_cache_content content = {bytes, 16, 0};
    struct kv_cache_entry *entry;
    kv_mem_fail_nth(2, 1);
    ok(kv_cache_insert(cache, 1, i, &content, &entry, &err));
    kv_mem_fail_nth(0, 0);
    kv_cache_unpin(entry);
  }
  for (uint64_t i = 0; i < 4000; i++) ck_assert(holds(cache, 1, i));
  kv_cache_unref(cache);
  expect_nothing_left();
}
END_TEST

int main(void) {
  Suite *suite = suite_create("cache");
  TCase *tests = tcase_create("cache");
  tcase_set_timeout(tests, 60);
  tcase_add_test(tests, lookup_of_what_was_inserted);
  tcase_add_test(tests, second_insert_gives_the_first_entry);
  tcase_add_test(tests, owners_are_never_given_twice);
  tcase_add_test(tests, unpinned_entries_never_pass_the_budget);
  tcase_add_test(tests, pinned_entries_pass_the_budget_and_go_when_let_go);
  tcase_add_test(tests, budget_0_keeps_nothing_but_pins);
  tcase_add_test(tests, huge_entry_does_not_empty_the_cache);
  tcase_add_test(tests, used_entries_survive_a_scan);
  tcase_add_test(tests, smaller_budget_takes_effect_at_once);
  tcase_add_test(tests, dropped_owner_is_forgotten_and_pins_stay_good);
  tcase_add_test(tests, pin_outlives_the_last_reference);
  tcase_add_test(tests, null_is_allowed_where_said);
  tcase_add_test(tests, many_small_entries_grow_the_tables);
  tcase_add_test(tests, pins_far_over_the_budget_stay_cheap);
  tcase_add_test(tests, many_lookups_are_as_many_single_ones);
  tcase_add_test(tests, random_operations_never_give_wrong_bytes);
  tcase_add_test(tests, threads_share_one_cache);
  tcase_add_test(tests, budget_holds_at_all_times_under_a_mixed_load);
  tcase_add_test(tests, what_was_pinned_over_the_budget_does_not_stay);
  tcase_add_test(tests, every_failing_allocation_of_new_is_nomem);
  tcase_add_test(tests, failed_insert_leaves_the_bytes_to_the_caller);
  tcase_add_test(tests, inserts_go_on_when_tables_cannot_grow);
  suite_add_tcase(suite, tests);
  return harness_run(suite);
}
