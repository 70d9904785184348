/* See custom.h.
**
** A thread that needs something of its own for an order, a context or buffers, has a *seat* there: found
** in the thread's list of seats, which one pointer a thread leads to (env.h), and made when it is first
** needed. A seat goes with its thread; its context is closed earlier when the order ends. A search takes seat
** and turn once for all its calls. No comparison can fail for want of memory: without a seat a context is
** opened for the call or search, and an order that copies keys has *spare* room for the two longest keys,
** made with it, which is used when there is no other.
**
** A comparison cannot fail, so a fault is noted for its order, and whoever has made the comparison asks
** afterwards. Builds for tests ask the function again for some pairs, the other way round and with a third
** key.
**
** Locks: `turn` is held during a call or search that is serialised, `spare_turn` during one that uses the
** spare room, `lock` for work on the list of seats. In this order; none is waited for while `lock` is held.
** */
#include "custom.h"

#include <string.h>

#include "env.h"
#include "mem.h"

struct seat {
  struct kv_custom *custom; /* keeps its memory */
  struct seat *next_of_thread;
  struct seat *next, **link; /* of the order, under its lock; link NULL: taken off */
  void *context;
  uint8_t buffers[]; /* two of copy_bytes */
};

struct kv_custom {
  struct kv_encoder encoder; /* first: calls cast back */
  struct kv_custom_config config;
  int64_t uses;           /* atomic: of those who may call */
  int64_t memory;         /* atomic: one for all uses, one a seat */
  uint64_t faults;        /* atomic */
  const char *last_fault; /* atomic; static text */
  bool direct;            /* nothing but the call is to be done */
  bool seated;            /* each thread has a seat */
  struct kv_mutex *turn, *spare_turn, *lock;
  uint8_t *spare; /* two of KV_KEY_BYTES_MAX; NULL without copies */
  struct seat *seats;
  struct seat *shared; /* of calls that are serialised */
  char name[];
};

/* ---- Life */

static void release_memory(struct kv_custom *custom) {
  if (__atomic_sub_fetch(&custom->memory, 1, __ATOMIC_ACQ_REL)) return;
  kv_mutex_free(custom->turn);
  kv_mutex_free(custom->spare_turn);
  kv_mutex_free(custom->lock);
  kv_free(custom->spare);
  kv_free(custom->shared);
  kv_free(custom);
}

static bool opens(const struct kv_custom *custom) {
  return custom->config.threads == KV_CUSTOM_EACH;
}

/* Takes a seat off the order's list; whether it was there. Under the lock. */
static bool take_off(struct seat *seat) {
  if (!seat->link) return false;
  *seat->link = seat->next;
  if (seat->next) seat->next->link = seat->link;
  seat->link = NULL;
  return true;
}

/* The context goes while the lock is held: an order that ends waits for it. */
static void close_seat(struct seat *seat) {
  const struct kv_custom *custom = seat->custom;
  kv_mutex_lock(custom->lock);
  if (take_off(seat) && opens(custom)) custom->config.close(seat->context);
  kv_mutex_unlock(custom->lock);
}

static void leave_seats(void *value) {
  for (struct seat *seat = value, *next; seat; seat = next) {
    next = seat->next_of_thread;
    close_seat(seat);
    release_memory(seat->custom);
    kv_free(seat);
  }
}

static struct seat *seat_new(struct kv_custom *custom) {
  size_t bytes = custom->config.copies ? 2 * (size_t)custom->config.copy_bytes : 0;
  struct seat *seat = kv_alloc_zero(1, sizeof *seat + bytes);
  if (!seat) return NULL;
  seat->custom = custom;
  seat->context = custom->config.context;
  return seat;
}

static bool is_sound(const struct kv_custom_config *config) {
  if (!config->name || !*config->name || !config->compare == !config->encode) return false;
  if (config->threads == KV_CUSTOM_EACH && (!config->open || !config->close)) return false;
  return !config->copies ||
         (config->compare && config->copy_bytes >= 0 && config->copy_bytes <= KV_KEY_BYTES_MAX);
}

static int encode(const struct kv_encoder *self, struct kv_slice bytes, void *into, int room);

