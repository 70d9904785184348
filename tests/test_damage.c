/* Damaged table files and log rows: every bit, every length, and what disks and people do; then hostile
** bytes under checksums that are right. Whatever it is, each read gives right data or says that the data is
** damaged, and the check finds it; memory and time are bounded.
**
**   COLFAM_SEED=n    other stores and other damage
**   COLFAM_STEPS=n   how many times a store is damaged and read: at most two thirds bit by bit and length by
**                    length, which is all of them from some 190,000 on; half of the rest at random, half
**                    resealed
**
** Every byte of a table file is covered by a checksum: there is none whose change may go unseen. Of a file
** under right checksums the check must find whatever makes a read wrong. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
#include <zstd.h>

#include "code.h"
#include "harness_victim.h"
#include "hash.h"

enum { STEPS = 12000, SMALL_KINDS = 12, SECONDS_EACH = 20, MEMORY_MIB = 96 };

static struct victim victim;
static struct victim_file
    donors[VICTIM_FILES_MAX]; /* files of another table; their bytes are libc's */
static size_t donor_count;
static struct harness_random numbers;
static uint8_t *scratch; /* the damaged file */
static size_t scratch_size;

static struct tally {
  uint64_t steps;
  uint64_t noticed;
  uint64_t harmless; /* under right checksums: nothing was wrong with it */
} tally;

static uint64_t below(uint64_t bound) {
  return harness_below(&numbers, bound);
}

static uint64_t steps_wanted(void) {
  const char *steps = getenv("COLFAM_STEPS");
  return steps ? strtoull(steps, NULL, 10) : STEPS;
}

/* A read that takes more memory than a small file can justify fails, and so the test. */
static void limit_memory(void) {
#ifndef __SANITIZE_ADDRESS__
  unsigned long pages = 0;
  FILE *statm = fopen("/proc/self/statm", "r");
  if (!statm) return;
  int read = fscanf(statm, "%lu", &pages);
  fclose(statm);
  rlim_t now = (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE);
  struct rlimit limit = {now + ((rlim_t)MEMORY_MIB << 20), RLIM_INFINITY};
  if (read == 1) ck_assert_int_eq(setrlimit(RLIMIT_AS, &limit), 0);
#endif
}

static void begin(void) {
  scratch = malloc(1 << 20);
  ck_assert_ptr_nonnull(scratch);
  tally = (struct tally){0};
}

static void end(const char *what) {
  free(scratch);
  if (getenv("COLFAM_STEPS"))
    printf("%s: %llu, noticed %llu, harmless %llu, wrong answers 0\n", what,
           (unsigned long long)tally.steps, (unsigned long long)tally.noticed,
           (unsigned long long)tally.harmless);
  fflush(stdout);
}

static void free_donors(void) {
  while (donor_count) free(donors[--donor_count].bytes.data);
}

/* The store to damage, and files of one that is gone. */
static void make_with_donors(int kind, uint64_t seed, uint64_t donor_seed) {
  victim_make(&victim, kind, donor_seed, 2);
  for (; donor_count < victim.file_count; donor_count++) {
    struct victim_file *donor = &donors[donor_count];
    *donor = victim.files[donor_count];
    donor->bytes.data = malloc(donor->bytes.size);
    ck_assert_ptr_nonnull(donor->bytes.data);
    memcpy(donor->bytes.data, victim.files[donor_count].bytes.data, donor->bytes.size);
  }
  victim_release(&victim);
  victim_make(&victim, kind, seed, 1);
}

static void take(const struct victim_file *file) {
  memcpy(scratch, file->bytes.data, file->bytes.size);
  scratch_size = file->bytes.size;
}

static bool is_same(const struct victim_file *file) {
  return scratch_size == file->bytes.size && memcmp(scratch, file->bytes.data, scratch_size) == 0;
}

static void judge(struct verdict *verdict, const char *what) {
  if (tally.steps++ % 100 == 0) alarm(SECONDS_EACH);
  victim_read(&victim, verdict);
  ck_assert_msg(!verdict->misnamed, "%s: %s: %s", victim.label, what, verdict->what);
}

