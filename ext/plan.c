/* See plan.h. How constraints become a plan:
**
** Key columns are bound from the left by = (or IS, or an IN list) as far as it goes; the next one by a lower
** and an upper bound. IN lists are taken as a whole. Unusable constraints and unknown operators are left
** alone, and so are those with another collation than the key column's: but equality by BINARY, which is
** stricter than any. SQLite tests every row again, since a plan may read more than asked (lookup.h), but for
** a single key column that is compared by number. LIMIT and OFFSET are never consumed.
**
** SQLite derives two bounds from the start of a LIKE or GLOB pattern, a literal text and its successor. These
** speak of texts only, although the pattern matches blobs too: two literal bounds that look so are marked
** (`pattern`), whoever made them. Under NOCASE they serve any column that is TEXT (ranges.c).
**
** colfam_keys = ? comes before all this: it is the one constraint that nobody but the plan can test. Thread
** rule: the connection's. */
#include "plan.h"

#include <string.h>

#include "planner.h"

/* Constraints that sqlite3_vtab_in can tell apart. */
enum { LIST_TERMS_MAX = 32 };

/* ---- The code: kind, flags, counts, lists, from the low bits on */

enum { COUNT_BITS = 5, FLAGS_AT = 3, EQUAL_AT = 10, FROM_AT = 15, LISTS_AT = 20 };

int colfam_plan_encode(const struct colfam_plan *plan) {
  unsigned flags = (unsigned)(plan->has_lower | plan->lower_open << 1 | plan->has_upper << 2 |
                              plan->upper_open << 3 | plan->upper_plain << 4 | plan->pattern << 5 |
                              plan->backwards << 6);
  return (int)((unsigned)plan->kind | flags << FLAGS_AT | (unsigned)plan->equal_count << EQUAL_AT |
               (unsigned)plan->order_from << FROM_AT | plan->lists << LISTS_AT);
}

void colfam_plan_decode(int idx_num, struct colfam_plan *plan) {
  unsigned code = (unsigned)idx_num, flags = code >> FLAGS_AT, count = (1 << COUNT_BITS) - 1;
  *plan = (struct colfam_plan){.kind = (enum colfam_plan_kind)(code & 7),
                               .has_lower = flags & 1,
                               .lower_open = flags >> 1 & 1,
                               .has_upper = flags >> 2 & 1,
                               .upper_open = flags >> 3 & 1,
                               .upper_plain = flags >> 4 & 1,
                               .pattern = flags >> 5 & 1,
                               .backwards = flags >> 6 & 1,
                               .equal_count = (int)(code >> EQUAL_AT & count),
                               .order_from = (int)(code >> FROM_AT & count),
                               .lists = code >> LISTS_AT};
}

/* ---- Constraints */

int colfam_planner_position(const struct colfam_planner *planner, int column) {
  const struct colfam_schema *schema = planner->schema;
  if (schema->key_form == COLFAM_KEY_ROWID)
    return column < 0 || column == schema->rowid_column ? 0 : -1;
  return column < 0 || column >= schema->column_count ? -1 : schema->columns[column].key_index;
}

bool colfam_planner_is_numeric(const struct colfam_planner *planner, int position) {
  return colfam_schema_key_affinity(planner->schema, position) >= COLFAM_AFF_NUMERIC;
}

bool colfam_planner_is_list(const struct colfam_planner *planner, int position) {
  return planner->plan.lists >> position & 1;
}

static bool is_list(sqlite3_index_info *info, int term) {
  return sqlite3_vtab_in(info, term, -1) != 0;
}

/* The right side when the SQL has it as a literal text, else NULL. */
static sqlite3_value *literal_text(const struct colfam_planner *planner, int term) {
  sqlite3_value *value = NULL;
  if (sqlite3_vtab_rhs_value(planner->info, term, &value) != SQLITE_OK || !value) return NULL;
  return sqlite3_value_type(value) == SQLITE_TEXT ? value : NULL;
}