static kv_status init(struct kv_custom *custom, const struct kv_custom_config *config,
                      struct kv_err *err) {
  bool serial = config->threads == KV_CUSTOM_MUTEX || config->threads == KV_CUSTOM_ADAPTIVE;
  custom->config = *config;
  memcpy(custom->name, config->name, strlen(config->name) + 1);
  custom->config.name = custom->name;
  custom->encoder.encode = encode;
  custom->uses = custom->memory = 1;
  custom->direct = config->threads == KV_CUSTOM_ANY && !config->copies;
  custom->seated = !custom->direct && !serial;
  if (serial) custom->shared = seat_new(custom);
  if (config->copies) custom->spare = kv_alloc(2, KV_KEY_BYTES_MAX);
  if ((serial && !custom->shared) || (config->copies && !custom->spare)) return kv_fail_nomem(err);
  kv_status status = kv_mutex_new(&custom->lock, err);
  if (!status) status = kv_mutex_new(&custom->spare_turn, err);
  return status ? status : kv_mutex_new(&custom->turn, err);
}

kv_status kv_custom_new(const struct kv_custom_config *config, struct kv_custom **custom,
                        struct kv_err *err) {
  if (!is_sound(config)) return kv_fail(err, KV_MISUSE, "an order that contradicts itself");
  struct kv_custom *made = kv_alloc_zero(1, sizeof *made + strlen(config->name) + 1);
  if (!made) return kv_fail_nomem(err);
  kv_status status = init(made, config, err);
  if (status) {
    made->memory = 1;
    release_memory(made);
    return status;
  }
  *custom = made;
  return KV_OK;
}

struct kv_custom *kv_custom_ref(struct kv_custom *custom) {
  __atomic_add_fetch(&custom->uses, 1, __ATOMIC_RELAXED);
  return custom;
}

void kv_custom_disown(struct kv_custom *custom) {
  custom->config.free = NULL;
}

int64_t kv_custom_uses(const struct kv_custom *custom) {
  return __atomic_load_n(&custom->uses, __ATOMIC_ACQUIRE);
}

/* The seats themselves go with their threads. */
static void close_all(struct kv_custom *custom) {
  kv_mutex_lock(custom->lock);
  for (struct seat *seat = custom->seats; seat; seat = custom->seats) {
    take_off(seat);
    if (opens(custom)) custom->config.close(seat->context);
  }
  kv_mutex_unlock(custom->lock);
}

void kv_custom_unref(struct kv_custom *custom) {
  if (!custom || __atomic_sub_fetch(&custom->uses, 1, __ATOMIC_ACQ_REL)) return;
  close_all(custom);
  if (custom->config.free) custom->config.free(custom->config.context);
  release_memory(custom);
}

const char *kv_custom_name(const struct kv_custom *custom) {
  return custom->name;
}

const struct kv_encoder *kv_custom_encoder(const struct kv_custom *custom) {
  return custom->config.encode ? &custom->encoder : NULL;
}

/* ---- Seats */

static struct seat *find_seat(const struct kv_custom *custom) {
  struct seat *seat = kv_thread_value();
  while (seat && seat->custom != custom) seat = seat->next_of_thread;
  return seat;
}

static void put_on(struct kv_custom *custom, struct seat *seat) {
  kv_mutex_lock(custom->lock);
  seat->next = custom->seats;
  if (seat->next) seat->next->link = &seat->next;
  seat->link = &custom->seats;
  custom->seats = seat;
  kv_mutex_unlock(custom->lock);
}

/* NULL when there is no memory, and nothing was opened then. */
static struct seat *take_seat(struct kv_custom *custom) {
  struct seat *seat = find_seat(custom);
  if (seat) return seat;
  seat = seat_new(custom);
  if (!seat) return NULL;
  seat->next_of_thread = kv_thread_value();
  if (!kv_thread_set_value(seat, leave_seats)) {
    kv_free(seat);
    return NULL;
  }
  __atomic_add_fetch(&custom->memory, 1, __ATOMIC_RELAXED);
  if (opens(custom)) seat->context = custom->config.open(custom->config.context);
  put_on(custom, seat);
  return seat;
}

/* ---- Calls */

static void note_fault(struct kv_custom *custom, const char *what) {
  __atomic_store_n(&custom->last_fault, what, __ATOMIC_RELAXED);
  __atomic_add_fetch(&custom->faults, 1, __ATOMIC_RELEASE);
}

struct call {
  struct seat *seat; /* NULL: without */
  void *context;
};

