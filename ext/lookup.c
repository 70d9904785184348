/* See lookup.h.
**
** Bound key columns are worked off from the left: a list of encoded prefixes, one at first, gets each
** column's value appended; IN lists multiply it. Then each prefix is a key, or bounds make a range of it.
** When several lists would make too many prefixes, the columns from there on are left to SQLite, which tests
** every row again: what is bound so far is read as ranges, in the same order.
**
** Widening. A comparison with a numeric right side that has a numeric affinity (another table's INTEGER
** column, a CAST) is made on numbers even when the key column is TEXT or has no type: '01', ' 1' and
** '1.0' all equal 1. SQLite does not say which kind of right side an argument comes from. So a number
** against such a key column stands for every text among the keys that spells it (spellings.h).
**
** A single key, no value of which widens, is encoded at once, without all this. Thread rule: the
** connection's. */
#include "lookup.h"

#include <stdlib.h>
#include <string.h>

#include "argument.h"
#include "error.h"
#include "packed.h"
#include "row.h"
#include "sort.h"
#include "spellings.h"
#include "table.h"

/* What the product of several lists may come to. */
enum { PRODUCT_PREFIXES_MAX = 65536, PRODUCT_BYTES_MAX = 64 << 20 };

/* ---- Prefixes */

static int finish_step(struct colfam_lookup *lookup) {
  struct colfam_strings done = lookup->next;
  lookup->next = lookup->prefixes;
  lookup->prefixes = done;
  return colfam_strings_ok(&lookup->prefixes) ? SQLITE_OK : SQLITE_NOMEM;
}

/* No row has a key that is too long. */
static void add_prefix(struct colfam_lookup *lookup, struct kv_slice prefix,
                       struct kv_slice column) {
  if (prefix.size + column.size > KV_KEY_BYTES_MAX) return;
  kv_buf_append(&lookup->next.bytes, prefix.data, prefix.size);
  colfam_strings_add(&lookup->next, column);
}

static int add_spellings(struct colfam_lookup *lookup, struct kv_slice prefix,
                         struct kv_key_part part) {
  struct kv_err err = {0};
  struct colfam_spellings spellings = {.view = lookup->view,
                                       .batch = lookup->batch,
                                       .prefix = prefix,
                                       .part = part,
                                       .numbers = &lookup->numbers,
                                       .scratch = &lookup->scratch};
  kv_status status = colfam_spellings_find(&spellings, &lookup->next, &err);
  lookup->widened = true;
  return status == KV_OK ? SQLITE_OK : colfam_vtab_fail(lookup->vtab, status, &err);
}

/* The texts that spell a number stand together in the columns' own order only. */
static int widen(struct colfam_lookup *lookup, struct kv_slice prefix, struct kv_key_part part) {
  lookup->everything |= lookup->vtab->schema->custom != NULL;
  return lookup->everything ? SQLITE_OK : add_spellings(lookup, prefix, part);
}

/* Whether the values of `list` are the next prefixes as they are: those of a first column, none of which
** spells anything or is too long. */
static bool are_prefixes(const struct colfam_lookup *lookup) {
  size_t values = colfam_strings_count(&lookup->list);
  if (colfam_strings_count(&lookup->prefixes) != 1 || lookup->prefixes.bytes.size) return false;
  if (lookup->numbers.items.size) return false;
  for (size_t i = 0; i < values; i++) {
    if (colfam_strings_at(&lookup->list, i).size > KV_KEY_BYTES_MAX) return false;
  }
  return true;
}

static int take_values(struct colfam_lookup *lookup) {
  struct colfam_strings taken = lookup->list;
  lookup->list = lookup->prefixes;
  lookup->prefixes = taken;
  return colfam_strings_ok(&lookup->prefixes) ? SQLITE_OK : SQLITE_NOMEM;
}

/* Every prefix is continued by every value of `list`, and by the texts that spell one of the numbers. */
static int append_values(struct colfam_lookup *lookup, struct kv_key_part part) {
  size_t values = colfam_strings_count(&lookup->list);
  int rc = SQLITE_OK;
  if (are_prefixes(lookup)) return take_values(lookup);
  colfam_strings_clear(&lookup->next);
  for (size_t i = 0; i < colfam_strings_count(&lookup->prefixes) && rc == SQLITE_OK; i++) {
    struct kv_slice prefix = colfam_strings_at(&lookup->prefixes, i);
    for (size_t j = 0; j < values; j++)
      add_prefix(lookup, prefix, colfam_strings_at(&lookup->list, j));
    if (lookup->numbers.items.size) rc = widen(lookup, prefix, part);
  }
  return rc == SQLITE_OK ? finish_step(lookup) : rc;
}