/* Damage that checksums or sizes give away. */
static void expect_found(const char *what, bool is_read) {
  struct verdict verdict;
  judge(&verdict, what);
  ck_assert_msg(!verdict.wrong, "%s: %s: wrong: %s", victim.label, what, verdict.what);
  ck_assert_msg(!is_read || verdict.errors + verdict.missing > 0, "%s: %s: no read failed",
                victim.label, what);
  ck_assert_msg(verdict.problems > 0, "%s: %s: the check finds nothing", victim.label, what);
  tally.noticed++;
}

static void expect_noticed(const char *what) {
  expect_found(what, true);
}

/* What a value file has may be dead: then nobody but the check reads it. */
static bool is_read(size_t file) {
  return victim.infos[file].level != KV_LEVEL_VALUES;
}

static size_t number_of(const struct victim_file *file) {
  return (size_t)(file - victim.files);
}

static void expect_sound(void) {
  struct verdict verdict;
  judge(&verdict, "restored");
  tally.steps--;
  ck_assert_msg(!verdict.wrong && !verdict.errors && !verdict.missing && !verdict.problems,
                "%s: restored: %s", victim.label, verdict.what);
}

/* The scratch bytes instead of the file. */
static void expect_file_noticed(const struct victim_file *file, const char *what) {
  if (is_same(file)) return;
  victim_put_file(&victim, file->id, kv_slice_of(scratch, scratch_size));
  expect_found(what, is_read(number_of(file)));
  victim_put_file(&victim, file->id, kv_buf_slice(&file->bytes));
}

/* ---- Every bit, every length */

static void flip(const struct victim_file *file, size_t bit) {
  char what[60];
  snprintf(what, sizeof what, "bit %zu of byte %zu", bit % 8, bit / 8);
  take(file);
  scratch[bit / 8] ^= (uint8_t)(1 << bit % 8);
  expect_file_noticed(file, what);
}

/* Every other time the manifest says the new length too. */
static void cut(const struct victim_file *file, size_t size) {
  char what[60];
  snprintf(what, sizeof what, "cut to %zu bytes", size);
  take(file);
  scratch_size = size;
  if (size % 2) victim.infos[file - victim.files].bytes = size;
  expect_file_noticed(file, what);
  victim.infos[file - victim.files].bytes = file->bytes.size;
}

/* Every `stride`th of the bits and lengths of a file. */
static void walk_file(const struct victim_file *file, size_t *next, size_t stride) {
  size_t bits = file->bytes.size * 8, all = bits + file->bytes.size;
  for (; *next < all; *next += stride) {
    if (*next < bits)
      flip(file, *next);
    else
      cut(file, *next - bits);
  }
  *next -= all;
}

static size_t size_of_walk(uint64_t seed) {
  size_t all = 0;
  for (int kind = 0; kind < SMALL_KINDS; kind++) {
    victim_make(&victim, kind, seed, 1);
    for (size_t i = 0; i < victim.file_count; i++) all += victim.files[i].bytes.size * 9;
    victim_release(&victim);
  }
  return all;
}

/* Of all bits and lengths every how many-th. */
static size_t stride_of_walk(size_t all) {
  return all / (steps_wanted() * 2 / 3 + 1) + 1;
}

/* The share of each of the other two. */
static uint64_t steps_at_random(uint64_t seed) {
  size_t all = size_of_walk(seed * 5);
  return (steps_wanted() - all / stride_of_walk(all)) / 2;
}

START_TEST(every_bit_and_every_length) {
  uint64_t seed = harness_seed_env(1) * 5; /* a file each */
  begin();
  limit_memory();
  size_t stride = stride_of_walk(size_of_walk(seed)), next = seed % stride;
  for (int kind = 0; kind < SMALL_KINDS; kind++) {
    victim_make(&victim, kind, seed, 1);
    for (size_t i = 0; i < victim.file_count; i++) walk_file(&victim.files[i], &next, stride);
    expect_sound();
    victim_release(&victim);
  }
  end("bits and lengths");
}
END_TEST

/* ---- At random */

static void overwrite(size_t at, const void *bytes, size_t size) {
  if (at >= scratch_size) return;
  memcpy(scratch + at, bytes, size < scratch_size - at ? size : scratch_size - at);
}