static void begin_call(struct kv_custom *custom, struct call *call) {
  call->seat = custom->shared;
  if (custom->config.threads == KV_CUSTOM_MUTEX) kv_mutex_lock(custom->turn);
  if (custom->config.threads == KV_CUSTOM_ADAPTIVE) kv_mutex_lock_adaptive(custom->turn);
  if (custom->seated) call->seat = take_seat(custom);
  call->context = call->seat ? call->seat->context : custom->config.context;
  if (opens(custom) && !call->seat) call->context = custom->config.open(custom->config.context);
}

static void end_call(struct kv_custom *custom, const struct call *call) {
  if (opens(custom) && !call->seat) custom->config.close(call->context);
  if (custom->shared) kv_mutex_unlock(custom->turn);
}

/* What a call is given of the two keys. */
struct copies {
  uint8_t *of[2];
  uint8_t *own[2]; /* to be freed */
  bool spare;      /* with its turn */
};

/* Room for a copy of the key: the seat's buffer of that number, else memory of its own. NULL: none. */
static uint8_t *find_room(const struct kv_custom *custom, const struct call *call, int number,
                          size_t size, uint8_t **own) {
  size_t room = (size_t)custom->config.copy_bytes;
  if (call->seat && size <= room && room) return call->seat->buffers + (size_t)number * room;
  return *own = kv_alloc(size, 1);
}

static void use_spare(struct kv_custom *custom, struct copies *copies) {
  kv_mutex_lock(custom->spare_turn);
  copies->spare = true;
  for (int i = 0; i < 2; i++) copies->of[i] = custom->spare + (size_t)i * KV_KEY_BYTES_MAX;
}

/* Whether there are copies: there are of all keys that a store holds. */
static bool make_copies(struct kv_custom *custom, const struct call *call,
                        const struct kv_slice *keys, struct copies *copies) {
  for (int i = 0; i < 2; i++)
    copies->of[i] = find_room(custom, call, i, keys[i].size, &copies->own[i]);
  if (!copies->of[0] || !copies->of[1]) {
    if (keys[0].size > KV_KEY_BYTES_MAX || keys[1].size > KV_KEY_BYTES_MAX) return false;
    use_spare(custom, copies);
  }
  for (int i = 0; i < 2; i++)
    if (keys[i].size) memcpy(copies->of[i], keys[i].data, keys[i].size);
  return true;
}

static void drop_copies(struct kv_custom *custom, const struct copies *copies) {
  if (copies->spare) kv_mutex_unlock(custom->spare_turn);
  for (int i = 0; i < 2; i++) kv_free(copies->own[i]);
}

static int compare_copies(struct kv_custom *custom, const struct call *call, struct kv_slice a,
                          struct kv_slice b) {
  struct copies copies = {0};
  int order;
  if (make_copies(custom, call, (struct kv_slice[]){a, b}, &copies)) {
    order =
        custom->config.compare(call->context, copies.of[0], (int)a.size, copies.of[1], (int)b.size);
  } else {
    note_fault(custom, "has no memory for copies of keys that are longer than keys can be");
    order = kv_slice_compare(a, b);
  }
  drop_copies(custom, &copies);
  return order;
}

/* Likewise, both in the seat's buffers. */
static int compare_buffered(const struct kv_custom *custom, const struct call *call,
                            struct kv_slice a, struct kv_slice b) {
  uint8_t *left = call->seat->buffers, *right = left + custom->config.copy_bytes;
  if (a.size) memcpy(left, a.data, a.size);
  if (b.size) memcpy(right, b.data, b.size);
  return custom->config.compare(call->context, left, (int)a.size, right, (int)b.size);
}

static int compare_prepared(struct kv_custom *custom, const struct call *call, struct kv_slice a,
                            struct kv_slice b) {
  size_t room = (size_t)custom->config.copy_bytes; /* 0 without buffers */
  if (room && call->seat && a.size <= room && b.size <= room)
    return compare_buffered(custom, call, a, b);
  if (custom->config.copies) return compare_copies(custom, call, a, b);
  return custom->config.compare(call->context, a.data, (int)a.size, b.data, (int)b.size);
}

static int compare_alone(struct kv_custom *custom, struct kv_slice a, struct kv_slice b) {
  struct call call;
  begin_call(custom, &call);
  int order = compare_prepared(custom, &call, a, b);
  end_call(custom, &call);
  return order;
}

