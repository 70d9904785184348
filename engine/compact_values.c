/* See compact_values.h. */
#include "compact_values.h"

#include "mem.h"

void kv_value_plan_release(struct kv_value_plan *plan) {
  kv_value_uses_release(&plan->inputs);
  kv_value_uses_release(&plan->others);
  kv_free(plan->looked_at);
  kv_free(plan->rewritten);
  *plan = (struct kv_value_plan){0};
}

static kv_status add_uses(struct kv_value_uses *sum, struct kv_sst *file, struct kv_err *err) {
  struct kv_table *table = NULL;
  kv_status status = kv_sst_table(file, &table, err);
  const struct kv_value_uses *uses = status == KV_OK ? kv_table_uses(table) : NULL;
  for (size_t i = 0; status == KV_OK && i < uses->count; i++)
    status = kv_value_uses_add(sum, uses->uses[i], err);
  return status;
}

static kv_status add_inputs(struct kv_value_plan *plan, const struct kv_plan *inputs,
                            struct kv_err *err) {
  kv_status status = KV_OK;
  for (size_t i = 0; i < inputs->count; i++)
    for (size_t j = 0; j < inputs->parts[i].file_count && status == KV_OK; j++)
      status = add_uses(&plan->inputs, inputs->parts[i].files[j], err);
  return status;
}

/* Those that inputs refer to, and those that lie where inputs do: of two merges at a time, which have taken
** the last references, neither knew it. */
static bool is_of_interest(const struct kv_value_plan *plan, const struct kv_plan *inputs,
                           struct kv_sst *values) {
  const struct kv_file_info *info = kv_sst_info(values);
  if (plan->all || kv_value_uses_find(&plan->inputs, info->id)) return true;
  struct kv_slice smallest = kv_buf_slice(&info->smallest), largest = kv_buf_slice(&info->largest);
  for (size_t i = 0; i < inputs->count; i++)
    if (kv_run_overlap(&inputs->parts[i], smallest, largest).file_count) return true;
  return false;
}

static kv_status choose_looked_at(struct kv_value_plan *plan, const struct kv_layout *layout,
                                  const struct kv_plan *inputs, struct kv_err *err) {
  plan->looked_at = kv_alloc(layout->value_count, sizeof *plan->looked_at);
  if (!plan->looked_at) return kv_fail_nomem(err);
  for (size_t i = 0; i < layout->value_count; i++)
    plan->looked_at[i] = is_of_interest(plan, inputs, layout->values[i]);
  return KV_OK;
}

static bool overlap(struct kv_sst *one, struct kv_sst *other) {
  const struct kv_comparator *by = kv_sst_comparator(one);
  const struct kv_file_info *a = kv_sst_info(one), *b = kv_sst_info(other);
  return kv_key_compare(by, kv_buf_slice(&a->smallest), kv_buf_slice(&b->largest)) <= 0 &&
         kv_key_compare(by, kv_buf_slice(&b->smallest), kv_buf_slice(&a->largest)) <= 0;
}

/* Whether a key file may refer to a value file that is looked at. */
static bool may_refer(const struct kv_value_plan *plan, const struct kv_layout *layout,
                      struct kv_sst *file) {
  for (size_t i = 0; i < layout->value_count; i++)
    if (plan->looked_at[i] && overlap(file, layout->values[i])) return true;
  return false;
}

static kv_status add_others(struct kv_value_plan *plan, const struct kv_layout *layout,
                            const struct kv_plan *inputs, struct kv_err *err) {
  size_t keys = layout->file_count - layout->value_count;
  for (size_t i = 0; i < keys; i++) {
    struct kv_sst *file = layout->files[i];
    if (kv_plan_reads(inputs, file) || !may_refer(plan, layout, file)) continue;
    kv_status status = add_uses(&plan->others, file, err);
    if (status == KV_NOMEM) return status;
    if (status != KV_OK) plan->blind = true;
  }
  return KV_OK;
}

/* ---- What is dead */

struct use {
  uint64_t count, bytes;
};

