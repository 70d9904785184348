/* See harness_disk.h. Out of memory ends the program: nothing here tests that. */
#include "harness_disk.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct disk *mounted;
static unsigned mount_number;
static void (*call_hook)(bool sleeps);
static struct disk_handle *handles;
static int process_now;

void disk_on_call(void (*hook)(bool sleeps)) {
  call_hook = hook;
}

void disk_called(void) {
  if (call_hook) call_hook(false);
}

void disk_sleeps(void) {
  if (call_hook) call_hook(true);
}

void disk_set_process(int process) {
  process_now = process;
}

void disk_add_handle(struct disk_handle *handle, void (*close)(struct disk_handle *handle)) {
  *handle = (struct disk_handle){handles, process_now, close};
  handles = handle;
}

void disk_drop_handle(struct disk_handle *handle) {
  struct disk_handle **link = &handles;
  while (*link != handle) link = &(*link)->next;
  *link = handle->next;
}

void disk_kill(int process) {
  for (struct disk_handle *handle = handles, *next; handle; handle = next) {
    next = handle->next;
    if (handle->process == process) handle->close(handle);
  }
}

static void *must(void *memory) {
  if (memory) return memory;
  fprintf(stderr, "disk: no memory\n");
  exit(EXIT_FAILURE);
}

static void *grown(void *array, size_t count, size_t size) {
  bool full = count == 0 || (count >= 8 && (count & (count - 1)) == 0);
  if (!full) return array;
  return must(realloc(array, (count ? 2 * count : 8) * size));
}

/* ---- Images */

struct disk_image *disk_image_new(void) {
  struct disk_image *image = must(calloc(1, sizeof *image));
  image->refs = 1;
  return image;
}

struct disk_image *disk_image_ref(struct disk_image *image) {
  image->refs++;
  return image;
}

void disk_image_unref(struct disk_image *image) {
  if (!image || --image->refs) return;
  free(image->bytes);
  free(image);
}

/* Makes it the caller's own, with room. */
static struct disk_image *own(struct disk_image **link, size_t room) {
  struct disk_image *image = *link;
  if (image->refs > 1) {
    struct disk_image *copy = disk_image_new();
    copy->capacity = room > image->size ? room : image->size;
    copy->bytes = must(malloc(copy->capacity + 1));
    if (image->size) memcpy(copy->bytes, image->bytes, image->size);
    copy->size = image->size;
    disk_image_unref(image);
    *link = image = copy;
  }
  image->digest = 0;
  if (room > image->capacity) {
    image->capacity = room + room / 2;
    image->bytes = must(realloc(image->bytes, image->capacity));
  }
  return image;
}

void disk_image_resize(struct disk_image **link, uint64_t size) {
  if ((*link)->size == size) return;
  struct disk_image *image = own(link, (size_t)size);
  if (size > image->size) memset(image->bytes + image->size, 0, (size_t)size - image->size);
  image->size = (size_t)size;
}

void disk_image_write(struct disk_image **link, uint64_t offset, const void *bytes, size_t size) {
  if (size == 0) return;
  size_t end = (size_t)offset + size;
  struct disk_image *image = own(link, end);
  if (offset > image->size) memset(image->bytes + image->size, 0, (size_t)offset - image->size);
  memcpy(image->bytes + offset, bytes, size);
  if (end > image->size) image->size = end;
}

/* ---- Files and entries */

struct disk_file *disk_file_loose(void) {
  struct disk_file *file = must(calloc(1, sizeof *file));
  file->refs = 1;
  file->image = disk_image_new();
  return file;
}

void disk_file_unref(struct disk_file *file) {
  if (--file->refs) return;
  for (int i = 0; i < DISK_SHM_REGIONS; i++) free(file->shm[i]);
  disk_image_unref(file->image);
  free(file);
}

static struct disk_file *add_file(struct disk *disk, bool is_dir) {
  struct disk_file *file = disk_file_loose();
  file->is_dir = is_dir;
  file->number = disk->file_count;
  disk->files = grown(disk->files, disk->file_count, sizeof *disk->files);
  disk->files[disk->file_count++] = file;
  return file;
}

static void add_entry(struct disk *disk, const char *name, struct disk_file *file) {
  disk->entries = grown(disk->entries, disk->entry_count, sizeof *disk->entries);
  disk->entries[disk->entry_count++] = (struct disk_entry){must(strdup(name)), file};
  file->refs++;
}

static struct disk_entry *find_entry(const struct disk *disk, const char *name) {
  for (size_t i = 0; i < disk->entry_count; i++)
    if (strcmp(disk->entries[i].name, name) == 0) return &disk->entries[i];
  return NULL;
}

static void drop_entry(struct disk *disk, struct disk_entry *entry) {
  free(entry->name);
  disk_file_unref(entry->file);
  *entry = disk->entries[--disk->entry_count];
}

struct disk_file *disk_find(const struct disk *disk, const char *name) {
  const struct disk_entry *entry = find_entry(disk, name);
  return entry ? entry->file : NULL;
}

bool disk_has_dir(const struct disk *disk, const char *name) {
  if (!*name) return true;
  const struct disk_file *file = disk_find(disk, name);
  return file && file->is_dir;
}

/* ---- The disk */

