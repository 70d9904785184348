/* Salvage: each block of each file damaged in turn, files lost, log rows damaged or gone. Whatever a get
** can still read is brought over; no certain row is other than the model's; what may be older than it was
** is marked; the survey names every key that is lost. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness_victim.h"
#include "hash.h"
#include "mem.h"

static struct victim victim;

static void must(kv_status status, const struct kv_err *err) {
  if (status != KV_OK) ck_abort_msg("%s: %s: %s", victim.label, kv_status_name(status), err->text);
}

/* What came of each key. */
enum fate { ABSENT, CERTAIN, DOUBTFUL };
static enum fate fates[VICTIM_KEYS];
static unsigned doubtful, certain;

static size_t key_number(struct kv_slice key) {
  size_t i = 0;
  while (i < VICTIM_KEYS && !kv_slice_equal(kv_buf_slice(&victim.keys[i]), key)) i++;
  ck_assert_uint_lt(i, VICTIM_KEYS);
  return i;
}

static bool is_models(size_t key, struct kv_slice value) {
  return victim.there[key] && kv_slice_equal(value, kv_buf_slice(&victim.values[key]));
}

static void note_row(const struct kv_salvaged *row, int *last, const char *what) {
  int key = (int)key_number(row->key);
  ck_assert_msg(key > *last, "%s: %s: key %d after key %d", victim.label, what, key, *last);
  *last = key;
  fates[key] = row->doubtful ? DOUBTFUL : CERTAIN;
  if (row->doubtful)
    doubtful++;
  else
    certain++;
  ck_assert_msg(row->doubtful || is_models((size_t)key, row->value),
                "%s: %s: key %d is certain and wrong", victim.label, what, key);
}

/* The allocation of the salvage that fails, and whether all later ones do; 0: none. */
static uint64_t failing;
static int failing_sticky;

static kv_status salvage_all(struct kv_family *family, bool files_doubtful, const char *what,
                             struct kv_err *err) {
  struct catalog_snapshot snapshot;
  struct kv_salvage *salvage;
  catalog_take(&victim.store.catalog, &snapshot);
  struct kv_snapshot state = snapshot.state;
  state.files = victim.infos;
  state.file_count = victim.info_count;
  struct kv_log_source source = catalog_source(&snapshot);
  struct kv_salvage_input input = {family, &state, &source, files_doubtful};
  memset(fates, 0, sizeof fates);
  int last = -1;
  bool found = true;
  kv_mem_fail_nth(failing, failing_sticky);
  kv_status status = kv_salvage_open(&input, &salvage, err);
  while (!status && found) {
    struct kv_salvaged row;
    status = kv_salvage_next(salvage, &found, &row, err);
    if (!status && found) note_row(&row, &last, what);
  }
  kv_salvage_free(salvage);
  kv_mem_fail_nth(0, 0);
  catalog_drop(&snapshot);
  return status;
}

static struct kv_family *new_family(void) {
  struct kv_family *family;
  struct kv_err err;
  must(kv_family_new(&victim.store.config, &family, &err), &err);
  return family;
}

static void salvage(const char *what) {
  struct kv_err err;
  struct kv_family *family = new_family();
  must(salvage_all(family, false, what, &err), &err);
  kv_family_unref(family);
}

static struct kv_view *view_of(struct kv_family *family, kv_status *status) {
  struct catalog_snapshot snapshot;
  struct kv_view *view = NULL;
  struct kv_err err;
  catalog_take(&victim.store.catalog, &snapshot);
  struct kv_log_source source = catalog_source(&snapshot);
  *status = kv_view_new(family, &snapshot.state, &source, &view, &err);
  catalog_drop(&snapshot);
  return view;
}

/* What the survey says is lost. */
struct survey {
  bool lost[VICTIM_KEYS];
  uint64_t entries;
  int stretches;
};

static kv_status note_lost(void *ctx, const struct kv_lost *lost) {
  struct survey *survey = ctx;
  survey->stretches++;
  survey->entries = lost->entries;
  for (size_t i = 0; i < VICTIM_KEYS; i++) {
    struct kv_slice key = kv_buf_slice(&victim.keys[i]);
    int order = kv_slice_compare(key, lost->upper);
    bool below = lost->closed ? order <= 0 : order < 0;
    if (kv_slice_compare(key, lost->lower) >= 0 && below) survey->lost[i] = true;
  }
  return KV_OK;
}

