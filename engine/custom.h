/* An order of keys that an application's function makes, in one of two forms:
**
** - a *sort-key encoder* is called once for each key that is looked for or written (key.h, kv_key_part):
**   what it makes of a text or blob stands in the key, and keys are in memcmp order. Bytes that it makes
**   alike are one key.
** - a *comparator* is called for each comparison of two keys. What it calls equal must be equal bytes. What
**   is not is ordered by memcmp, so that no two keys are ever taken for one, and counted as a fault:
**   whoever writes keys looks whether there was one.
**
** The function is called on any thread, as `threads` says, below locks of the engine: it must not call
** back. Thread rule: any thread. */
#ifndef KV_CUSTOM_H
#define KV_CUSTOM_H

#include <stdbool.h>
#include <stdint.h>

#include "compare.h"
#include "key.h"
#include "status.h"

enum kv_custom_threads {
  KV_CUSTOM_ANY,     /* by several threads at a time, with the one context */
  KV_CUSTOM_EACH,    /* likewise, but each thread has a context of its own */
  KV_CUSTOM_MUTEX,   /* by one thread at a time */
  KV_CUSTOM_ADAPTIVE /* likewise; who waits tries for a while before it sleeps */
};

struct kv_custom_config {
  const char *name; /* copied */
  void *context;
  /* One of the two. Sizes are at most KV_KEY_BYTES_MAX. <0, 0, >0: a total order of keys, the same for
  ** ever. */
  int (*compare)(void *context, const void *a, int a_size, const void *b, int b_size);
  /* Writes the sort key when it has room and returns its size; is called again with as much room when it was
  ** too little. Negative: no memory. The same result for the same bytes, for ever. */
  int (*encode)(void *context, const void *bytes, int size, void *into, int room);
  enum kv_custom_threads threads;
  /* EACH: makes the context of a thread when it first needs it, and ends it with the thread or the order. */
  void *(*open)(void *context);
  void (*close)(void *thread_context);
  /* A comparator gets copies that it may write to: in buffers that are used again, of copy_bytes each;
  ** of longer keys in memory of their own. */
  bool copies;
  int copy_bytes;
  void (*free)(void *context); /* when nobody uses the order any more; NULL is allowed */
};

struct kv_custom;
/* Starts with one use. KV_MISUSE when the config contradicts itself. */
kv_status kv_custom_new(const struct kv_custom_config *config, struct kv_custom **custom,
                        struct kv_err *err);
struct kv_custom *kv_custom_ref(struct kv_custom *custom);
void kv_custom_unref(struct kv_custom *custom);
/* Takes the context away from it: its `free` is not called. */
void kv_custom_disown(struct kv_custom *custom);
/* Uses at this moment. Whoever keeps others from kv_custom_ref knows that one is the last. */
int64_t kv_custom_uses(const struct kv_custom *custom);
const char *kv_custom_name(const struct kv_custom *custom);
/* The encoder, borrowed; NULL of a comparator. */
const struct kv_encoder *kv_custom_encoder(const struct kv_custom *custom);

/* What the function says of two keys, without more. */
int kv_custom_call(struct kv_custom *custom, struct kv_slice a, struct kv_slice b);

/* What the function of a comparator is given of two keys. */
enum kv_custom_view {
  KV_CUSTOM_KEYS, /* the keys' bytes */
  /* Keys of one ascending column (FORMAT.md, Keys): the bytes of two texts or two blobs; other keys are in
  ** memcmp order without it. */
  KV_CUSTOM_CONTENT
};
/* One reference for the caller, and a use of the custom order. */
kv_status kv_custom_comparator(struct kv_custom *custom, enum kv_custom_view view, bool descending,
                               struct kv_comparator **comparator, struct kv_err *err);

/* How often the order of this comparator has broken its word, on any thread: called different keys equal or,
** as builds for tests find out by asking more than they need, contradicted itself. 0 without a comparator.
** */
uint64_t kv_custom_faults(const struct kv_comparator *comparator);
/* KV_OK when there have been no more faults than these, else KV_MISUSE and what the last was. */
kv_status kv_custom_check(uint64_t faults, const struct kv_comparator *comparator,
                          struct kv_err *err);

/* Around a fork: whoever uses the order at that moment is waited for. */
void kv_custom_lock(struct kv_custom *custom);
void kv_custom_unlock(struct kv_custom *custom);

#endif
