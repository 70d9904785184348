/* See plan.h. How constraints become a plan:
**
** Key columns are bound from the left by = (or IS, or an IN list) as far as it goes; the next one by a lower
** and an upper bound. One list is taken as a whole. For further lists SQLite calls xFilter once a value and
** tests rows against the bare value, without the affinity that IN has: right for columns of a numeric type,
** wrong for others, which are therefore not bound by a second list. Constraints with another collation than
** the key column's own, unusable ones and unknown operators are left alone. None is ever omitted: SQLite tests every
** row again, since a plan may read more than asked (lookup.h). LIMIT and OFFSET are never consumed.
**
** A text bound beside LIKE or GLOB may be SQLite's own invention and then says nothing about keys that are
** no text, so such columns are not bounded. Thread rule: the
** connection's. */
#include "plan.h"

#include <math.h>

#include "table.h"

enum {
  POSITION_BITS = 7,
  KEY_COLUMNS_MAX = (1 << POSITION_BITS) - 2, /* that a plan binds */
  LIST_TERMS_MAX = 32                         /* constraints that sqlite3_vtab_in can tell apart */
};

/* ---- The code */

int colfam_plan_encode(const struct colfam_plan *plan) {
  int positions = plan->equal_count;
  positions = positions << POSITION_BITS | (plan->in_at + 1);
  positions = positions << POSITION_BITS | plan->order_from;
  return (int)plan->kind | plan->has_lower << 3 | plan->lower_open << 4 | plan->has_upper << 5 |
         plan->upper_open << 6 | plan->backwards << 7 | positions << 8 | plan->upper_plain << 29;
}

void colfam_plan_decode(int idx_num, struct colfam_plan *plan) {
  int positions = idx_num >> 8, mask = (1 << POSITION_BITS) - 1;
  *plan = (struct colfam_plan){.kind = (enum colfam_plan_kind)(idx_num & 7),
                               .has_lower = idx_num >> 3 & 1,
                               .lower_open = idx_num >> 4 & 1,
                               .has_upper = idx_num >> 5 & 1,
                               .upper_open = idx_num >> 6 & 1,
                               .backwards = idx_num >> 7 & 1,
                               .upper_plain = idx_num >> 29 & 1,
                               .order_from = positions & mask,
                               .in_at = (positions >> POSITION_BITS & mask) - 1,
                               .equal_count = positions >> 2 * POSITION_BITS & mask};
}

/* ---- Constraints */

struct planner {
  const struct colfam_schema *schema;
  sqlite3_index_info *info;
  struct colfam_plan plan;
  int key_count;  /* columns of the key, 1 for a rowid */
  int lower_term; /* constraint numbers, -1 without */
  int upper_term;
  bool key_only; /* no value column is used */
};

/* Position in the key of a vtab column; -1 for other columns. */
static int key_position(const struct colfam_schema *schema, int column) {
  if (schema->key_form == COLFAM_KEY_ROWID)
    return column < 0 || column == schema->rowid_column ? 0 : -1;
  return column < 0 || column >= schema->column_count ? -1 : schema->columns[column].key_index;
}

static enum colfam_affinity key_affinity(const struct colfam_schema *schema, int position) {
  if (schema->key_form == COLFAM_KEY_ROWID) return COLFAM_AFF_INTEGER;
  return schema->columns[schema->key_columns[position]].affinity;
}

static bool is_numeric(const struct colfam_schema *schema, int position) {
  return key_affinity(schema, position) >= COLFAM_AFF_NUMERIC;
}

static bool is_list(sqlite3_index_info *info, int term) {
  return sqlite3_libversion_number() >= 3038000 && sqlite3_vtab_in(info, term, -1);
}

/* Rowids are no texts: to them all collations are one. */
static bool collates(const struct planner *planner, int term, int position) {
  const struct colfam_schema *schema = planner->schema;
  return schema->key_form == COLFAM_KEY_ROWID ||
         sqlite3_stricmp(sqlite3_vtab_collation(planner->info, term),
                         colfam_schema_key_collation(schema, position)) == 0;
}

/* Whether the term bounds this key column by one of two operators, as memcmp does. */
static bool serves(const struct planner *planner, int term, int position, int op, int other_op) {
  const struct sqlite3_index_constraint *constraint = &planner->info->aConstraint[term];
  return constraint->usable && (constraint->op == op || constraint->op == other_op) &&
         key_position(planner->schema, constraint->iColumn) == position &&
         collates(planner, term, position);
}

