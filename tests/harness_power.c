/* See harness_power.h. */
#include "harness_power.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SECTOR_BYTES = 512, STATE_SEED = 1u << 28 };

struct power_file {
  struct disk_image *durable;
  bool is_dir;
  bool is_journal;
  size_t *ops; /* writes and truncations that are not durable */
  size_t op_count;
};

/* How much of a file's or a directory's changes is kept. */
enum keeping { KEEP_ALL, KEEP_NONE, KEEP_FIRST, KEEP_SOME };

static void *must(void *memory) {
  if (memory) return memory;
  fprintf(stderr, "power: no memory\n");
  exit(EXIT_FAILURE);
}

static void add_number(size_t **numbers, size_t *count, size_t number) {
  if ((*count & (*count - 1)) == 0)
    *numbers = must(realloc(*numbers, (*count ? 2 * *count : 1) * sizeof **numbers));
  (*numbers)[(*count)++] = number;
}

/* ---- Names, which belong to the disk */

static void add_name(struct power_names *names, const char *name, size_t file) {
  names->files = must(realloc(names->files, (names->count + 1) * sizeof *names->files));
  names->names = must(realloc(names->names, (names->count + 1) * sizeof *names->names));
  names->files[names->count] = file;
  names->names[names->count++] = name;
}

static void drop_name(struct power_names *names, size_t at) {
  names->count--;
  names->files[at] = names->files[names->count];
  names->names[at] = names->names[names->count];
}

static void apply_entry(struct power_names *names, const struct disk_op *op) {
  if (op->kind == DISK_LINK) {
    add_name(names, op->name, op->file);
    return;
  }
  for (size_t i = 0; i < names->count; i++)
    if (strcmp(names->names[i], op->name) == 0 && names->files[i] == op->file) {
      drop_name(names, i);
      return;
    }
}

static void free_names(struct power_names *names) {
  free(names->files);
  free(names->names);
}

static bool has_name(const struct power_names *names, const char *name) {
  for (size_t i = 0; i < names->count; i++)
    if (strcmp(names->names[i], name) == 0) return true;
  return false;
}

static bool is_inside(const char *name, const char *dir) {
  char parent[256];
  return strcmp(disk_parent(name, parent, sizeof parent), dir) == 0;
}

/* ---- The walk */

static bool is_journal(const char *name) {
  size_t size = strlen(name), tail = strlen("-journal");
  return size > tail && strcmp(name + size - tail, "-journal") == 0;
}

void power_start(struct power *power, const struct disk *disk, bool journal_in_order) {
  *power = (struct power){.disk = disk, .journal_in_order = journal_in_order};
  power->files = must(calloc(disk->file_count + 1, sizeof *power->files));
  for (size_t i = 0; i < disk->file_count; i++) power->files[i].durable = disk_image_new();
  for (size_t i = 0; i < disk->base_count; i++) {
    const struct disk_base *base = &disk->base[i];
    struct power_file *file = &power->files[base->file];
    disk_image_unref(file->durable);
    file->durable = disk_image_ref(base->image);
    file->is_dir = base->is_dir;
    file->is_journal = is_journal(base->name);
    add_name(&power->durable, base->name, base->file);
  }
}

void power_stop(struct power *power) {
  for (size_t i = 0; i < power->disk->file_count; i++) {
    disk_image_unref(power->files[i].durable);
    free(power->files[i].ops);
  }
  free(power->files);
  free(power->entry_ops);
  free_names(&power->durable);
}

static void apply_data(struct disk_image **image, const struct disk_op *op) {
  if (op->kind == DISK_WRITE)
    disk_image_write(image, op->offset, op->bytes, op->size);
  else
    disk_image_resize(image, op->offset);
}

static void sync_file(struct power *power, struct power_file *file) {
  for (size_t i = 0; i < file->op_count; i++)
    apply_data(&file->durable, &power->disk->ops[file->ops[i]]);
  file->op_count = 0;
}

static void sync_dir(struct power *power, const char *dir) {
  size_t left = 0;
  for (size_t i = 0; i < power->entry_op_count; i++) {
    const struct disk_op *op = &power->disk->ops[power->entry_ops[i]];
    if (is_inside(op->name, dir))
      apply_entry(&power->durable, op);
    else
      power->entry_ops[left++] = power->entry_ops[i];
  }
  power->entry_op_count = left;
}

static void note_link(struct power *power, const struct disk_op *op) {
  power->files[op->file].is_dir = op->size != 0;
  power->files[op->file].is_journal = is_journal(op->name);
}