/* In the call of a search, or in one of its own (NULL). */
static inline int call_compare(struct kv_custom *custom, const struct call *call, struct kv_slice a,
                               struct kv_slice b) {
  const struct kv_custom_config *config = &custom->config;
  if (custom->direct)
    return config->compare(config->context, a.data, (int)a.size, b.data, (int)b.size);
  return call ? compare_prepared(custom, call, a, b) : compare_alone(custom, a, b);
}

int kv_custom_call(struct kv_custom *custom, struct kv_slice a, struct kv_slice b) {
  return call_compare(custom, NULL, a, b);
}

/* ---- Faults */

#ifdef COLFAM_TEST

#define SAMPLE_EVERY 16
#define SAMPLE_BYTES 256

/* A key that was compared a while ago; one thread looks at a time, others do without. */
static struct {
  bool taken; /* atomic */
  const struct kv_custom *custom;
  unsigned calls; /* atomic */
  size_t size;
  uint8_t bytes[SAMPLE_BYTES];
} sample;

/* Whether a <= b <= c, without a <= c. */
static bool is_loop(struct kv_custom *custom, const struct call *call, struct kv_slice a,
                    struct kv_slice b, struct kv_slice c) {
  return call_compare(custom, call, a, b) <= 0 && call_compare(custom, call, b, c) <= 0 &&
         call_compare(custom, call, a, c) > 0;
}

static void look_at_third(struct kv_custom *custom, const struct call *call, struct kv_slice a,
                          struct kv_slice b) {
  struct kv_slice c = kv_slice_of(sample.bytes, sample.size);
  if (sample.custom == custom &&
      (is_loop(custom, call, a, b, c) || is_loop(custom, call, b, a, c) ||
       is_loop(custom, call, a, c, b) || is_loop(custom, call, b, c, a) ||
       is_loop(custom, call, c, a, b) || is_loop(custom, call, c, b, a)))
    note_fault(custom, "goes round in a circle of three keys");
  if (a.size > SAMPLE_BYTES) return;
  sample.custom = custom;
  sample.size = a.size;
  if (a.size) memcpy(sample.bytes, a.data, a.size);
}

static void look_closer(struct kv_custom *custom, const struct call *call, struct kv_slice a,
                        struct kv_slice b, int order) {
  if (__atomic_fetch_add(&sample.calls, 1, __ATOMIC_RELAXED) % SAMPLE_EVERY) return;
  int turned = call_compare(custom, call, b, a);
  if ((order > 0) != (turned < 0) || (order < 0) != (turned > 0))
    note_fault(custom, "says of two keys what it denies the other way round");
  if (__atomic_exchange_n(&sample.taken, true, __ATOMIC_ACQUIRE)) return;
  look_at_third(custom, call, a, b);
  __atomic_store_n(&sample.taken, false, __ATOMIC_RELEASE);
}
#else
static void look_closer(struct kv_custom *custom, const struct call *call, struct kv_slice a,
                        struct kv_slice b, int order) {
  (void)custom, (void)call, (void)a, (void)b, (void)order;
}
#endif

/* What the function calls equal. */
static __attribute__((noinline)) int compare_equal(struct kv_custom *custom, struct kv_slice a,
                                                   struct kv_slice b) {
  int order = kv_slice_compare(a, b);
  if (order) note_fault(custom, "calls different keys equal");
  return order;
}

/* No two keys are equal. */
static inline int compare_distinct(struct kv_custom *custom, const struct call *call,
                                   struct kv_slice a, struct kv_slice b) {
  int order = call_compare(custom, call, a, b);
  look_closer(custom, call, a, b, order);
  return order ? order : compare_equal(custom, a, b);
}

static int encode(const struct kv_encoder *self, struct kv_slice bytes, void *into, int room) {
  struct kv_custom *custom = (struct kv_custom *)(uintptr_t)self;
  const struct kv_custom_config *config = &custom->config;
  if (custom->direct)
    return config->encode(config->context, bytes.data, (int)bytes.size, into, room);
  struct call call;
  begin_call(custom, &call);
  int size = config->encode(call.context, bytes.data, (int)bytes.size, into, room);
  end_call(custom, &call);
  return size;
}

void kv_custom_lock(struct kv_custom *custom) {
  kv_mutex_lock(custom->turn);
  kv_mutex_lock(custom->spare_turn);
  kv_mutex_lock(custom->lock);
}

