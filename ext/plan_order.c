/* See planner.h: ORDER BY, GROUP BY and DISTINCT along the key. */
#include "planner.h"

/* Walks ORDER BY along the key. A column bound by = counts as constant, but one that is not of a numeric
** type only together with all columns before it, as a prefix that the cursor cuts off (order_from). A
** column bound by a list is not constant. */
struct order {
  int position; /* key columns before it are done with */
  int first;    /* the first key column that orders */
  int from;     /* behind the last skipped column that is not numeric */
  bool any, backwards;
};

static bool is_constant(const struct colfam_planner *planner, int position) {
  return position < planner->plan.equal_count && !colfam_planner_is_list(planner, position);
}

static void skip_constants(const struct colfam_planner *planner, struct order *order, int until) {
  while (order->position < until && is_constant(planner, order->position)) {
    if (!colfam_planner_is_numeric(planner, order->position)) order->from = order->position + 1;
    order->position++;
  }
}

static bool is_descending(const struct colfam_schema *schema, int position) {
  return colfam_schema_key_part(schema, position).descending;
}

/* Whether the term's column is one that is done with already and adds no order. */
static bool is_redundant(const struct colfam_planner *planner, const struct order *order,
                         int position) {
  bool constant = is_constant(planner, position) && colfam_planner_is_numeric(planner, position);
  return constant || (order->any && position >= order->first && position < order->position);
}

static bool take_order_term(const struct colfam_planner *planner, struct order *order, int term) {
  int position = colfam_planner_position(planner, planner->info->aOrderBy[term].iColumn);
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
static bool order_is_done(const struct colfam_planner *planner, const struct order *order) {
  return order->position == planner->key_count && order->any && !order->from;
}

/* GROUP BY and DISTINCT ask for equal rows side by side: in the key's own direction. Before 3.53 a GROUP BY
** may be one that ORDER BY has been merged into, which is not told, and not sorted again. */
static bool direction_matters(sqlite3_index_info *info) {
  int distinct = sqlite3_vtab_distinct(info);
  return distinct == 1 ? sqlite3_libversion_number() < 3053000 : distinct != 2;
}

void colfam_planner_order(struct colfam_planner *planner) {
  struct order order = {0};
  if (planner->order != COLFAM_ORDER_NATIVE && planner->info->nOrderBy) return;
  for (int i = 0; i < planner->info->nOrderBy && !order_is_done(planner, &order); i++)
    if (!take_order_term(planner, &order, i)) return;
  if (order.from > order.first && order.any) return;
  planner->info->orderByConsumed = planner->info->nOrderBy > 0;
  planner->plan.backwards = order.backwards && direction_matters(planner->info);
  planner->plan.order_from = order.from;
}