static void swap_stretches(size_t left, size_t right, size_t size) {
  uint8_t kept[4096];
  if (size > sizeof kept) size = sizeof kept;
  if (left + size > right || right + size > scratch_size) return;
  memcpy(kept, scratch + left, size);
  memcpy(scratch + left, scratch + right, size);
  memcpy(scratch + right, kept, size);
}

static void swap_blocks(const struct victim_file *file) {
  const struct layout *layout = &file->layout;
  size_t left = below(layout->count), right = below(layout->count);
  if (left > right) swap_blocks(file);
  if (left >= right) return;
  const struct stretch *a = &layout->stretches[left], *b = &layout->stretches[right];
  swap_stretches(a->offset, b->offset, a->size < b->size ? a->size : b->size);
}

/* A block or a stretch of another file at the same or another place. */
static void graft(const struct victim_file *from) {
  const struct stretch *stretch = &from->layout.stretches[below(from->layout.count)];
  size_t at = below(2) ? stretch->offset : below(scratch_size);
  overwrite(at, from->bytes.data + stretch->offset, stretch->size);
}

static void become(const struct victim_file *from) {
  take(from);
}

static const struct victim_file *any_file(void) {
  return &victim.files[below(victim.file_count)];
}

static const struct victim_file *any_donor(void) {
  return &donors[below(donor_count)];
}

static void lengthen(void) {
  size_t more = 1 + below(600);
  for (size_t i = 0; i < more; i++) scratch[scratch_size++] = below(2) ? 0 : (uint8_t)below(256);
}

static void zero_sector(void) {
  size_t size = (size_t)64 << below(4), at = below(scratch_size / size + 1) * size;
  if (at < scratch_size)
    memset(scratch + at, 0, size < scratch_size - at ? size : scratch_size - at);
}

static void burst(void) {
  size_t at = below(scratch_size), size = 1 + below(40);
  for (size_t i = 0; i < size && at + i < scratch_size; i++) scratch[at + i] = (uint8_t)below(256);
}

static const char *damage_file(const struct victim_file *file) {
  take(file);
  switch (below(12)) {
    case 0:
      return zero_sector(), "a sector of zeros";
    case 1:
      return swap_stretches(below(scratch_size / 2), below(scratch_size), 1 + below(8)),
             "bytes swapped";
    case 2:
      return swap_stretches(below(scratch_size / 2), below(scratch_size), 1 + below(512)),
             "stretches swapped";
    case 3:
      return swap_blocks(file), "blocks swapped";
    case 4:
      return graft(any_file()), "a block of this table";
    case 5:
      return graft(any_donor()), "a block of another table";
    case 6:
      return become(any_file()), "another file of this table";
    case 7:
      return become(any_donor()), "a file of another table";
    case 8:
      return lengthen(), "longer";
    case 9:
      return scratch_size = below(scratch_size), lengthen(), "another tail";
    case 10:
      return burst(), burst(), "two bursts";
    default:
      return burst(), "a burst";
  }
}

/* Two files of the table change places, names and all. */
static void swap_files(void) {
  const struct victim_file *a = any_file(), *b = any_file();
  if (a == b) return;
  victim_put_file(&victim, a->id, kv_buf_slice(&b->bytes));
  victim_put_file(&victim, b->id, kv_buf_slice(&a->bytes));
  expect_found("files swapped", is_read(number_of(a)) || is_read(number_of(b)));
  victim_restore(&victim);
}

static void lose_file(void) {
  const struct victim_file *file = any_file();
  victim_put_file(&victim, file->id, (struct kv_slice){0});
  expect_found("no file", is_read(number_of(file)));
  victim_put_file(&victim, file->id, kv_buf_slice(&file->bytes));
}