/* Whether the term compares this key column by one of two operators. */
static bool compares(const struct colfam_planner *planner, int term, int position, int op,
                     int other_op) {
  const struct sqlite3_index_constraint *constraint = &planner->info->aConstraint[term];
  return constraint->usable && (constraint->op == op || constraint->op == other_op) &&
         colfam_planner_position(planner, constraint->iColumn) == position;
}

static bool has_collation(const struct colfam_planner *planner, int term, const char *name) {
  return sqlite3_stricmp(sqlite3_vtab_collation(planner->info, term), name) == 0;
}

/* Rowids are no texts: to them all collations are one. */
static bool has_own_collation(const struct colfam_planner *planner, int term, int position) {
  return planner->schema->key_form == COLFAM_KEY_ROWID ||
         has_collation(planner, term, colfam_schema_key_collation(planner->schema, position));
}

/* A plain = rather than a list. Beyond LIST_TERMS_MAX the two cannot be told apart, and of a list not taken
** as a whole SQLite tests rows against the bare values, without the affinity that IN has: right for numeric
** columns only. */
static int find_equal(const struct colfam_planner *planner, int position) {
  int op = SQLITE_INDEX_CONSTRAINT_EQ, is = SQLITE_INDEX_CONSTRAINT_IS, found = -1;
  for (int i = 0; i < planner->info->nConstraint; i++) {
    if (!compares(planner, i, position, op, is)) continue;
    if (!has_own_collation(planner, i, position) && !has_collation(planner, i, "BINARY")) continue;
    if (i >= LIST_TERMS_MAX && !colfam_planner_is_numeric(planner, position) &&
        !literal_text(planner, i))
      continue;
    if (!is_list(planner->info, i)) return i;
    if (found < 0 && position < COLFAM_PLAN_LIST_COLUMNS_MAX) found = i;
  }
  return found;
}

/* Hands the term's right side to xFilter as its next argument. */
static void use_term(struct colfam_planner *planner, int term, int *argc) {
  planner->info->aConstraintUsage[term].argvIndex = ++*argc;
}

/* ---- Bounds */

static uint8_t fold(uint8_t byte) {
  return byte >= 'A' && byte <= 'Z' ? byte - 'A' + 'a' : byte;
}

/* Whether `end` is `start` with a last byte that is one more, in any case of letters for NOCASE. */
static bool is_successor(struct kv_slice start, struct kv_slice end, bool nocase) {
  if (!start.size || start.size != end.size) return false;
  size_t last = start.size - 1;
  for (size_t i = 0; i < last; i++) {
    uint8_t a = start.data[i], b = end.data[i];
    if (nocase ? fold(a) != fold(b) : a != b) return false;
  }
  uint8_t a = nocase ? fold(start.data[last]) : start.data[last];
  return a != 0xff && end.data[last] == a + 1;
}

static struct kv_slice text_of(sqlite3_value *value) {
  const unsigned char *text = sqlite3_value_text(value);
  return kv_slice_of(text, text ? (size_t)sqlite3_value_bytes(value) : 0);
}

/* Bounds with another collation than the column's hold for its bytes too, given that they are of a pattern:
** but where keys are folded otherwise, or numbers are matched by their texts. */
static bool pattern_serves(const struct colfam_planner *planner, int term, int position) {
  const char *own = colfam_schema_key_collation(planner->schema, position);
  if (has_collation(planner, term, own)) return true;
  return colfam_schema_key_affinity(planner->schema, position) == COLFAM_AFF_TEXT &&
         sqlite3_stricmp(own, "RTRIM") != 0;
}

static bool is_pattern(const struct colfam_planner *planner, int position, int lower, int upper) {
  bool nocase = has_collation(planner, lower, "NOCASE");
  if (!nocase && !has_collation(planner, lower, "BINARY")) return false;
  if (!has_collation(planner, upper, nocase ? "NOCASE" : "BINARY")) return false;
  sqlite3_value *start = literal_text(planner, lower), *end = literal_text(planner, upper);
  return start && end && is_successor(text_of(start), text_of(end), nocase) &&
         pattern_serves(planner, lower, position);
}

