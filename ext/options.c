/* The table options (README.md, Options). One line an option: its name, what is allowed, how it is read and
** shown. Any thread. */
#include <string.h>

#include "error.h"
#include "orders.h"
#include "schema.h"

struct option {
  const char *name;
  const char *allowed;
  int64_t lowest, highest; /* of numbers */
  bool (*set)(const struct option *self, struct colfam_options *options, const char *value);
  void (*get)(const struct colfam_options *options, char value[64]);
};

/* Plain decimal digits, at most 10. */
static bool read_number(const struct option *self, const char *value, int64_t *number) {
  size_t digits = strspn(value, "0123456789");
  if (!digits || digits > 10 || value[digits]) return false;
  *number = 0;
  for (; *value; value++) *number = *number * 10 + (*value - '0');
  return *number >= self->lowest && *number <= self->highest;
}

static bool set_compression(const struct option *self, struct colfam_options *options,
                            const char *value) {
  int64_t level = 3;
  if (sqlite3_stricmp(value, "none") == 0) {
    level = 0;
  } else {
    if (sqlite3_strnicmp(value, "zstd", 4) != 0) return false;
    if (value[4] && (value[4] != ':' || !read_number(self, value + 5, &level))) return false;
  }
  options->kv.compression_level = (int)level;
  return true;
}

static void get_compression(const struct colfam_options *options, char value[64]) {
  if (options->kv.compression_level) {
    sqlite3_snprintf(64, value, "zstd:%d", options->kv.compression_level);
  } else {
    sqlite3_snprintf(64, value, "none");
  }
}

static bool set_filter_bits(const struct option *self, struct colfam_options *options,
                            const char *value) {
  int64_t number;
  if (!read_number(self, value, &number)) return false;
  options->kv.filter_bits = (int)number;
  return true;
}

static void get_filter_bits(const struct colfam_options *options, char value[64]) {
  sqlite3_snprintf(64, value, "%d", options->kv.filter_bits);
}

static bool set_block_bytes(const struct option *self, struct colfam_options *options,
                            const char *value) {
  int64_t number;
  if (!read_number(self, value, &number)) return false;
  options->kv.block_bytes = (uint32_t)number;
  return true;
}

static void get_block_bytes(const struct colfam_options *options, char value[64]) {
  sqlite3_snprintf(64, value, "%u", options->kv.block_bytes);
}

static bool set_memtable_bytes(const struct option *self, struct colfam_options *options,
                               const char *value) {
  int64_t number;
  if (!read_number(self, value, &number)) return false;
  options->kv.memtable_bytes = (uint64_t)number;
  return true;
}

static void get_memtable_bytes(const struct colfam_options *options, char value[64]) {
  sqlite3_snprintf(64, value, "%llu", (sqlite3_uint64)options->kv.memtable_bytes);
}

static bool set_value_bytes(const struct option *self, struct colfam_options *options,
                            const char *value) {
  int64_t number;
  if (!read_number(self, value, &number)) return false;
  options->kv.value_bytes = (uint32_t)number;
  return true;
}

static void get_value_bytes(const struct colfam_options *options, char value[64]) {
  sqlite3_snprintf(64, value, "%u", options->kv.value_bytes);
}

static bool set_comparator(const struct option *self, struct colfam_options *options,
                           const char *value) {
  static const char *const own[] = {"bytewise", "reverse"};
  (void)self;
  for (size_t i = 0; i < sizeof own / sizeof *own; i++)
    if (sqlite3_stricmp(value, own[i]) == 0) value = own[i];
  if (!colfam_order_name_is_sound(value)) return false;
  sqlite3_snprintf(sizeof options->comparator, options->comparator, "%s", value);
  return true;
}

static void get_comparator(const struct colfam_options *options, char value[64]) {
  sqlite3_snprintf(64, value, "%s", options->comparator);
}

/* One of two words. */
static bool read_word(const char *value, const char *no, const char *yes, bool *chosen) {
  *chosen = sqlite3_stricmp(value, yes) == 0;
  return *chosen || sqlite3_stricmp(value, no) == 0;
}

static bool set_track_rows(const struct option *self, struct colfam_options *options,
                           const char *value) {
  (void)self;
  return read_word(value, "off", "on", &options->track_rows);
}

static void get_track_rows(const struct colfam_options *options, char value[64]) {
  sqlite3_snprintf(64, value, "%s", options->track_rows ? "on" : "off");
}

static bool set_conflict(const struct option *self, struct colfam_options *options,
                         const char *value) {
  (void)self;
  return read_word(value, "abort", "replace", &options->conflict_replace);
}