/* The newest live log row changed or cut; it has a checksum of its own. */
static void damage_log(bool reseal) {
  struct catalog *catalog = &victim.store.catalog;
  if (catalog->log.last_seq == catalog->log.flushed_seq) return;
  uint64_t seq =
      catalog->log.flushed_seq + 1 + below(catalog->log.last_seq - catalog->log.flushed_seq);
  struct kv_log_row *row = &catalog->rows[seq - 1];
  struct kv_slice sound = row->batch;
  memcpy(scratch, sound.data, sound.size);
  scratch_size = sound.size;
  if (below(3) == 0) scratch_size = below(sound.size + 1);
  if (scratch_size == sound.size) scratch[below(sound.size)] ^= (uint8_t)(1 << below(8));
  if (reseal && scratch_size >= 8)
    kv_put_u64(scratch + scratch_size - 8, kv_hash_seeded(kv_slice_of(scratch, scratch_size - 8),
                                                          kv_hash_place(catalog->uuid, seq, 0)));
  row->batch = kv_slice_of(scratch, scratch_size);
  struct verdict verdict;
  if (reseal)
    judge(&verdict, "a log row under its checksum");
  else if (scratch_size != sound.size || memcmp(scratch, sound.data, sound.size))
    expect_noticed("a log row");
  row->batch = sound;
}

/* One number of the manifest, or a row. */
static void damage_manifest(void) {
  size_t number = below(victim.info_count);
  struct kv_file_info *info = &victim.infos[number];
  uint64_t *fields[] = {&info->id,      &info->bytes,      &info->seq,
                        &info->entries, &info->tombstones, &info->checksum};
  static const uint64_t extremes[] = {0, 1, UINT32_MAX, INT64_MAX, (uint64_t)1 << 40};
  uint64_t *field = fields[below(6)], sound = *field;
  *field = below(2) ? extremes[below(5)] : sound + 1 - 2 * below(2);
  /* a run that is moved to a free place among the others is for the manifest's seal to notice */
  if (*field != sound && field != &info->seq)
    expect_found("a number of the manifest", is_read(number));
  *field = sound;
}

static void damage_once(void) {
  switch (below(16)) {
    case 0:
      return swap_files();
    case 1:
      return lose_file();
    case 2:
    case 3:
      return damage_log(false);
    case 4:
      return damage_manifest();
    default:
      break;
  }
  const struct victim_file *file = any_file();
  const char *what = damage_file(file);
  expect_file_noticed(file, what);
}

/* `steps` of it, shared among stores of all kinds. */
static void on_all_kinds(uint64_t seed, uint64_t steps, void (*once)(void)) {
  for (int kind = 0; kind < VICTIM_KINDS; kind++) {
    make_with_donors(kind, seed, seed);
    while (tally.steps < steps * (uint64_t)(kind + 1) / VICTIM_KINDS) once();
    expect_sound();
    free_donors();
    victim_release(&victim);
  }
}

START_TEST(random_damage) {
  uint64_t seed = harness_seed_env(1);
  harness_seed(&numbers, seed);
  begin();
  limit_memory();
  on_all_kinds(seed, steps_at_random(seed), damage_once);
  end("random damage");
}
END_TEST

/* ---- Under right checksums */

/* Numbers that sizes and counts must be held against. */
static void put_number(size_t at) {
  static const uint64_t extremes[] = {0,          1,          0x7f,       0x80,      0xffff,
                                      0x7fffffff, 0x80000000, 0xffffffff, INT64_MAX, UINT64_MAX};
  uint8_t bytes[16] = {0};
  uint64_t number = below(3) ? extremes[below(10)] : below(3000);
  size_t size = below(2) ? 4 : 8;
  kv_put_u64(bytes, number);
  if (below(3) == 0) size = kv_put_varint(bytes, number);
  overwrite(at, bytes, size);
}

static void change_inside(size_t at) {
  switch (below(5)) {
    case 0:
      scratch[at] = (uint8_t)below(256);
      break;
    case 1:
      scratch[at] = (uint8_t)(scratch[at] + 1 - 2 * below(2));
      break;
    case 2:
      put_number(at);
      break;
    case 3:
      swap_stretches(at, at + 1 + below(16), 1 + below(16));
      break;
    default:
      scratch[at] ^= (uint8_t)(1 << below(8));
  }
}