static bool find_pattern(const struct colfam_planner *planner, int position, int *lower,
                         int *upper) {
  int count = planner->info->nConstraint;
  int ge = SQLITE_INDEX_CONSTRAINT_GE, lt = SQLITE_INDEX_CONSTRAINT_LT;
  for (*lower = 0; *lower < count; ++*lower) {
    if (!compares(planner, *lower, position, ge, ge) || !literal_text(planner, *lower)) continue;
    for (*upper = 0; *upper < count; ++*upper)
      if (compares(planner, *upper, position, lt, lt) &&
          is_pattern(planner, position, *lower, *upper))
        return true;
  }
  return false;
}

/* The first term that bounds the column, -1 without. */
static int find_bound(const struct colfam_planner *planner, int position, int op, int other_op) {
  for (int i = 0; i < planner->info->nConstraint; i++)
    if (compares(planner, i, position, op, other_op) && has_own_collation(planner, i, position))
      return i;
  return -1;
}

/* Sort keys stand for texts and blobs in an order that bounds do not speak of; of what is a number for
** the most part, the bounds that are numbers still hold (ranges.c). */
static bool can_be_bounded(const struct colfam_planner *planner, int position) {
  return planner->order == COLFAM_ORDER_NATIVE || colfam_planner_is_numeric(planner, position);
}

static void bind_bounds(struct colfam_planner *planner, int position, int *argc) {
  struct colfam_plan *plan = &planner->plan;
  const struct sqlite3_index_constraint *terms = planner->info->aConstraint;
  int lower, upper;
  plan->pattern =
      planner->order == COLFAM_ORDER_NATIVE && find_pattern(planner, position, &lower, &upper);
  if (!plan->pattern) {
    lower = find_bound(planner, position, SQLITE_INDEX_CONSTRAINT_GT, SQLITE_INDEX_CONSTRAINT_GE);
    upper = find_bound(planner, position, SQLITE_INDEX_CONSTRAINT_LT, SQLITE_INDEX_CONSTRAINT_LE);
  }
  if (lower >= 0) {
    plan->has_lower = true;
    plan->lower_open = terms[lower].op == SQLITE_INDEX_CONSTRAINT_GT;
    use_term(planner, lower, argc);
  }
  if (upper >= 0) {
    plan->has_upper = true;
    plan->upper_open = terms[upper].op == SQLITE_INDEX_CONSTRAINT_LT;
    plan->upper_plain = literal_text(planner, upper) != NULL;
    use_term(planner, upper, argc);
  }
}

/* Whether rows that are found have what the term asks for, whatever its right side is. To a numeric column
** it is a number when it can be one, in the key as in SQLite's comparison; to others it may be either. IS is
** left to SQLite, and so are keys of several columns, which a list of rows may bind one by one. */
static bool is_exact(const struct colfam_planner *planner, int term) {
  if (planner->key_count != 1 || !colfam_planner_is_numeric(planner, 0)) return false;
  if (planner->order == COLFAM_ORDER_ENCODED) return false;
  if (colfam_schema_key_part(planner->schema, 0).collation != KV_BINARY) return false;
  return term < LIST_TERMS_MAX && planner->info->aConstraint[term].op == SQLITE_INDEX_CONSTRAINT_EQ;
}

/* Keys that begin alike need not stand together. */
static void unbind_key(struct colfam_planner *planner) {
  planner->plan.equal_count = 0;
  planner->plan.lists = 0;
  for (int i = 0; i < planner->info->nConstraint; i++) {
    if (planner->info->aConstraintUsage[i].argvIndex && is_list(planner->info, i))
      sqlite3_vtab_in(planner->info, i, 0);
    planner->info->aConstraintUsage[i].argvIndex = 0;
    planner->info->aConstraintUsage[i].omit = 0;
  }
}

