/* See config.h. One line a setting: its name, what is allowed, how it is set and read. Settings are no
** part of any database and end with the process. Any thread. */
#include "config.h"

#include <stdbool.h>

#include "conn.h"
#include "engine/kv.h"
#include "error.h"
#include "store.h"
#include "txn_spill.h"
#include "worker.h"

#define CACHE_BYTES_MAX 1099511627776
#define BATCH_BYTES_MAX 1099511627776

struct setting {
  const char *name;
  const char *allowed;
  /* False: the value is not allowed. */
  bool (*set)(struct kv_cache *cache, sqlite3_value *value);
  void (*get)(struct kv_cache *cache, sqlite3_context *context);
};

/* An integer, or a text that is one. */
static bool read_integer(sqlite3_value *value, sqlite3_int64 highest, sqlite3_int64 *number) {
  if (sqlite3_value_numeric_type(value) != SQLITE_INTEGER) return false;
  *number = sqlite3_value_int64(value);
  return *number >= 0 && *number <= highest;
}

static bool set_cache_bytes(struct kv_cache *cache, sqlite3_value *value) {
  sqlite3_int64 bytes;
  if (!read_integer(value, CACHE_BYTES_MAX, &bytes)) return false;
  kv_cache_set_budget(cache, (size_t)bytes);
  return true;
}

static void get_cache_bytes(struct kv_cache *cache, sqlite3_context *context) {
  sqlite3_result_int64(context, (sqlite3_int64)kv_cache_budget(cache));
}

static bool set_threads(struct kv_cache *cache, sqlite3_value *value) {
  (void)cache;
  sqlite3_int64 number;
  if (!read_integer(value, 1, &number)) return false;
  colfam_worker_set_threads((int)number);
  return true;
}

static void get_threads(struct kv_cache *cache, sqlite3_context *context) {
  (void)cache;
  sqlite3_result_int(context, colfam_worker_threads());
}

static bool set_batch_bytes(struct kv_cache *cache, sqlite3_value *value) {
  (void)cache;
  sqlite3_int64 bytes;
  if (!read_integer(value, BATCH_BYTES_MAX, &bytes) || bytes < COLFAM_BATCH_BYTES_MIN) return false;
  colfam_set_batch_bytes((uint64_t)bytes);
  return true;
}

static void get_batch_bytes(struct kv_cache *cache, sqlite3_context *context) {
  (void)cache;
  sqlite3_result_int64(context, (sqlite3_int64)colfam_batch_bytes());
}

static const char *const verify_words[] = {
    [KV_VERIFY_ALL] = "on", [KV_VERIFY_MERGES] = "merges", [KV_VERIFY_NONE] = "off"};

static bool set_verify(struct kv_cache *cache, sqlite3_value *value) {
  const char *word = (const char *)sqlite3_value_text(value);
  for (int i = KV_VERIFY_ALL; word && i <= KV_VERIFY_NONE; i++) {
    if (sqlite3_stricmp(word, verify_words[i]) != 0) continue;
    kv_cache_set_verify(cache, (enum kv_verify)i);
    return true;
  }
  return false;
}

static void get_verify(struct kv_cache *cache, sqlite3_context *context) {
  sqlite3_result_text(context, verify_words[kv_cache_verify(cache)], -1, SQLITE_STATIC);
}

static const struct setting settings[] = {
    {"cache_bytes", "0 to 1099511627776", set_cache_bytes, get_cache_bytes},
    {"threads", "0 and 1", set_threads, get_threads},
    {"batch_bytes", "4096 to 1099511627776", set_batch_bytes, get_batch_bytes},
    {"verify_checksums", "on, merges and off", set_verify, get_verify},
};
enum { SETTING_COUNT = sizeof settings / sizeof *settings };

static const struct setting *find_setting(sqlite3_value *name) {
  const char *text = (const char *)sqlite3_value_text(name);
  for (int i = 0; text && i < SETTING_COUNT; i++)
    if (sqlite3_stricmp(text, settings[i].name) == 0) return &settings[i];
  return NULL;
}

static int fail_name(sqlite3_value *name, char **message) {
  const char *given = (const char *)sqlite3_value_text(name);
  sqlite3_str *text = sqlite3_str_new(NULL);
  for (int i = 0; i < SETTING_COUNT; i++)
    sqlite3_str_appendf(text, "%s%s", i ? ", " : "", settings[i].name);
  char *names = sqlite3_str_finish(text);
  if (!names) return SQLITE_NOMEM;
  int rc = colfam_error(message, SQLITE_ERROR, "unknown setting %.80s: the settings are %s",
                        given ? given : "NULL", names);
  sqlite3_free(names);
  return rc;
}

static int fail_value(const struct setting *setting, sqlite3_value *value, char **message) {
  const char *given = (const char *)sqlite3_value_text(value);
  return colfam_error(message, SQLITE_ERROR, "setting %s cannot be '%.80s': allowed are %s",
                      setting->name, given ? given : "NULL", setting->allowed);
}

static int use_setting(sqlite3_context *context, struct kv_cache *cache, int argc,
                       sqlite3_value **argv, char **message) {
  const struct setting *setting = find_setting(argv[0]);
  if (!setting) return fail_name(argv[0], message);
  if (argc > 1 && !setting->set(cache, argv[1])) return fail_value(setting, argv[1], message);
  setting->get(cache, context);
  return SQLITE_OK;
}

void colfam_config_function(sqlite3_context *context, int argc, sqlite3_value **argv) {
  struct kv_cache *cache = colfam_store_make_cache();
  char *message = NULL;
  int rc = colfam_conn_refuse(sqlite3_user_data(context), "colfam_config", &message);
  if (rc == SQLITE_OK && !cache) rc = SQLITE_NOMEM;
  if (rc == SQLITE_OK) rc = use_setting(context, cache, argc, argv, &message);
  if (rc != SQLITE_OK) colfam_result_error(context, rc, message);
}