static void get_conflict(const struct colfam_options *options, char value[64]) {
  sqlite3_snprintf(64, value, "%s", options->conflict_replace ? "replace" : "abort");
}

static const struct option all[] = {
    {"compression", "none, zstd, zstd:1 to zstd:19", 1, 19, set_compression, get_compression},
    {"filter_bits", "0 to 20", 0, 20, set_filter_bits, get_filter_bits},
    {"block_bytes", "1024 to 1048576", 1024, 1048576, set_block_bytes, get_block_bytes},
    {"memtable_bytes", "16384 to 1073741824", 16384, 1073741824, set_memtable_bytes,
     get_memtable_bytes},
    {"value_bytes", "0 to 1048576", 0, 1048576, set_value_bytes, get_value_bytes},
    {"comparator", "bytewise, reverse and names of registered orders", 0, 0, set_comparator,
     get_comparator},
    {"track_rows", "on, off", 0, 0, set_track_rows, get_track_rows},
    {"conflict", "abort, replace", 0, 0, set_conflict, get_conflict},
};
enum { OPTION_COUNT = sizeof all / sizeof *all };

void colfam_options_default(struct colfam_options *options) {
  kv_options_default(&options->kv);
  options->track_rows = true;
  options->conflict_replace = false;
  sqlite3_snprintf(sizeof options->comparator, options->comparator, "bytewise");
}

bool colfam_options_are_native(const struct colfam_options *options) {
  return strcmp(options->comparator, "bytewise") == 0 ||
         strcmp(options->comparator, "reverse") == 0;
}

static int refuse_name(const char *name, char **message) {
  sqlite3_str *names = sqlite3_str_new(NULL);
  for (int i = 0; i < OPTION_COUNT; i++)
    sqlite3_str_appendf(names, "%s%s", i ? ", " : "", all[i].name);
  char *list = sqlite3_str_finish(names);
  if (!list) return SQLITE_NOMEM;
  int rc =
      colfam_error(message, SQLITE_ERROR, "unknown option %.80s: the options are %s", name, list);
  sqlite3_free(list);
  return rc;
}

/* NULL when this version has none of that name. */
static const struct option *find_option(const char *name) {
  for (int i = 0; i < OPTION_COUNT; i++)
    if (sqlite3_stricmp(name, all[i].name) == 0) return &all[i];
  return NULL;
}

bool colfam_options_known(const char *name) {
  return find_option(name) != NULL;
}

int colfam_options_set(struct colfam_options *options, const char *name, const char *value,
                       char **message) {
  const struct option *option = find_option(name);
  if (!option) return refuse_name(name, message);
  struct colfam_options changed = *options;
  if (!option->set(option, &changed, value))
    return colfam_error(message, SQLITE_ERROR, "option %s cannot be '%.80s': allowed are %s",
                        option->name, value, option->allowed);
  *options = changed;
  return SQLITE_OK;
}

const char *colfam_options_get(const struct colfam_options *options, int index, char value[64]) {
  if (index < 0 || index >= OPTION_COUNT) return NULL;
  all[index].get(options, value);
  return all[index].name;
}

/* A copy of the text between the two, without blanks around it. */
static char *copy_trimmed(const char *from, const char *to) {
  while (from < to && strchr(" \t\r\n", *from)) from++;
  while (to > from && strchr(" \t\r\n", to[-1])) to--;
  return sqlite3_mprintf("%.*s", (int)(to - from), from);
}

static int change_named(struct colfam_options *options, const char *given_name, const char *given,
                        const char **name, char value[64], char **message) {
  const struct option *option = find_option(given_name);
  if (option && strcmp(option->name, "comparator") == 0)
    return colfam_error(message, SQLITE_ERROR, "option comparator is fixed at CREATE");
  int rc = colfam_options_set(options, given_name, given, message);
  if (rc != SQLITE_OK || !option) return rc;
  option->get(options, value);
  *name = option->name;
  return SQLITE_OK;
}

int colfam_options_change(struct colfam_options *options, const char *text, const char **name,
                          char value[64], char **message) {
  const char *equals = strchr(text, '=');
  if (!equals) return SQLITE_MISUSE;
  char *given_name = copy_trimmed(text, equals);
  char *given = copy_trimmed(equals + 1, text + strlen(text));
  int rc = SQLITE_NOMEM;
  if (given_name && given) rc = change_named(options, given_name, given, name, value, message);
  sqlite3_free(given_name);
  sqlite3_free(given);
  return rc;
}