static void bind_key(struct colfam_planner *planner) {
  struct colfam_plan *plan = &planner->plan;
  int argc = 0, position = 0;
  for (; position < planner->key_count && position < COLFAM_PLAN_COLUMNS_MAX; position++) {
    int term = find_equal(planner, position);
    if (term < 0) break;
    if (is_list(planner->info, term)) {
      sqlite3_vtab_in(planner->info, term, 1);
      plan->lists |= 1u << position;
    }
    use_term(planner, term, &argc);
    planner->info->aConstraintUsage[term].omit = is_exact(planner, term);
  }
  plan->equal_count = position;
  if (position == planner->key_count) return;
  if (planner->order == COLFAM_ORDER_CALLED)
    unbind_key(planner);
  else if (can_be_bounded(planner, position))
    bind_bounds(planner, position, &argc);
}

/* ---- Packed keys */

/* Binds colfam_keys = ?, when it is there. It reads as NULL, so SQLite must not test it. */
static int bind_packed(struct colfam_planner *planner, struct colfam_vtab *vtab) {
  for (int i = 0; i < planner->info->nConstraint; i++) {
    const struct sqlite3_index_constraint *constraint = &planner->info->aConstraint[i];
    if (constraint->iColumn != planner->schema->keys_column ||
        constraint->op != SQLITE_INDEX_CONSTRAINT_EQ)
      continue;
    if (planner->plan.kind == COLFAM_PLAN_PACKED || is_list(planner->info, i))
      return colfam_vtab_error(vtab, SQLITE_ERROR,
                               "table %s: colfam_keys can be compared once, by =, with one value",
                               planner->schema->label);
    if (!constraint->usable) return SQLITE_CONSTRAINT;
    planner->plan.kind = COLFAM_PLAN_PACKED;
    planner->info->aConstraintUsage[i].argvIndex = 1;
    planner->info->aConstraintUsage[i].omit = 1;
  }
  return SQLITE_OK;
}

/* ---- What is used */

static bool uses_only_key(const struct colfam_planner *planner) {
  const struct colfam_schema *schema = planner->schema;
  sqlite3_uint64 used = planner->info->colUsed;
  for (int i = 0; i < schema->column_count; i++) {
    int bit = i < 63 ? i : 63;
    if (schema->columns[i].value_index >= 0 && used >> bit & 1) return false;
  }
  return true;
}

/* Only LIMIT and OFFSET may stand beside a plan that looks at no row. */
static bool is_unconstrained(const struct colfam_planner *planner) {
  for (int i = 0; i < planner->info->nConstraint; i++) {
    int op = planner->info->aConstraint[i].op;
    if (op != SQLITE_INDEX_CONSTRAINT_LIMIT && op != SQLITE_INDEX_CONSTRAINT_OFFSET) return false;
  }
  return true;
}

/* The column that SQLite knows as the key; -1 when it is the rowid. */
static int declared_key(const struct colfam_schema *schema) {
  return schema->key_form == COLFAM_KEY_COLUMN ? schema->key_columns[0] : schema->hidden_key;
}

/* Columns that SQLite calls used whether they are or not: from 3.47 on the key. */
static sqlite3_uint64 always_used(const struct colfam_schema *schema) {
  int key = declared_key(schema);
  if (key < 0 || key >= 63 || sqlite3_libversion_number() < 3047000) return 0;
  return (sqlite3_uint64)1 << key;
}

/* count(*) uses no column. What else may do so reads rows after all when it asks for one (cursor.c). */
static bool is_count(const struct colfam_planner *planner) {
  return !(planner->info->colUsed & ~always_used(planner->schema)) && !planner->info->nOrderBy &&
         planner->schema->options.track_rows && is_unconstrained(planner);
}

static enum colfam_plan_kind choose_kind(const struct colfam_planner *planner) {
  const struct colfam_plan *plan = &planner->plan;
  if (plan->equal_count == planner->key_count) {
    if (plan->lists) return COLFAM_PLAN_MULTI_GET;
    return planner->key_only ? COLFAM_PLAN_EXISTS : COLFAM_PLAN_GET;
  }
  if (plan->equal_count || plan->has_lower || plan->has_upper) return COLFAM_PLAN_RANGE;
  return is_count(planner) ? COLFAM_PLAN_COUNT : COLFAM_PLAN_SCAN;
}