static struct use use_of(const struct kv_value_plan *plan, uint64_t file) {
  const struct kv_value_use *a = kv_value_uses_find(&plan->inputs, file);
  const struct kv_value_use *b = kv_value_uses_find(&plan->others, file);
  return (struct use){(a ? a->count : 0) + (b ? b->count : 0),
                      (a ? a->bytes : 0) + (b ? b->bytes : 0)};
}

/* A value file that cannot be opened is left alone: reads say what is wrong with it. */
static kv_status is_mostly_dead(struct kv_sst *values, struct use use, bool thorough, bool *dead,
                                struct kv_err *err) {
  struct kv_table *table = NULL;
  *dead = false;
  if (use.count >= kv_sst_info(values)->entries) return KV_OK;
  kv_status status = kv_sst_table(values, &table, err);
  if (status == KV_OK) {
    uint64_t all = kv_table_value_bytes(table);
    *dead = use.bytes < (thorough ? all - all / 4 : all / 2);
  }
  return status == KV_NOMEM ? status : KV_OK;
}

static kv_status choose_rewritten(struct kv_value_plan *plan, const struct kv_layout *layout,
                                  bool thorough, struct kv_err *err) {
  plan->rewritten = kv_alloc(layout->value_count, sizeof *plan->rewritten);
  if (!plan->rewritten) return kv_fail_nomem(err);
  kv_status status = KV_OK;
  for (size_t i = 0; i < layout->value_count && status == KV_OK; i++) {
    struct kv_sst *values = layout->values[i];
    if (!plan->looked_at[i]) continue;
    uint64_t id = kv_sst_info(values)->id;
    struct use use = use_of(plan, id);
    bool dead = false;
    status = is_mostly_dead(values, use, thorough, &dead, err);
    plan->due |= dead || use.count == 0;
    if (dead && use.count) plan->rewritten[plan->rewritten_count++] = id;
  }
  return status;
}

kv_status kv_value_plan_make(struct kv_value_plan *plan, const struct kv_layout *layout,
                             const struct kv_plan *inputs, bool thorough, struct kv_err *err) {
  plan->all = thorough;
  if (!layout->value_count || !inputs->count) return KV_OK;
  kv_status status = add_inputs(plan, inputs, err);
  if (status == KV_OK) status = choose_looked_at(plan, layout, inputs, err);
  if (status == KV_OK) status = add_others(plan, layout, inputs, err);
  if (status == KV_OK && !plan->blind) status = choose_rewritten(plan, layout, thorough, err);
  return status;
}

bool kv_value_plan_rewrites(const struct kv_value_plan *plan, const struct kv_apart *apart,
                            uint32_t limit) {
  for (size_t i = 0; i < plan->rewritten_count; i++)
    if (plan->rewritten[i] == apart->file) return true;
  return plan->all && (!limit || apart->size <= limit);
}

bool kv_plan_inputs_live(const struct kv_plan *plan, const struct kv_edit *edit,
                         const struct kv_layout *now) {
  if (!kv_plan_is_live(plan, now)) return false;
  for (size_t i = kv_plan_files(plan); i < edit->removed_count; i++)
    if (!kv_layout_value_file(now, edit->removed[i])) return false;
  return true;
}

/* Runs that were flushed meanwhile are newer than all that a merge has read. */
bool kv_plan_merge_fits(const struct kv_plan *plan, const struct kv_edit *edit,
                        const struct kv_layout *now) {
  if (plan->count == 0) return true;
  return kv_plan_inputs_live(plan, edit, now) &&
         !kv_edit_overlaps(edit, now, plan->parts[0].level + 1, plan->level);
}

size_t kv_value_plan_dead(const struct kv_value_plan *plan, const struct kv_layout *layout,
                          const struct kv_value_uses *outputs, uint64_t *ids) {
  size_t count = 0;
  for (size_t i = 0; i < layout->value_count && plan->looked_at && !plan->blind; i++) {
    uint64_t id = kv_sst_info(layout->values[i])->id;
    if (!plan->looked_at[i]) continue;
    if (!kv_value_uses_find(&plan->others, id) && !kv_value_uses_find(outputs, id))
      ids[count++] = id;
  }
  return count;
}