bool power_step(struct power *power) {
  if (power->at == power->disk->op_count) return false;
  size_t number = power->at++;
  const struct disk_op *op = &power->disk->ops[number];
  struct power_file *file = &power->files[op->file];
  switch (op->kind) {
    case DISK_MARK:
      power->marks[op->file] = op->offset;
      break;
    case DISK_LINK:
      note_link(power, op);
      add_number(&power->entry_ops, &power->entry_op_count, number);
      break;
    case DISK_UNLINK:
      add_number(&power->entry_ops, &power->entry_op_count, number);
      break;
    case DISK_WRITE:
    case DISK_TRUNCATE:
      add_number(&file->ops, &file->op_count, number);
      break;
    case DISK_SYNC:
      sync_file(power, file);
      power->last_sync = power->at;
      break;
    case DISK_SYNC_DIR:
      sync_dir(power, op->name);
      power->last_sync = power->at;
      break;
  }
  return true;
}

/* ---- States */

struct choice {
  const struct power *power;
  enum power_kind kind;
  size_t prefix;  /* operations before it are kept, in a prefix */
  size_t dropped; /* the first operation on entries and journals' sizes that is not kept */
  struct harness_random *random;
};

static bool flip(struct choice *choice) {
  return harness_below(choice->random, 2) != 0;
}

static enum keeping choose(struct choice *choice) {
  if (choice->kind == POWER_KILL) return KEEP_ALL;
  if (choice->kind == POWER_LOST) return KEEP_NONE;
  return (enum keeping)harness_below(choice->random, KEEP_SOME + 1);
}

static uint64_t smaller(uint64_t a, uint64_t b) {
  return a < b ? a : b;
}

/* Any of the sectors; the file may have grown all the same. */
static void apply_sectors(struct choice *choice, struct disk_image **image,
                          const struct disk_op *op) {
  uint64_t end = op->offset + op->size;
  for (uint64_t at = op->offset, next; at < end; at = next) {
    next = smaller((at / SECTOR_BYTES + 1) * SECTOR_BYTES, end);
    if (flip(choice))
      disk_image_write(image, at, op->bytes + (at - op->offset), (size_t)(next - at));
  }
  if (end > (*image)->size && flip(choice)) disk_image_resize(image, end);
}

/* The first bytes of the write, up to the border of a sector, or any when nothing came after it. */
static void apply_torn(struct choice *choice, struct disk_image **image, const struct disk_op *op) {
  bool is_last = op == &choice->power->disk->ops[choice->power->at - 1];
  size_t size = (size_t)harness_below(choice->random, op->size + 1);
  if (!is_last || flip(choice)) size -= smaller((op->offset + size) % SECTOR_BYTES, size);
  disk_image_write(image, op->offset, op->bytes, size);
}

static void note_dropped(struct choice *choice, size_t number) {
  if (number < choice->dropped) choice->dropped = number;
}

/* A database is cut right after its journal has gone or become empty, and SQLite counts on that order. */
static void keep_truncation(struct choice *choice, const struct power_file *file,
                            struct disk_image **image, size_t number, bool kept) {
  if (!file->is_journal) kept = kept && number < choice->dropped;
  if (kept)
    apply_data(image, &choice->power->disk->ops[number]);
  else
    note_dropped(choice, number);
}

static struct disk_image *file_state(struct choice *choice, size_t number) {
  const struct power *power = choice->power;
  const struct power_file *file = &power->files[number];
  struct disk_image *image = disk_image_ref(file->durable);
  enum keeping keeping = file->op_count ? choose(choice) : KEEP_NONE;
  if (keeping == KEEP_SOME && file->is_journal && power->journal_in_order) keeping = KEEP_FIRST;
  bool mixed = choice->kind == POWER_MIXED;
  size_t first = (size_t)harness_below(choice->random, file->op_count + 1);
  for (size_t i = 0; i < file->op_count; i++) {
    const struct disk_op *op = &power->disk->ops[file->ops[i]];
    bool kept = choice->kind == POWER_PREFIX
                    ? file->ops[i] < choice->prefix
                    : keeping == KEEP_ALL || (keeping == KEEP_FIRST && i < first);
    if (op->kind == DISK_TRUNCATE)
      keep_truncation(choice, file, &image, file->ops[i],
                      kept || (mixed && keeping == KEEP_SOME && flip(choice)));
    else if (kept)
      apply_data(&image, op);
    else if (mixed && keeping == KEEP_SOME)
      apply_sectors(choice, &image, op);
    else if (mixed && keeping == KEEP_FIRST && i == first)
      apply_torn(choice, &image, op);
  }
  return image;
}

static void add_all(struct power_names *to, const struct power_names *from) {
  for (size_t i = 0; i < from->count; i++) add_name(to, from->names[i], from->files[i]);
}

static void drop_entry_op(struct choice *choice, struct power_names *stopped, size_t number) {
  add_name(stopped, choice->power->disk->ops[number].name, 0);
  note_dropped(choice, number);
}