/* At most one row can be found: a number compared with a text key may find several. */
static bool finds_one_row(const struct colfam_planner *planner) {
  if (planner->plan.equal_count < planner->key_count || planner->plan.lists) return false;
  for (int i = 0; i < planner->key_count; i++)
    if (!colfam_planner_is_numeric(planner, i)) return false;
  return true;
}

/* ---- Words */

static const char *key_name(const struct colfam_schema *schema, int position) {
  if (schema->key_form != COLFAM_KEY_ROWID)
    return schema->columns[schema->key_columns[position]].name;
  return schema->rowid_column >= 0 ? schema->columns[schema->rowid_column].name : "rowid";
}

static const char *const kind_words[] = {
    [COLFAM_PLAN_SCAN] = "scan",
    [COLFAM_PLAN_RANGE] = "range",
    [COLFAM_PLAN_GET] = "get",
    [COLFAM_PLAN_EXISTS] = "exists",
    [COLFAM_PLAN_MULTI_GET] = "multi-get",
    [COLFAM_PLAN_COUNT] = "count",
    [COLFAM_PLAN_PACKED] = "multi-get",
};

/* "get a,b", "range a=,b"; a whole scan in the key's order is a "range". */
static char *plan_words(const struct colfam_planner *planner) {
  const struct colfam_plan *plan = &planner->plan;
  enum colfam_plan_kind kind = plan->kind;
  bool ordered = planner->info->nOrderBy && planner->info->orderByConsumed;
  if (kind == COLFAM_PLAN_COUNT && planner->may_read_keys) return sqlite3_mprintf("count or scan");
  if (kind == COLFAM_PLAN_SCAN && ordered) kind = COLFAM_PLAN_RANGE;
  int count = plan->equal_count + (plan->has_lower || plan->has_upper);
  if (kind == COLFAM_PLAN_RANGE && !count) count = 1;
  if (kind == COLFAM_PLAN_PACKED) count = planner->key_count;
  sqlite3_str *words = sqlite3_str_new(NULL);
  sqlite3_str_appendall(words, kind_words[kind]);
  for (int i = 0; i < count; i++) {
    bool prefix = kind == COLFAM_PLAN_RANGE && i < plan->equal_count;
    sqlite3_str_appendf(words, "%s%s%s", i ? "," : " ", key_name(planner->schema, i),
                        prefix ? "=" : "");
  }
  if (kind == COLFAM_PLAN_PACKED) sqlite3_str_appendall(words, " (packed)");
  return sqlite3_str_finish(words);
}

int colfam_best_index(sqlite3_vtab *base, sqlite3_index_info *info) {
  struct colfam_vtab *vtab = (struct colfam_vtab *)base;
  const struct colfam_schema *schema = vtab->schema;
  struct colfam_planner planner = {.schema = schema, .info = info};
  planner.key_count = schema->key_form == COLFAM_KEY_ROWID ? 1 : schema->key_count;
  planner.order = colfam_schema_order(vtab->schema);
  planner.key_only = uses_only_key(&planner);
  planner.may_read_keys = schema->key_form == COLFAM_KEY_COLUMN && info->colUsed;
  int rc = bind_packed(&planner, vtab);
  if (rc != SQLITE_OK) return rc;
  if (planner.plan.kind != COLFAM_PLAN_PACKED) {
    bind_key(&planner);
    planner.plan.kind = choose_kind(&planner);
  }
  colfam_planner_order(&planner);
  colfam_planner_cost(&planner, colfam_vtab_rows_estimate(vtab));
  if (finds_one_row(&planner)) info->idxFlags |= SQLITE_INDEX_SCAN_UNIQUE;
  info->idxNum = colfam_plan_encode(&planner.plan);
  info->idxStr = plan_words(&planner);
  info->needToFreeIdxStr = 1;
  return info->idxStr ? SQLITE_OK : SQLITE_NOMEM;
}