/* ---- Equal columns */

static void clear_list(struct colfam_lookup *lookup) {
  colfam_strings_clear(&lookup->list);
  colfam_numbers_clear(&lookup->numbers);
}

static int add_value(struct colfam_lookup *lookup, int position, sqlite3_value *value) {
  struct colfam_argument argument;
  int rc = colfam_argument_read(lookup->vtab->schema, position, value, &argument);
  if (rc != SQLITE_OK || argument.datum.type == KV_NULL) return rc;
  kv_key_append(&lookup->list.bytes, argument.part, &argument.datum);
  colfam_strings_close(&lookup->list);
  if (argument.widens) colfam_numbers_add(&lookup->numbers, argument.number);
  return SQLITE_OK;
}

static int read_list(struct colfam_lookup *lookup, int position, sqlite3_value *list) {
  sqlite3_value *value;
  int rc = sqlite3_vtab_in_first(list, &value);
  for (; rc == SQLITE_OK && value; rc = sqlite3_vtab_in_next(list, &value)) {
    int added = add_value(lookup, position, value);
    if (added != SQLITE_OK) return added;
  }
  return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

/* The values of a column, by = or by a list. */
static int read_column(struct colfam_lookup *lookup, const struct colfam_plan *plan, int position,
                       sqlite3_value *value) {
  clear_list(lookup);
  int rc = plan->lists >> position & 1 ? read_list(lookup, position, value)
                                       : add_value(lookup, position, value);
  if (rc != SQLITE_OK) return rc;
  if (!colfam_strings_ok(&lookup->list)) return SQLITE_NOMEM;
  if (colfam_numbers_close(&lookup->numbers) != KV_OK) return SQLITE_NOMEM;
  return SQLITE_OK;
}

static bool is_too_much(const struct colfam_lookup *lookup) {
  uint64_t prefixes = colfam_strings_count(&lookup->prefixes);
  uint64_t values = colfam_strings_count(&lookup->list);
  if (prefixes <= 1 || values <= 1) return false;
  uint64_t bytes = prefixes * lookup->list.bytes.size + values * lookup->prefixes.bytes.size;
  return prefixes * values > PRODUCT_PREFIXES_MAX || bytes > PRODUCT_BYTES_MAX;
}

/* *bound: columns that were bound. */
static int bind_columns(struct colfam_lookup *lookup, const struct colfam_plan *plan,
                        sqlite3_value **argv, int *bound) {
  int rc = SQLITE_OK;
  colfam_strings_clear(&lookup->prefixes);
  colfam_strings_close(&lookup->prefixes);
  if (!colfam_strings_ok(&lookup->prefixes)) return SQLITE_NOMEM;
  for (*bound = 0; *bound < plan->equal_count && rc == SQLITE_OK; ++*bound) {
    rc = read_column(lookup, plan, *bound, argv[*bound]);
    if (rc == SQLITE_OK && is_too_much(lookup)) break;
    if (rc == SQLITE_OK)
      rc = append_values(lookup, colfam_schema_key_part(lookup->vtab->schema, *bound));
  }
  if (rc != SQLITE_OK) return rc;
  return colfam_strings_ok(&lookup->prefixes) ? SQLITE_OK : SQLITE_NOMEM;
}

/* ---- Keys */

static int compare_bytes(const void *a, const void *b) {
  return kv_slice_compare(*(const struct kv_slice *)a, *(const struct kv_slice *)b);
}

static int compare_slices(const void *comparator, const void *a, const void *b) {
  return kv_key_compare(comparator, *(const struct kv_slice *)a, *(const struct kv_slice *)b);
}

/* In the order of the table. Lists of SQLite come sorted. */
static void sort_slices(const struct kv_comparator *comparator, struct kv_slice *slices,
                        size_t count) {
  for (size_t i = 1; i < count; i++) {
    if (kv_key_compare(comparator, slices[i - 1], slices[i]) <= 0) continue;
    if (comparator)
      colfam_sort(slices, count, sizeof *slices, compare_slices, comparator);
    else
      qsort(slices, count, sizeof *slices, compare_bytes);
    return;
  }
}

/* The prefixes, sorted and distinct, as `keys`. */
static int make_keys(struct colfam_lookup *lookup) {
  size_t count = colfam_strings_count(&lookup->prefixes);
  kv_buf_clear(&lookup->key_slices);
  lookup->key_count = 0;
  if (!count) return SQLITE_OK;
  if (!kv_buf_extend(&lookup->key_slices, count * sizeof(struct kv_slice))) return SQLITE_NOMEM;
  struct kv_slice *keys = (struct kv_slice *)(void *)lookup->key_slices.data;
  for (size_t i = 0; i < count; i++) keys[i] = colfam_strings_at(&lookup->prefixes, i);
  sort_slices(kv_family_comparator(lookup->vtab->table->family), keys, count);
  size_t distinct = 0;
  for (size_t i = 0; i < count; i++) {
    if (distinct && kv_slice_equal(keys[distinct - 1], keys[i])) continue;
    keys[distinct++] = keys[i];
  }
  lookup->keys = keys;
  lookup->key_count = distinct;
  return SQLITE_OK;
}

/* ---- Ranges */

static bool is_writing(sqlite3 *db) {
  for (sqlite3_stmt *stmt = sqlite3_next_stmt(db, NULL); stmt; stmt = sqlite3_next_stmt(db, stmt))
    if (sqlite3_stmt_busy(stmt) && !sqlite3_stmt_readonly(stmt)) return true;
  return false;
}

static int make_ranges(struct colfam_lookup *lookup, const struct colfam_column_bounds *bounds) {
  int rc = make_keys(lookup);
  if (rc == SQLITE_OK)
    rc = colfam_ranges_make(&lookup->ranges, lookup->keys, lookup->key_count, bounds);
  lookup->widened |= lookup->ranges.widened;
  return rc;
}

static int make_bounded_ranges(struct colfam_lookup *lookup, const struct colfam_plan *plan,
                               sqlite3_value **argv) {
  struct colfam_column_bounds bounds;
  colfam_column_bounds_init(&bounds);
  bool writing = plan->has_upper && is_writing(lookup->vtab->conn->db);
  int rc = colfam_column_bounds_read(&bounds, lookup->vtab->schema, plan, writing, argv);
  if (rc == SQLITE_OK) rc = make_ranges(lookup, &bounds);
  colfam_column_bounds_release(&bounds);
  return rc;
}

static int make_everything(struct colfam_lookup *lookup) {
  colfam_strings_clear(&lookup->prefixes);
  colfam_strings_close(&lookup->prefixes);
  lookup->by_key = false;
  lookup->widened = true;
  return colfam_strings_ok(&lookup->prefixes) ? make_ranges(lookup, NULL) : SQLITE_NOMEM;
}

/* ---- One key */

static bool names_one_key(const struct colfam_plan *plan) {
  return plan->kind == COLFAM_PLAN_GET || plan->kind == COLFAM_PLAN_EXISTS;
}

static int set_key(struct colfam_lookup *lookup, bool possible) {
  lookup->single = kv_buf_slice(&lookup->single_bytes);
  lookup->keys = &lookup->single;
  lookup->key_count = possible && lookup->single.size <= KV_KEY_BYTES_MAX;
  lookup->by_key = true;
  return lookup->single_bytes.status == KV_OK ? SQLITE_OK : SQLITE_NOMEM;
}

/* The argument is SQLite's for the call alone; its bytes follow the type in the key, unless that descends. */
static int keep_plain(struct colfam_lookup *lookup, bool descending) {
  struct kv_slice *bytes = &lookup->plain.bytes;
  if (!descending) {
    bytes->data = lookup->single_bytes.data + 1;
    return SQLITE_OK;
  }
  kv_buf_clear(&lookup->scratch);
  kv_buf_append(&lookup->scratch, bytes->data, bytes->size);
  bytes->data = lookup->scratch.data;
  return lookup->scratch.status == KV_OK ? SQLITE_OK : SQLITE_NOMEM;
}

static int encode_plain(struct colfam_lookup *lookup, sqlite3_value *value) {
  struct kv_buf *key = &lookup->single_bytes;
  int rc = colfam_datum(value, &lookup->plain);
  if (rc != SQLITE_OK) return rc;
  struct kv_key_part part = colfam_schema_key_part(lookup->vtab->schema, 0);
  kv_key_append(key, part, &lookup->plain);
  if (key->status == KV_OK) rc = keep_plain(lookup, part.descending);
  return rc == SQLITE_OK ? set_key(lookup, true) : rc;
}

/* *told is false when one of the values widens. */
static int encode_key(struct colfam_lookup *lookup, int columns, sqlite3_value **argv, bool *told) {
  const struct colfam_schema *schema = lookup->vtab->schema;
  struct kv_buf *key = &lookup->single_bytes;
  bool possible = true;
  for (int i = 0; i < columns && *told; i++) *told = !colfam_argument_widens(schema, i, argv[i]);
  if (!*told) return SQLITE_OK;
  for (int i = 0; i < columns; i++) {
    struct colfam_argument argument;
    int rc = colfam_argument_read(schema, i, argv[i], &argument);
    if (rc != SQLITE_OK) return rc;
    possible = possible && argument.datum.type != KV_NULL;
    if (possible) kv_key_append(key, argument.part, &argument.datum);
    if (key->status != KV_OK) return SQLITE_NOMEM;
  }
  return set_key(lookup, possible);
}

int colfam_lookup_one(struct colfam_lookup *lookup, const struct colfam_plan *plan,
                      sqlite3_value **argv, bool *told) {
  *told = names_one_key(plan);
  if (!*told) return SQLITE_OK;
  lookup->widened = lookup->everything = false;
  lookup->plain.type = KV_NULL;
  kv_buf_clear(&lookup->single_bytes);
  if (colfam_schema_is_plain(lookup->vtab->schema, sqlite3_value_type(argv[0])))
    return encode_plain(lookup, argv[0]);
  return encode_key(lookup, plan->equal_count, argv, told);
}

/* ---- Public */

static bool names_keys(const struct colfam_plan *plan) {
  return names_one_key(plan) || plan->kind == COLFAM_PLAN_MULTI_GET ||
         plan->kind == COLFAM_PLAN_PACKED;
}

static int run(struct colfam_lookup *lookup, const struct colfam_plan *plan, sqlite3_value **argv) {
  int bound = 0;
  int rc = plan->kind == COLFAM_PLAN_PACKED
               ? colfam_packed_read(lookup->vtab, argv[0], &lookup->prefixes)
               : bind_columns(lookup, plan, argv, &bound);
  if (rc != SQLITE_OK) return rc;
  bool all = bound == plan->equal_count;
  const struct colfam_schema *schema = lookup->vtab->schema;
  /* A comparator does not keep keys together that begin alike. */
  lookup->everything |= !all && schema->custom && !schema->encoder;
  if (lookup->everything) return make_everything(lookup);
  lookup->by_key = names_keys(plan) && all;
  if (lookup->by_key) return make_keys(lookup);
  if (!all || (!plan->has_lower && !plan->has_upper)) return make_ranges(lookup, NULL);
  return make_bounded_ranges(lookup, plan, argv + bound);
}

int colfam_lookup_run(struct colfam_lookup *lookup, const struct colfam_plan *plan,
                      sqlite3_value **argv) {
  lookup->key_count = 0;
  lookup->widened = lookup->everything = false;
  lookup->plain.type = KV_NULL;
  lookup->spread = true;
  colfam_ranges_clear(&lookup->ranges);
  int rc = run(lookup, plan, argv);
  if (rc == SQLITE_OK && lookup->widened)
    kv_stats_add(kv_family_stats(lookup->vtab->table->family), KV_STAT_WIDENED_LOOKUPS, 1);
  return rc;
}

size_t colfam_lookup_memory(const struct colfam_lookup *lookup) {
  if (!lookup->spread) return lookup->single_bytes.capacity;
  return colfam_strings_memory(&lookup->prefixes) + colfam_strings_memory(&lookup->next) +
         colfam_strings_memory(&lookup->list) + colfam_ranges_memory(&lookup->ranges) +
         colfam_numbers_memory(&lookup->numbers) + lookup->key_slices.capacity +
         lookup->single_bytes.capacity + lookup->scratch.capacity;
}

void colfam_lookup_release(struct colfam_lookup *lookup) {
  colfam_strings_release(&lookup->prefixes);
  colfam_strings_release(&lookup->next);
  colfam_strings_release(&lookup->list);
  colfam_ranges_release(&lookup->ranges);
  colfam_numbers_release(&lookup->numbers);
  kv_buf_release(&lookup->key_slices);
  kv_buf_release(&lookup->single_bytes);
  kv_buf_release(&lookup->scratch);
}