/* The first term that serves, -1 without. */
static int find_term(const struct planner *planner, int position, int op, int other_op) {
  for (int i = 0; i < planner->info->nConstraint; i++)
    if (serves(planner, i, position, op, other_op)) return i;
  return -1;
}

/* A plain = rather than a list. Beyond LIST_TERMS_MAX the two cannot be told apart. */
static int find_equal(const struct planner *planner, int position) {
  int op = SQLITE_INDEX_CONSTRAINT_EQ, is = SQLITE_INDEX_CONSTRAINT_IS, found = -1;
  for (int i = 0; i < planner->info->nConstraint; i++) {
    if (!serves(planner, i, position, op, is)) continue;
    if (i >= LIST_TERMS_MAX && !is_numeric(planner->schema, position)) continue;
    if (!is_list(planner->info, i)) return i;
    if (found < 0) found = i;
  }
  return found;
}

static bool has_pattern(const struct planner *planner, int position) {
  for (int i = 0; i < planner->info->nConstraint; i++) {
    const struct sqlite3_index_constraint *constraint = &planner->info->aConstraint[i];
    bool pattern = constraint->op == SQLITE_INDEX_CONSTRAINT_LIKE ||
                   constraint->op == SQLITE_INDEX_CONSTRAINT_GLOB;
    if (pattern && key_position(planner->schema, constraint->iColumn) == position) return true;
  }
  return false;
}

/* Hands the term's right side to xFilter as its next argument. */
static void use_term(struct planner *planner, int term, int *argc) {
  planner->info->aConstraintUsage[term].argvIndex = ++*argc;
}

/* A text in the SQL has no numeric affinity. */
static bool is_literal_text(const struct planner *planner, int term) {
  sqlite3_value *value = NULL;
  return sqlite3_vtab_rhs_value(planner->info, term, &value) == SQLITE_OK && value &&
         sqlite3_value_type(value) == SQLITE_TEXT;
}

static void bind_bounds(struct planner *planner, int position, int *argc) {
  struct colfam_plan *plan = &planner->plan;
  if (has_pattern(planner, position)) return;
  planner->lower_term =
      find_term(planner, position, SQLITE_INDEX_CONSTRAINT_GT, SQLITE_INDEX_CONSTRAINT_GE);
  planner->upper_term =
      find_term(planner, position, SQLITE_INDEX_CONSTRAINT_LT, SQLITE_INDEX_CONSTRAINT_LE);
  const struct sqlite3_index_constraint *terms = planner->info->aConstraint;
  if (planner->lower_term >= 0) {
    plan->has_lower = true;
    plan->lower_open = terms[planner->lower_term].op == SQLITE_INDEX_CONSTRAINT_GT;
    use_term(planner, planner->lower_term, argc);
  }
  if (planner->upper_term >= 0) {
    plan->has_upper = true;
    plan->upper_open = terms[planner->upper_term].op == SQLITE_INDEX_CONSTRAINT_LT;
    plan->upper_plain = is_literal_text(planner, planner->upper_term);
    use_term(planner, planner->upper_term, argc);
  }
}

static void take_list(struct planner *planner, int term, int position) {
  sqlite3_vtab_in(planner->info, term, 1);
  planner->plan.in_at = position;
}

/* The list is taken for a column that is not numeric, or else for the last one that has a list. */
static void bind_key(struct planner *planner) {
  struct colfam_plan *plan = &planner->plan;
  int argc = 0, position = 0, list_term = -1, list_position = -1;
  for (; position < planner->key_count && position < KEY_COLUMNS_MAX; position++) {
    int term = find_equal(planner, position);
    if (term < 0) break;
    if (is_list(planner->info, term)) {
      bool numeric = is_numeric(planner->schema, position);
      if (!numeric && plan->in_at >= 0) break;
      if (!numeric) take_list(planner, term, position);
      list_term = term;
      list_position = position;
    }
    use_term(planner, term, &argc);
  }
  plan->equal_count = position;
  if (plan->in_at < 0 && list_term >= 0) take_list(planner, list_term, list_position);
  if (position < planner->key_count) bind_bounds(planner, position, &argc);
}

/* ---- What is used */

static bool uses_only_key(const struct planner *planner) {
  const struct colfam_schema *schema = planner->schema;
  sqlite3_uint64 used = planner->info->colUsed;
  for (int i = 0; i < schema->column_count; i++) {
    int bit = i < 63 ? i : 63;
    if (schema->columns[i].value_index >= 0 && used >> bit & 1) return false;
  }
  return true;
}