void kv_custom_unlock(struct kv_custom *custom) {
  kv_mutex_unlock(custom->lock);
  kv_mutex_unlock(custom->spare_turn);
  kv_mutex_unlock(custom->turn);
}

/* ---- Comparators */

struct comparator {
  struct kv_comparator base; /* first: calls cast back */
  struct kv_custom *custom;
  const struct call *call; /* of the search that this one is for; else NULL */
};

static struct kv_custom *custom_of(const struct kv_comparator *self) {
  return ((const struct comparator *)self)->custom;
}

static int compare_keys(const struct kv_comparator *self, struct kv_slice a, struct kv_slice b) {
  const struct comparator *comparator = (const struct comparator *)self;
  return compare_distinct(comparator->custom, comparator->call, a, b);
}

static int compare_keys_down(const struct kv_comparator *self, struct kv_slice a,
                             struct kv_slice b) {
  return compare_keys(self, b, a);
}

static int compare_content(const struct kv_comparator *self, struct kv_slice a, struct kv_slice b) {
  if (!a.size || !b.size || a.data[0] != b.data[0] || !kv_key_has_content(a.data[0]))
    return kv_slice_compare(a, b);
  return compare_keys(self, kv_slice_of(a.data + 1, a.size - 1),
                      kv_slice_of(b.data + 1, b.size - 1));
}

static int compare_content_down(const struct kv_comparator *self, struct kv_slice a,
                                struct kv_slice b) {
  return compare_content(self, b, a);
}

/* What stands in the room of a search. */
struct searching {
  struct comparator comparator;
  struct call call;
};
_Static_assert(sizeof(struct searching) <= sizeof((struct kv_search *)0)->room, "room for it");

static struct searching *searching_of(struct kv_search *search) {
  return (struct searching *)(void *)search->room;
}

static const struct kv_comparator *begin_search(const struct kv_comparator *self,
                                                struct kv_search *search) {
  struct searching *searching = searching_of(search);
  /* Not the references, which others count meanwhile. */
  searching->comparator =
      (struct comparator){.base = {.name = self->name, .compare = self->compare},
                          .custom = custom_of(self),
                          .call = &searching->call};
  begin_call(custom_of(self), &searching->call);
  return &searching->comparator.base;
}

static void end_search(struct kv_search *search) {
  const struct searching *searching = searching_of(search);
  end_call(searching->comparator.custom, &searching->call);
}

static void comparator_free(struct kv_comparator *self) {
  kv_custom_unref(custom_of(self));
  kv_free(self);
}

/* NULL for comparators of other kinds. */
static const struct kv_custom *custom_behind(const struct kv_comparator *comparator) {
  return comparator && comparator->free == comparator_free ? custom_of(comparator) : NULL;
}

static uint64_t faults_of(const struct kv_custom *custom) {
  return __atomic_load_n(&custom->faults, __ATOMIC_ACQUIRE);
}

uint64_t kv_custom_faults(const struct kv_comparator *comparator) {
  const struct kv_custom *custom = custom_behind(comparator);
  return custom ? faults_of(custom) : 0;
}

kv_status kv_custom_check(uint64_t before, const struct kv_comparator *comparator,
                          struct kv_err *err) {
  const struct kv_custom *custom = custom_behind(comparator);
  if (!custom || faults_of(custom) == before) return KV_OK;
  const char *fault = __atomic_load_n(&custom->last_fault, __ATOMIC_RELAXED);
  return kv_fail(err, KV_MISUSE, "order %s is not one: its comparator %s", custom->name, fault);
}

kv_status kv_custom_comparator(struct kv_custom *custom, enum kv_custom_view view, bool descending,
                               struct kv_comparator **comparator, struct kv_err *err) {
  struct comparator *made = kv_alloc_zero(1, sizeof *made);
  if (!made) return kv_fail_nomem(err);
  made->base.name = custom->name;
  made->base.refs = 1;
  made->base.free = comparator_free;
  if (view == KV_CUSTOM_CONTENT)
    made->base.compare = descending ? compare_content_down : compare_content;
  else
    made->base.compare = descending ? compare_keys_down : compare_keys;
  if (!custom->direct) {
    made->base.begin = begin_search;
    made->base.end = end_search;
  }
  made->custom = kv_custom_ref(custom);
  *comparator = &made->base;
  return KV_OK;
}
