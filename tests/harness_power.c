/* See harness_power.h. */
#include "harness_power.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SECTOR_BYTES = 512 };

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
  size_t prefix; /* operations before it are kept, in a prefix */
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
  if (op->kind == DISK_TRUNCATE) {
    if (flip(choice)) apply_data(image, op);
    return;
  }
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
  if (op->kind == DISK_TRUNCATE) return;
  bool is_last = op == &choice->power->disk->ops[choice->power->at - 1];
  size_t size = (size_t)harness_below(choice->random, op->size + 1);
  if (!is_last || flip(choice)) size -= smaller((op->offset + size) % SECTOR_BYTES, size);
  disk_image_write(image, op->offset, op->bytes, size);
}

static struct disk_image *file_state(struct choice *choice, size_t number) {
  const struct power *power = choice->power;
  const struct power_file *file = &power->files[number];
  struct disk_image *image = disk_image_ref(file->durable);
  enum keeping keeping = file->op_count ? choose(choice) : KEEP_NONE;
  if (keeping == KEEP_SOME && file->is_journal && power->journal_in_order) keeping = KEEP_FIRST;
  size_t first = (size_t)harness_below(choice->random, file->op_count + 1);
  for (size_t i = 0; i < file->op_count; i++) {
    const struct disk_op *op = &power->disk->ops[file->ops[i]];
    if (choice->kind == POWER_PREFIX ? file->ops[i] < choice->prefix
                                     : keeping == KEEP_ALL || (keeping == KEEP_FIRST && i < first))
      apply_data(&image, op);
    else if (choice->kind == POWER_MIXED && keeping == KEEP_SOME)
      apply_sectors(choice, &image, op);
    else if (choice->kind == POWER_MIXED && keeping == KEEP_FIRST && i == first)
      apply_torn(choice, &image, op);
  }
  return image;
}

static void add_all(struct power_names *to, const struct power_names *from) {
  for (size_t i = 0; i < from->count; i++) add_name(to, from->names[i], from->files[i]);
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
      add_name(&stopped, op->name, 0);
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

struct disk *power_state(const struct power *power, enum power_kind kind,
                         struct harness_random *random, bool *entries_kept) {
  struct choice choice = {power, kind, power->at, random};
  if (kind == POWER_PREFIX)
    choice.prefix =
        power->last_sync + (size_t)harness_below(random, power->at - power->last_sync + 1);
  struct power_names names = {0};
  choose_entries(&choice, &names, entries_kept);
  drop_unreachable(&names);
  struct disk *state = disk_new(harness_next(random));
  for (size_t i = 0; i < names.count; i++) {
    struct disk_image *image = file_state(&choice, names.files[i]);
    disk_add_base(state, names.names[i], power->files[names.files[i]].is_dir, image);
    disk_image_unref(image);
  }
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

/* The order of the names does not count. */
uint64_t power_digest(const struct disk *state) {
  uint64_t sum = 0;
  for (size_t i = 0; i < state->base_count; i++) {
    const struct disk_base *base = &state->base[i];
    uint64_t one = power_mix(base->image->size, base->name, strlen(base->name));
    sum += power_mix(one, base->image->bytes, base->image->size);
  }
  return sum;
}