struct disk *disk_new(uint64_t seed) {
  struct disk *disk = must(calloc(1, sizeof *disk));
  disk->refs = 1;
  disk->random = seed * 2 + 1;
  return disk;
}

void disk_seed(struct disk *disk, uint64_t seed) {
  disk->random = seed * 2 + 1;
  sqlite3_randomness(0, NULL);
}

static void free_ops(struct disk *disk) {
  for (size_t i = 0; i < disk->op_count; i++) {
    free(disk->ops[i].name);
    free(disk->ops[i].bytes);
  }
  free(disk->ops);
}

void disk_unref(struct disk *disk) {
  if (!disk || --disk->refs) return;
  while (disk->entry_count) drop_entry(disk, &disk->entries[0]);
  free(disk->entries);
  for (size_t i = 0; i < disk->file_count; i++) disk_file_unref(disk->files[i]);
  free(disk->files);
  for (size_t i = 0; i < disk->base_count; i++) {
    free(disk->base[i].name);
    disk_image_unref(disk->base[i].image);
  }
  free(disk->base);
  free_ops(disk);
  free(disk);
}

struct disk_base *disk_add_base(struct disk *disk, const char *name, bool is_dir,
                                struct disk_image *image) {
  struct disk_file *file = add_file(disk, is_dir);
  disk_image_unref(file->image);
  file->image = disk_image_ref(image);
  add_entry(disk, name, file);
  disk->base = grown(disk->base, disk->base_count, sizeof *disk->base);
  struct disk_base *base = &disk->base[disk->base_count++];
  *base = (struct disk_base){must(strdup(name)), file->number, 0, is_dir, disk_image_ref(image)};
  return base;
}

void disk_mount(struct disk *disk) {
  mounted = disk;
  mount_number++;
}

struct disk *disk_mounted(void) {
  return mounted;
}

const char *disk_path(const char *name) {
  static char path[256];
  snprintf(path, sizeof path, "/disk%06u/%s", mount_number, name);
  return path;
}

const char *disk_name(const char *path) {
  const char *slash = *path ? strchr(path + 1, '/') : NULL;
  return slash ? slash + 1 : "";
}

const char *disk_parent(const char *name, char *buffer, size_t size) {
  const char *slash = strrchr(name, '/');
  snprintf(buffer, size, "%.*s", slash ? (int)(slash - name) : 0, name);
  return buffer;
}

void disk_random(struct disk *disk, void *bytes, size_t size) {
  uint8_t *to = bytes;
  for (size_t i = 0; i < size; i++) {
    disk->random = disk->random * 6364136223846793005u + 1442695040888963407u;
    to[i] = (uint8_t)(disk->random >> 56);
  }
}

bool disk_is_mutant(const char *rule) {
  static const char *mutant;
  if (!mutant) mutant = getenv("COLFAM_MUTANT");
  if (!mutant) mutant = "none";
  return strcmp(mutant, rule) == 0;
}

/* ---- What is logged */

static struct disk_op *log_op(struct disk *disk, enum disk_op_kind kind, size_t file,
                              const char *name) {
  disk->ops = grown(disk->ops, disk->op_count, sizeof *disk->ops);
  struct disk_op *op = &disk->ops[disk->op_count++];
  *op = (struct disk_op){.kind = kind, .file = file, .name = name ? must(strdup(name)) : NULL};
  return op;
}

void disk_mark(struct disk *disk, size_t which, uint64_t value) {
  log_op(disk, DISK_MARK, which, NULL)->offset = value;
}

struct disk_file *disk_create(struct disk *disk, const char *name, bool is_dir) {
  struct disk_file *file = add_file(disk, is_dir);
  add_entry(disk, name, file);
  log_op(disk, DISK_LINK, file->number, name)->size = is_dir;
  return file;
}

void disk_remove(struct disk *disk, const char *name) {
  struct disk_entry *entry = find_entry(disk, name);
  log_op(disk, DISK_UNLINK, entry->file->number, name);
  drop_entry(disk, entry);
}

void disk_rename(struct disk *disk, const char *from, const char *to) {
  struct disk_file *file = disk_find(disk, from);
  add_entry(disk, to, file);
  log_op(disk, DISK_LINK, file->number, to)->size = file->is_dir;
  disk_remove(disk, from);
}

void disk_write(struct disk *disk, struct disk_file *file, uint64_t offset, const void *bytes,
                size_t size) {
  disk_image_write(&file->image, offset, bytes, size);
  if (!disk || size == 0) return;
  struct disk_op *op = log_op(disk, DISK_WRITE, file->number, NULL);
  op->offset = offset;
  op->size = size;
  op->bytes = must(malloc(size));
  memcpy(op->bytes, bytes, size);
}

void disk_truncate(struct disk *disk, struct disk_file *file, uint64_t size) {
  disk_image_resize(&file->image, size);
  if (disk) log_op(disk, DISK_TRUNCATE, file->number, NULL)->offset = size;
}

void disk_sync(struct disk *disk, const struct disk_file *file) {
  if (disk) log_op(disk, DISK_SYNC, file->number, NULL);
}

void disk_sync_dir(struct disk *disk, const char *name) {
  log_op(disk, DISK_SYNC_DIR, 0, name);
}