/* Gets and salvage agree on each key. */
static void compare_with_gets(const char *what) {
  kv_status status;
  struct survey survey = {.stretches = 0};
  struct kv_family *family = new_family();
  struct kv_view *view = view_of(family, &status);
  struct kv_err err;
  ck_assert_int_eq(status, KV_OK);
  must(kv_survey(view, note_lost, &survey, &err), &err);
  for (size_t i = 0; i < VICTIM_KEYS; i++) {
    struct kv_value value;
    memset(&value, 0, sizeof value);
    status = kv_get(view, NULL, kv_buf_slice(&victim.keys[i]), &value, &err);
    enum fate fate = fates[i];
    bool right = status ? fate != CERTAIN : fate == (value.found ? CERTAIN : ABSENT);
    ck_assert_msg(right, "%s: %s: key %zu: get says %s, salvage %d", victim.label, what, i,
                  kv_status_name(status), fate);
    ck_assert_msg(!status || survey.lost[i], "%s: %s: key %zu is not named as lost", victim.label,
                  what, i);
    kv_value_release(&value);
  }
  kv_view_unref(view);
  kv_family_unref(family);
}

static void damage_stretch(const struct victim_file *file, size_t number) {
  const struct stretch *stretch = &file->layout.stretches[number];
  struct kv_buf bytes;
  char what[80];
  snprintf(what, sizeof what, "part %zu of file %016llx", number, (unsigned long long)file->id);
  kv_buf_init(&bytes);
  kv_buf_append(&bytes, file->bytes.data, file->bytes.size);
  bytes.data[stretch->offset + stretch->size / 2] ^= 0x20;
  victim_put_file(&victim, file->id, kv_buf_slice(&bytes));
  salvage(what);
  compare_with_gets(what);
  victim_put_file(&victim, file->id, kv_buf_slice(&file->bytes));
  kv_buf_release(&bytes);
}

static void lose_file(const struct victim_file *file) {
  victim_put_file(&victim, file->id, (struct kv_slice){0});
  salvage("a lost file");
  compare_with_gets("a lost file");
  victim_put_file(&victim, file->id, kv_buf_slice(&file->bytes));
}

START_TEST(each_block_damaged_in_turn) {
  for (uint64_t seed = 1; seed < 6; seed++) {
    victim_make(&victim, _i, seed, 1);
    salvage("sound");
    compare_with_gets("sound");
    for (size_t i = 0; i < VICTIM_KEYS; i++)
      ck_assert_int_eq(fates[i], victim.there[i] ? CERTAIN : ABSENT);
    for (size_t i = 0; i < victim.file_count; i++) {
      for (size_t k = 0; k < victim.files[i].layout.count; k++) damage_stretch(&victim.files[i], k);
      lose_file(&victim.files[i]);
    }
    victim_release(&victim);
  }
}
END_TEST

/* Several at a time, which make holes beside each other and over each other. */
START_TEST(many_blocks_damaged) {
  struct harness_random random;
  harness_seed(&random, harness_seed_env(1) + (uint64_t)_i);
  victim_make(&victim, _i, harness_seed_env(1), 1);
  for (int round = 0; round < 60; round++) {
    for (size_t i = 0; i < victim.file_count; i++) {
      const struct victim_file *file = &victim.files[i];
      struct kv_buf bytes;
      kv_buf_init(&bytes);
      kv_buf_append(&bytes, file->bytes.data, file->bytes.size);
      for (uint64_t n = harness_below(&random, 4); n > 0; n--) {
        const struct stretch *stretch =
            &file->layout.stretches[harness_below(&random, file->layout.count)];
        bytes.data[stretch->offset + harness_below(&random, stretch->size)] ^= 4;
      }
      victim_put_file(&victim, file->id, kv_buf_slice(&bytes));
      kv_buf_release(&bytes);
    }
    salvage("many");
    compare_with_gets("many");
    victim_restore(&victim);
  }
  victim_release(&victim);
}
END_TEST

/* ---- The log */

static void expect_newer_rows(uint64_t damaged, const char *what) {
  const struct catalog *catalog = &victim.store.catalog;
  for (uint64_t seq = catalog->log.last_seq; seq > damaged; seq--) {
    const struct kv_log_row *row = &catalog->rows[seq - 1];
    struct kv_batch_reader reader;
    struct kv_err err;
    kv_status status;
    must(kv_batch_reader_init(&reader, row->batch, catalog->uuid, seq, &err), &err);
    while (kv_batch_reader_next(&reader, &status, &err)) {
      size_t key = key_number(reader.key);
      ck_assert_msg(fates[key] == (victim.there[key] ? CERTAIN : ABSENT), "%s: %s: key %zu",
                    victim.label, what, key);
    }
  }
}

