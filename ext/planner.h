/* What xBestIndex works on, shared by its parts: plan.c binds constraints, plan_order.c consumes ORDER BY,
** plan_cost.c estimates. Thread rule: the connection's. */
#ifndef COLFAM_PLANNER_H
#define COLFAM_PLANNER_H

#include <stdbool.h>

#include "plan.h"
#include "schema.h"
#include "sqlite_api.h"

struct colfam_planner {
  const struct colfam_schema *schema;
  sqlite3_index_info *info;
  struct colfam_plan plan;
  int key_count; /* columns of the key, 1 for a rowid */
  enum colfam_order_kind order;
  bool key_only; /* no value column is used */
  bool
      may_read_keys; /* a count may be, as likely as not, `SELECT k`; nobody asks for a hidden key */
};

/* Position in the key of a vtab column; -1 for other columns. */
int colfam_planner_position(const struct colfam_planner *planner, int column);
bool colfam_planner_is_numeric(const struct colfam_planner *planner, int position);
bool colfam_planner_is_list(const struct colfam_planner *planner, int position);

/* Decides whether the plan's rows come in the order that is asked for, and in which direction. */
void colfam_planner_order(struct colfam_planner *planner);
/* Sets estimated cost and rows of the chosen plan, for a table of so many rows. */
void colfam_planner_cost(struct colfam_planner *planner, double table_rows);

#endif