/* A place in the file: often in a trailer, in the numbers at the end of a block, in a part or in the footer,
** which are few bytes. */
static size_t place_inside(const struct layout *layout) {
  const struct stretch *stretch = &layout->stretches[below(layout->count)];
  switch (below(5)) {
    case 0:
      return layout->footer + below(KV_TABLE_FOOTER_BYTES);
    case 1:
      return stretch->offset + stretch->size - 1 - below(stretch->size < 40 ? stretch->size : 40);
    case 2:
      stretch = &layout->stretches[layout->count - 1 - below(2)];
      return stretch->offset + below(stretch->size);
    default:
      return stretch->offset + below(stretch->size);
  }
}

/* Changes that reach into the next stretch are sealed there too. */
static void reseal_all(const struct layout *layout) {
  for (size_t i = 0; i < layout->count; i++)
    layout_reseal(layout, scratch, layout->stretches[i].offset);
}

static void change_and_reseal(void) {
  size_t at = below(victim.file_count);
  const struct victim_file *file = &victim.files[at];
  struct verdict verdict;
  if (below(12) == 0) return damage_log(true);
  take(file);
  for (uint64_t n = 1 + below(3); n > 0; n--) change_inside(place_inside(&file->layout));
  reseal_all(&file->layout);
  layout_describe(&file->layout, scratch, &victim.infos[at]);
  victim_put_file(&victim, file->id, kv_slice_of(scratch, scratch_size));
  judge(&verdict, "under right checksums");
  ck_assert_msg(!verdict.wrong || verdict.problems, "%s: wrong, and the check finds nothing: %s",
                victim.label, verdict.what);
  tally.noticed += verdict.problems > 0;
  tally.harmless += verdict.problems == 0;
  victim_restore(&victim);
}

START_TEST(hostile_bytes_under_right_checksums) {
  uint64_t seed = harness_seed_env(1);
  harness_seed(&numbers, seed * 3);
  begin();
  limit_memory();
  on_all_kinds(seed, steps_at_random(seed), change_and_reseal);
  end("right checksums");
}
END_TEST

/* The same content under the very id, sealed for it, as an older copy of the directory would bring it: only
** the manifest's checksum tells. */
START_TEST(another_file_sealed_for_this_very_name) {
  begin();
  for (int kind = 0; kind < VICTIM_KINDS; kind++) {
    make_with_donors(kind, 1, 2);
    const struct victim_file *file = any_file(), *from = any_donor();
    struct layout layout = from->layout;
    take(from);
    layout.place = file->layout.place;
    memcpy(scratch + layout.footer + 72, layout.place.uuid, 16);
    kv_put_u64(scratch + layout.footer + 88, layout.place.id);
    reseal_all(&layout);
    victim.infos[file - victim.files].bytes = scratch_size;
    victim_put_file(&victim, file->id, kv_slice_of(scratch, scratch_size));
    expect_noticed("sealed for this name");
    victim_restore(&victim);
    expect_sound();
    free_donors();
    victim_release(&victim);
  }
  end("other content, sealed");
}
END_TEST

/* ---- Bombs */

/* A file of one data block, which is what it claims to be up to the frame inside. */
static void write_bomb(const struct victim_file *file, struct kv_slice frame, uint32_t stated,
                       const struct kv_table_properties *properties) {
  struct kv_buf out, plain;
  struct kv_fence_builder fences;
  struct kv_table_footer footer = {.place = file->layout.place, .lowest_reader = 1};
  struct kv_err err;
  kv_buf_init(&out);
  kv_buf_init(&plain);
  kv_fence_builder_init(&fences);
  kv_buf_append(&out, frame.data, frame.size);
  kv_buf_append_byte(&out, 1);
  kv_buf_append_u32(&out, stated);
  uint64_t seed = kv_hash_place(footer.place.uuid, footer.place.id, 0);
  kv_buf_append_u64(&out, kv_hash_seeded(kv_buf_slice(&out), seed));
  ck_assert_int_eq(kv_fence_builder_add(&fences, properties->smallest, 0, out.size, &err), KV_OK);
  ck_assert_int_eq(kv_fence_builder_finish(&fences, &plain, &err), KV_OK);
  footer.filter.offset = footer.fences.offset = out.size;
  ck_assert_int_eq(kv_stored_append(&out, kv_buf_slice(&plain), 0, NULL, &footer.place, out.size,
                                    &footer.fences.checksum, &err),
                   KV_OK);
  footer.fences.size = out.size - footer.fences.offset;
  footer.properties.offset = out.size;
  kv_buf_clear(&plain);
  ck_assert_int_eq(kv_properties_append(&plain, properties, &err), KV_OK);
  ck_assert_int_eq(kv_stored_append(&out, kv_buf_slice(&plain), 0, NULL, &footer.place, out.size,
                                    &footer.properties.checksum, &err),
                   KV_OK);
  footer.properties.size = out.size - footer.properties.offset;
  ck_assert_int_eq(kv_footer_append(&out, &footer, &err), KV_OK);
  memcpy(scratch, out.data, out.size);
  scratch_size = out.size;
  kv_fence_builder_release(&fences);
  kv_buf_release(&plain);
  kv_buf_release(&out);
}