/* Only LIMIT and OFFSET may stand beside a plan that looks at no row. */
static bool is_unconstrained(const struct planner *planner) {
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
static bool is_count(const struct planner *planner) {
  return !(planner->info->colUsed & ~always_used(planner->schema)) && !planner->info->nOrderBy &&
         planner->schema->options.track_rows && is_unconstrained(planner);
}

/* As likely as not `SELECT k`; nobody asks for a hidden key. */
static bool may_read_keys(const struct planner *planner) {
  return planner->schema->key_form == COLFAM_KEY_COLUMN && planner->info->colUsed;
}

static enum colfam_plan_kind choose_kind(const struct planner *planner) {
  const struct colfam_plan *plan = &planner->plan;
  if (plan->equal_count == planner->key_count) {
    if (plan->in_at >= 0) return COLFAM_PLAN_MULTI_GET;
    return planner->key_only ? COLFAM_PLAN_EXISTS : COLFAM_PLAN_GET;
  }
  if (plan->equal_count || plan->has_lower || plan->has_upper) return COLFAM_PLAN_RANGE;
  return is_count(planner) ? COLFAM_PLAN_COUNT : COLFAM_PLAN_SCAN;
}

/* ---- Order */

/* Walks ORDER BY along the key. A column bound by = counts as constant, but one that is not of a numeric
** type only together with all columns before it, as a prefix that the cursor cuts off (order_from). A
** column bound by the list is not constant. */
struct order {
  int position; /* key columns before it are done with */
  int first;    /* the first key column that orders */
  int from;     /* behind the last skipped column that is not numeric */
  bool any, backwards;
};

static bool is_constant(const struct planner *planner, int position) {
  return position < planner->plan.equal_count && position != planner->plan.in_at;
}

static void skip_constants(const struct planner *planner, struct order *order, int until) {
  while (order->position < until && is_constant(planner, order->position)) {
    if (!is_numeric(planner->schema, order->position)) order->from = order->position + 1;
    order->position++;
  }
}

static bool is_descending(const struct colfam_schema *schema, int position) {
  return colfam_schema_key_part(schema, position).descending;
}

/* Whether the term's column is one that is done with already and adds no order. */
static bool is_redundant(const struct planner *planner, const struct order *order, int position) {
  bool constant = is_constant(planner, position) && is_numeric(planner->schema, position);
  return constant || (order->any && position >= order->first && position < order->position);
}

static bool take_order_term(const struct planner *planner, struct order *order, int term) {
  int position = key_position(planner->schema, planner->info->aOrderBy[term].iColumn);
  if (position < 0) {
    skip_constants(planner, order, planner->key_count);
    return order->position == planner->key_count && !order->from;
  }
  if (position < order->position) return is_redundant(planner, order, position);
  skip_constants(planner, order, position);
  if (position != order->position) return false;
  bool backwards =
      (planner->info->aOrderBy[term].desc != 0) != is_descending(planner->schema, position);
  if (order->any && backwards != order->backwards) return false;
  if (!order->any) order->first = position;
  order->any = true;
  order->backwards = backwards;
  order->position++;
  return true;
}

/* Terms behind the whole key add nothing: keys are unique. */
static bool order_is_done(const struct planner *planner, const struct order *order) {
  return order->position == planner->key_count && order->any && !order->from;
}

/* GROUP BY and DISTINCT ask for equal rows side by side: in the key's own direction. */
static bool direction_matters(sqlite3_index_info *info) {
  if (sqlite3_libversion_number() < 3038000) return true;
  int distinct = sqlite3_vtab_distinct(info);
  return distinct != 1 && distinct != 2;
}

static void consume_order(struct planner *planner) {
  struct order order = {0};
  for (int i = 0; i < planner->info->nOrderBy && !order_is_done(planner, &order); i++)
    if (!take_order_term(planner, &order, i)) return;
  if (order.from > order.first && order.any) return;
  planner->info->orderByConsumed = planner->info->nOrderBy > 0;
  planner->plan.backwards = order.backwards && direction_matters(planner->info);
  planner->plan.order_from = order.from;
}

/* ---- Costs: one unit is about one row of a scan */

enum { KEYS_IN_LIST = 25 }; /* as SQLite assumes */

/* A small table may have grown when the statement runs again. */
static double rows_of_table(const sqlite3_vtab *base) {
  const struct colfam_table *table = ((const struct colfam_vtab *)base)->table;
  if (!table || !table->view) return 1000000;
  return fmax((double)kv_view_entries_estimate(table->view), 1000);
}

/* Each column of an equal prefix takes its share of the key's power to tell rows apart; a bound leaves a
** quarter, two of them a 64th, as SQLite reckons. */
static double rows_of_range(const struct planner *planner, double rows) {
  const struct colfam_plan *plan = &planner->plan;
  double left = (double)(planner->key_count - plan->equal_count) / planner->key_count;
  double found = pow(rows, left);
  if (plan->has_lower && plan->has_upper) return fmax(found / 64, 1);
  return plan->has_lower || plan->has_upper ? fmax(found / 4, 1) : fmax(found, 1);
}

/* A list must cost less than two values by themselves, or SQLite runs `k = 1 OR k = 2` as two. */
static void set_cost(struct planner *planner, double table_rows) {
  double seek = 4 + log2(table_rows + 1) / 2;
  double rows = 1, cost = seek;
  switch (planner->plan.kind) {
    case COLFAM_PLAN_SCAN:
      rows = table_rows;
      cost = seek + rows;
      break;
    case COLFAM_PLAN_COUNT:
      rows = table_rows;
      cost = seek + (may_read_keys(planner) ? rows : rows / 4);
      break;
    case COLFAM_PLAN_RANGE:
      rows = rows_of_range(planner, table_rows);
      cost = seek + rows;
      if (planner->plan.in_at < 0) break;
      cost *= 1.5;
      rows = fmin(rows * KEYS_IN_LIST, table_rows);
      break;
    case COLFAM_PLAN_MULTI_GET:
      rows = fmin(KEYS_IN_LIST, table_rows);
      cost = planner->key_only ? seek * 0.75 : seek * 1.5;
      break;
    case COLFAM_PLAN_EXISTS:
      cost = seek / 2;
      break;
    case COLFAM_PLAN_GET:
      break;
  }
  planner->info->estimatedCost = cost;
  planner->info->estimatedRows = (sqlite3_int64)rows;
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
};

/* "get a,b", "range a=,b"; a whole scan in the key's order is a "range". */
static char *plan_words(const struct planner *planner) {
  const struct colfam_plan *plan = &planner->plan;
  enum colfam_plan_kind kind = plan->kind;
  bool ordered = planner->info->nOrderBy && planner->info->orderByConsumed;
  if (kind == COLFAM_PLAN_COUNT && may_read_keys(planner)) return sqlite3_mprintf("count or scan");
  if (kind == COLFAM_PLAN_SCAN && ordered) kind = COLFAM_PLAN_RANGE;
  bool bounds = plan->has_lower || plan->has_upper;
  int count = plan->equal_count + bounds;
  if (kind == COLFAM_PLAN_RANGE && !count) count = 1;
  sqlite3_str *words = sqlite3_str_new(NULL);
  sqlite3_str_appendall(words, kind_words[kind]);
  for (int i = 0; i < count; i++) {
    bool prefix = kind == COLFAM_PLAN_RANGE && i < plan->equal_count;
    sqlite3_str_appendf(words, "%s%s%s", i ? "," : " ", key_name(planner->schema, i),
                        prefix ? "=" : "");
  }
  return sqlite3_str_finish(words);
}

/* At most one row can be found: a number compared with a text key may find several. */
static bool finds_one_row(const struct planner *planner) {
  if (planner->plan.equal_count < planner->key_count || planner->plan.in_at >= 0) return false;
  for (int i = 0; i < planner->key_count; i++)
    if (!is_numeric(planner->schema, i)) return false;
  return true;
}

int colfam_best_index(sqlite3_vtab *vtab, sqlite3_index_info *info) {
  const struct colfam_schema *schema = ((const struct colfam_vtab *)vtab)->schema;
  struct planner planner = {.schema = schema, .info = info};
  planner.key_count = schema->key_form == COLFAM_KEY_ROWID ? 1 : schema->key_count;
  planner.lower_term = planner.upper_term = planner.plan.in_at = -1;
  planner.key_only = uses_only_key(&planner);
  bind_key(&planner);
  planner.plan.kind = choose_kind(&planner);
  consume_order(&planner);
  set_cost(&planner, rows_of_table(vtab));
  if (finds_one_row(&planner)) info->idxFlags |= SQLITE_INDEX_SCAN_UNIQUE;
  info->idxNum = colfam_plan_encode(&planner.plan);
  info->idxStr = plan_words(&planner);
  info->needToFreeIdxStr = 1;
  return info->idxStr ? SQLITE_OK : SQLITE_NOMEM;
}