/* What is kept of the entries; of one name, what came first. */
static void choose_entries(struct choice *choice, struct power_names *names, bool *all) {
  const struct power *power = choice->power;
  struct power_names stopped = {0};
  enum keeping keeping = choose(choice);
  *all = true;
  add_all(names, &power->durable);
  for (size_t i = 0; i < power->entry_op_count; i++) {
    const struct disk_op *op = &power->disk->ops[power->entry_ops[i]];
    bool kept = keeping != KEEP_NONE;
    if (choice->kind == POWER_PREFIX)
      kept = power->entry_ops[i] < choice->prefix;
    else if (keeping > KEEP_NONE)
      kept = !has_name(&stopped, op->name) && flip(choice);
    if (kept)
      apply_entry(names, op);
    else
      drop_entry_op(choice, &stopped, power->entry_ops[i]);
    *all = *all && kept;
  }
  free_names(&stopped);
}

/* Where the directory itself did not make it. */
static void drop_unreachable(struct power_names *names) {
  char parent[256];
  for (size_t i = 0; i < names->count;) {
    disk_parent(names->names[i], parent, sizeof parent);
    if (*parent && !has_name(names, parent)) {
      drop_name(names, i);
      i = 0;
    } else {
      i++;
    }
  }
}

/* Journals, which come first, or the others. */
static void add_files(struct choice *choice, const struct power_names *names, bool journals,
                      struct disk *state) {
  for (size_t i = 0; i < names->count; i++) {
    size_t origin = names->files[i];
    const struct power_file *file = &choice->power->files[origin];
    if (file->is_journal != journals) continue;
    struct disk_image *image = file_state(choice, origin);
    disk_add_base(state, names->names[i], file->is_dir, image)->origin = origin;
    disk_image_unref(image);
  }
}

struct disk *power_state(const struct power *power, enum power_kind kind,
                         struct harness_random *random, bool *entries_kept) {
  struct choice choice = {power, kind, power->at, SIZE_MAX, random};
  if (kind == POWER_PREFIX)
    choice.prefix =
        power->last_sync + (size_t)harness_below(random, power->at - power->last_sync + 1);
  struct power_names names = {0};
  choose_entries(&choice, &names, entries_kept);
  drop_unreachable(&names);
  struct disk *state = disk_new(STATE_SEED);
  add_files(&choice, &names, true, state);
  add_files(&choice, &names, false, state);
  free_names(&names);
  return state;
}

uint64_t power_mix(uint64_t digest, const void *bytes, size_t size) {
  const uint8_t *from = bytes;
  for (; size >= 8; size -= 8, from += 8) {
    uint64_t word;
    memcpy(&word, from, 8);
    digest = (digest ^ word) * 0x9e3779b97f4a7c15u;
    digest ^= digest >> 29;
  }
  for (; size; size--) digest = (digest ^ *from++) * 0x100000001b3u;
  return digest ^ digest >> 32;
}

uint64_t power_image_digest(struct disk_image *image) {
  if (!image->digest) image->digest = power_mix(image->size + 1, image->bytes, image->size) | 1;
  return image->digest;
}

/* The order of the names does not count. */
uint64_t power_digest(const struct disk *state) {
  uint64_t sum = 0;
  for (size_t i = 0; i < state->base_count; i++) {
    const struct disk_base *base = &state->base[i];
    sum += power_mix(power_image_digest(base->image), base->name, strlen(base->name));
  }
  return sum;
}

uint64_t power_digest_now(const struct disk *disk) {
  uint64_t sum = 0;
  for (size_t i = 0; i < disk->entry_count; i++) {
    const struct disk_entry *entry = &disk->entries[i];
    sum += power_mix(power_image_digest(entry->file->image), entry->name, strlen(entry->name));
  }
  return sum;
}

/* ---- Two logs as one */

static size_t joined_number(const struct disk *before, const struct disk *after, size_t number) {
  if (number < after->base_count) return after->base[number].origin;
  return before->file_count + number - after->base_count;
}

struct disk *power_join(const struct disk *before, size_t at, const struct disk *after) {
  struct disk *joined = must(calloc(1, sizeof *joined));
  joined->base = before->base;
  joined->base_count = before->base_count;
  joined->file_count = before->file_count + after->file_count - after->base_count;
  joined->op_count = at + after->op_count;
  joined->ops = must(calloc(joined->op_count + 1, sizeof *joined->ops));
  memcpy(joined->ops, before->ops, at * sizeof *joined->ops);
  for (size_t i = 0; i < after->op_count; i++) {
    struct disk_op *op = &joined->ops[at + i];
    *op = after->ops[i];
    if (op->kind != DISK_MARK && op->kind != DISK_SYNC_DIR)
      op->file = joined_number(before, after, op->file);
  }
  return joined;
}

void power_join_free(struct disk *joined) {
  free(joined->ops);
  free(joined);
}