/* Rows newer than the damaged one are certain, all others are not. */
START_TEST(log_row_damaged) {
  victim_make(&victim, 12 + _i, 2, 1);
  struct catalog *catalog = &victim.store.catalog;
  for (uint64_t seq = catalog->log.flushed_seq + 1; seq <= catalog->log.last_seq; seq++) {
    struct kv_log_row *row = &catalog->rows[seq - 1];
    struct kv_slice sound = row->batch;
    uint8_t *bytes = malloc(sound.size);
    memcpy(bytes, sound.data, sound.size);
    bytes[sound.size / 2] ^= 1;
    row->batch = kv_slice_of(bytes, sound.size);
    certain = doubtful = 0;
    salvage("a damaged log row");
    ck_assert_uint_gt(doubtful, 0);
    row->batch = sound;
    free(bytes);
    expect_newer_rows(seq, "a damaged log row");
  }
  victim_release(&victim);
}
END_TEST

START_TEST(log_row_gone) {
  victim_make(&victim, 12 + _i, 2, 1);
  struct catalog *catalog = &victim.store.catalog;
  uint64_t seq = catalog->log.flushed_seq + 1;
  uint64_t purged = catalog->purged_seq;
  catalog->purged_seq = seq; /* the first live row is not there */
  salvage("a log row gone");
  expect_newer_rows(seq, "a log row gone");
  catalog->purged_seq = catalog->log.last_seq; /* none is */
  certain = 0;
  salvage("no log");
  ck_assert_uint_eq(certain, 0);
  catalog->purged_seq = purged;
  victim_release(&victim);
}
END_TEST

START_TEST(files_that_a_manifest_may_lack_make_files_doubtful) {
  struct kv_err err;
  victim_make(&victim, 12 + _i, 2, 1);
  struct kv_family *family = new_family();
  certain = doubtful = 0;
  must(salvage_all(family, true, "a doubtful manifest", &err), &err);
  expect_newer_rows(victim.store.catalog.log.flushed_seq, "a doubtful manifest");
  ck_assert_uint_gt(doubtful, 0);
  ck_assert_uint_gt(certain, 0);
  kv_family_unref(family);
  victim_release(&victim);
}
END_TEST

START_TEST(every_allocation_failing) {
  victim_make(&victim, 17, 3, 1);
  const struct victim_file *file = &victim.files[0];
  struct kv_buf bytes;
  kv_buf_init(&bytes);
  kv_buf_append(&bytes, file->bytes.data, file->bytes.size);
  bytes.data[3] ^= 1;
  victim_put_file(&victim, file->id, kv_buf_slice(&bytes));
  for (int sticky = 0; sticky < 2; sticky++) {
    kv_status status = KV_NOMEM;
    failing_sticky = sticky;
    for (failing = 1; status == KV_NOMEM; failing++) {
      struct kv_err err;
      struct kv_family *family = new_family();
      status = salvage_all(family, false, "no memory", &err);
      ck_assert_msg(status == KV_OK || status == KV_NOMEM, "allocation %llu: %s",
                    (unsigned long long)failing, kv_status_name(status));
      kv_family_unref(family);
    }
  }
  kv_buf_release(&bytes);
  failing = 0;
  victim_release(&victim); /* nothing is left over */
}
END_TEST

int main(void) {
  Suite *suite = suite_create("test_salvage");
  TCase *tc = tcase_create("salvage");
  tcase_set_timeout(tc, 60);
  tcase_add_loop_test(tc, each_block_damaged_in_turn, 0, VICTIM_KINDS);
  tcase_add_loop_test(tc, many_blocks_damaged, 0, VICTIM_KINDS);
  tcase_add_loop_test(tc, log_row_damaged, 0, 4);
  tcase_add_loop_test(tc, log_row_gone, 0, 4);
  tcase_add_loop_test(tc, files_that_a_manifest_may_lack_make_files_doubtful, 0, 4);
  tcase_add_test(tc, every_allocation_failing);
  suite_add_tcase(suite, tc);
  return harness_run(suite);
}