/* `size` zeros as a frame, which states its size or not. */
static struct kv_buf frame_of_zeros(size_t size, bool states) {
  struct kv_buf frame;
  uint8_t *zeros = calloc(1, size);
  ZSTD_CCtx *zstd = ZSTD_createCCtx();
  kv_buf_init(&frame);
  ck_assert(zeros && zstd);
  ZSTD_CCtx_setParameter(zstd, ZSTD_c_contentSizeFlag, states);
  size_t bound = ZSTD_compressBound(size);
  uint8_t *into = kv_buf_extend(&frame, bound);
  ZSTD_inBuffer in = {zeros, size, 0};
  ZSTD_outBuffer out = {into, bound, 0};
  ck_assert_uint_eq(ZSTD_compressStream2(zstd, &out, &in, ZSTD_e_end), 0);
  frame.size = out.pos;
  ZSTD_freeCCtx(zstd);
  free(zeros);
  return frame;
}

/* The frame yields `size`; the block states `stated`. */
static void drop_bomb(size_t size, size_t stated, bool states) {
  const struct victim_file *file = &victim.files[0];
  struct kv_file_info *info = &victim.infos[0];
  struct kv_table_properties properties = {.entries = info->entries,
                                           .tombstones = info->tombstones,
                                           .smallest = kv_buf_slice(&info->smallest),
                                           .largest = kv_buf_slice(&info->largest),
                                           .comparator = kv_slice_of("bytewise", 8)};
  struct kv_buf frame = frame_of_zeros(size, states);
  write_bomb(file, kv_buf_slice(&frame), (uint32_t)stated, &properties);
  info->bytes = scratch_size;
  info->checksum = kv_get_u64(scratch + scratch_size - 16);
  victim_put_file(&victim, file->id, kv_slice_of(scratch, scratch_size));
  limit_memory();
  expect_noticed("a bomb");
  struct rlimit none = {RLIM_INFINITY, RLIM_INFINITY};
  ck_assert_int_eq(setrlimit(RLIMIT_AS, &none), 0);
  kv_buf_release(&frame);
  victim_restore(&victim);
}

START_TEST(frames_that_yield_more_than_they_may) {
  static const size_t sizes[] = {1, 1000, 65536, 200 << 20};
  begin();
  victim_make(&victim, 0, 5, 1);
  for (size_t i = 0; i < 4; i++)
    for (size_t k = 0; k < 4; k++)
      for (int states = 0; states < 2; states++) drop_bomb(sizes[i], sizes[k], states);
  expect_sound();
  victim_release(&victim);
  end("bombs");
}
END_TEST

int main(void) {
  Suite *suite = suite_create("test_damage");
  TCase *tc = tcase_create("damage");
  tcase_set_timeout(tc, 3600);
  tcase_add_test(tc, every_bit_and_every_length);
  tcase_add_test(tc, random_damage);
  tcase_add_test(tc, hostile_bytes_under_right_checksums);
  tcase_add_test(tc, another_file_sealed_for_this_very_name);
  tcase_add_test(tc, frames_that_yield_more_than_they_may);
  suite_add_tcase(suite, tc);
  return harness_run(suite);
}
