/* See api_orders.h. The check asks the function itself, past what the engine makes of its answers. */
#include "api_orders.h"

#include <limits.h>
#include <string.h>

#include "error.h"
#include "orders.h"

/* ---- Registering */

static int give_message(int rc, char *text, char **message) {
  if (rc != SQLITE_OK && !text) text = sqlite3_mprintf("%s", sqlite3_errstr(rc));
  if (message)
    *message = text;
  else
    sqlite3_free(text);
  return rc;
}

static bool is_sound(const struct colfam_order *order) {
  return order && order->size >= (int)sizeof *order && order->threads >= COLFAM_THREADS_ANY &&
         order->threads <= COLFAM_THREADS_ADAPTIVE;
}

int colfam_api_register_order(const struct colfam_api *api, const struct colfam_order *order,
                              char **message) {
  static const enum kv_custom_threads threads[] = {[COLFAM_THREADS_ANY] = KV_CUSTOM_ANY,
                                                   [COLFAM_THREADS_OWN_CONTEXT] = KV_CUSTOM_EACH,
                                                   [COLFAM_THREADS_MUTEX] = KV_CUSTOM_MUTEX,
                                                   [COLFAM_THREADS_ADAPTIVE] = KV_CUSTOM_ADAPTIVE};
  char *text = NULL;
  (void)api;
  if (!is_sound(order)) return give_message(SQLITE_MISUSE, text, message);
  struct kv_custom_config config = {.name = order->name,
                                    .context = order->context,
                                    .compare = order->compare,
                                    .encode = order->encode,
                                    .threads = threads[order->threads],
                                    .open = order->open,
                                    .close = order->close,
                                    .copies = order->copy_bytes != 0,
                                    .copy_bytes = order->copy_bytes > 0 ? order->copy_bytes : 0,
                                    .free = order->destroy};
  int rc = colfam_order_register(&config, &text);
  return give_message(rc, text, message);
}

int colfam_api_unregister_order(const struct colfam_api *api, const char *name, char **message) {
  char *text = NULL;
  (void)api;
  int rc = name ? colfam_order_unregister(name, &text) : SQLITE_MISUSE;
  return give_message(rc, text, message);
}

/* ---- Checking */

struct question {
  struct kv_custom *custom;
  const struct kv_encoder *encoder;
  const struct colfam_value *values;
  int count;
  char **message;
};

static struct kv_slice bytes_of(const struct question *question, int i) {
  const struct colfam_value *value = &question->values[i];
  return kv_slice_of(value->bytes, (size_t)value->size);
}

static int contradiction(const struct question *question, const char *format, int a, int b, int c) {
  return colfam_error(question->message, SQLITE_CONSTRAINT, format, a, b, c);
}

static int sign(int order) {
  return (order > 0) - (order < 0);
}

static int compare(const struct question *question, int a, int b) {
  return sign(kv_custom_call(question->custom, bytes_of(question, a), bytes_of(question, b)));
}

static int check_pair(const struct question *question, int a, int b) {
  int order = compare(question, a, b);
  bool same = kv_slice_equal(bytes_of(question, a), bytes_of(question, b));
  if (order != -compare(question, b, a))
    return contradiction(question, "values %d and %d: the two ways round disagree", a, b, 0);
  if (!order && !same)
    return contradiction(question, "values %d and %d are different bytes and called equal", a, b,
                         0);
  if (order && same)
    return contradiction(question, "values %d and %d are the same bytes and not equal", a, b, 0);
  return SQLITE_OK;
}

static int check_triples(const struct question *question, int a, int b) {
  if (compare(question, a, b) > 0) return SQLITE_OK;
  for (int c = 0; c < question->count; c++)
    if (compare(question, b, c) <= 0 && compare(question, a, c) > 0)
      return contradiction(
          question, "value %d is not above %d, which is not above %d, which is below it", a, b, c);
  return SQLITE_OK;
}

static int check_comparator(const struct question *question) {
  int rc = SQLITE_OK;
  for (int a = 0; a < question->count && rc == SQLITE_OK; a++)
    for (int b = 0; b < question->count && rc == SQLITE_OK; b++) {
      rc = check_pair(question, a, b);
      if (rc == SQLITE_OK) rc = check_triples(question, a, b);
    }
  return rc;
}

/* Asked with no room, with just enough and with more, it must say the same each time. */
static int check_encoding(const struct question *question, int i) {
  const struct kv_encoder *encoder = question->encoder;
  struct kv_slice bytes = bytes_of(question, i);
  int size = encoder->encode(encoder, bytes, NULL, 0);
  if (size < 0) return SQLITE_NOMEM;
  uint8_t *room = sqlite3_malloc64(2 * (sqlite3_uint64)size + 64);
  if (!room) return SQLITE_NOMEM;
  memset(room, 0x55, 2 * (size_t)size + 64);
  int again = encoder->encode(encoder, bytes, room, size);
  int more = encoder->encode(encoder, bytes, room + size, size + 32);
  bool sound = again == size && more == size && memcmp(room, room + size, (size_t)size) == 0;
  for (int k = 0; k < 32; k++) sound = sound && room[2 * size + 32 + k] == 0x55;
  sqlite3_free(room);
  if (sound) return SQLITE_OK;
  return contradiction(question, "value %d: its sort key depends on the room for it", i, 0, 0);
}

static int check_sizes(const struct question *question) {
  for (int i = 0; i < question->count; i++) {
    if (question->values[i].size < 0) return SQLITE_MISUSE;
    if (question->values[i].size > KV_KEY_BYTES_MAX)
      return colfam_error(question->message, SQLITE_TOOBIG,
                          "value %d has more bytes than a key can have, which are %d", i,
                          KV_KEY_BYTES_MAX);
  }
  return SQLITE_OK;
}

static int check(const struct question *question) {
  int rc = check_sizes(question);
  if (rc != SQLITE_OK) return rc;
  if (!question->encoder) return check_comparator(question);
  for (int i = 0; i < question->count && rc == SQLITE_OK; i++) rc = check_encoding(question, i);
  return rc;
}

int colfam_api_check_order(const struct colfam_api *api, const char *name,
                           const struct colfam_value *values, int count, char **message) {
  char *text = NULL;
  (void)api;
  if (!name || count < 0 || (!values && count)) return give_message(SQLITE_MISUSE, text, message);
  struct kv_custom *custom = colfam_order_find(name);
  if (!custom) {
    int rc = colfam_error(&text, SQLITE_NOTFOUND, "no order %.80s is registered", name);
    return give_message(rc, text, message);
  }
  struct question question = {custom, kv_custom_encoder(custom), values, count, &text};
  int rc = check(&question);
  kv_custom_unref(custom);
  return give_message(rc, text, message);
}
