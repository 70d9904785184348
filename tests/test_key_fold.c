/* Folding: what is left of a text when its collation has compared. The order of folded keys is in test_key.c,
** and against SQLite's own functions in core_row.c. */
#include "harness.h"
#include "key.h"

static void assert_folds(kv_collation collation, const char *text, size_t size, const char *folded,
                         size_t folded_size) {
  struct kv_slice original = kv_slice_of(text, size), expected = kv_slice_of(folded, folded_size);
  struct kv_datum value = (struct kv_datum){.type = KV_TEXT, .bytes = original};
  struct kv_buf key;
  kv_buf_init(&key);
  kv_key_append(&key, (struct kv_key_part){.last = true, .collation = collation}, &value);
  ck_assert(kv_slice_equal(kv_slice_of(key.data + 1, key.size - 1), expected));
  ck_assert(kv_text_is_folded(collation, expected));
  ck_assert_int_eq(kv_text_is_folded(collation, original), kv_slice_equal(original, expected));
  kv_buf_release(&key);
}

START_TEST(texts_are_folded_to_what_their_collation_compares) {
  assert_folds(KV_NOCASE, "aZ@[`{9", 7, "az@[`{9", 7);
  assert_folds(KV_NOCASE, "\xc3\x84\xff", 3, "\xc3\x84\xff", 3);
  assert_folds(KV_NOCASE, "A\0Bc", 4, "a\0\0\0", 4);
  assert_folds(KV_NOCASE, "A ", 2, "a ", 2);
  assert_folds(KV_NOCASE, "", 0, "", 0);
  assert_folds(KV_RTRIM, " A  b\t  ", 8, " A  b\t", 6);
  assert_folds(KV_RTRIM, "a\0 ", 3, "a\0", 2);
  assert_folds(KV_RTRIM, "   ", 3, "", 0);
  assert_folds(KV_BINARY, "A\0B ", 4, "A\0B ", 4);
}
END_TEST

static void assert_encodes(struct kv_key_part part, kv_type type, const char *bytes, size_t size,
                           const char *expected, size_t expected_size) {
  struct kv_datum value = {.type = type, .bytes = kv_slice_of(bytes, size)};
  struct kv_buf key;
  kv_buf_init(&key);
  kv_key_append(&key, part, &value);
  ck_assert(kv_slice_equal(kv_buf_slice(&key), kv_slice_of(expected, expected_size)));
  kv_buf_release(&key);
}

START_TEST(folded_bytes_are_escaped_as_others) {
  struct kv_key_part nocase = {.collation = KV_NOCASE};
  struct kv_key_part down = {.descending = true, .last = true, .collation = KV_RTRIM};
  assert_encodes(nocase, KV_TEXT, "A\0B", 3,
                 "\x30"
                 "a\0\xff\0\xff\0\x01",
                 8);
  assert_encodes(down, KV_TEXT, "  ", 2, "\xcf\xff\xfe", 3);
  assert_encodes(nocase, KV_BLOB, "A", 1, "\x40\x41\0\x01", 4);
}
END_TEST

/* A folded text that is not ambiguous is the only one that folds to itself: tried with all short ones. */
static void check_pair(kv_collation collation, struct kv_slice a, struct kv_slice b) {
  int order = kv_text_compare(collation, a, b);
  bool alike = order == 0 && !kv_slice_equal(a, b);
  if (alike && kv_text_is_folded(collation, a) && !kv_text_is_ambiguous(collation, a))
    ck_abort_msg("collation %d: '%.3s' and '%.3s'", (int)collation, a.data, b.data);
  if ((order > 0) != (kv_text_compare(collation, b, a) < 0))
    ck_abort_msg("collation %d: '%.3s', '%.3s': order", (int)collation, a.data, b.data);
}

START_TEST(ambiguous_texts_have_others_that_fold_alike) {
  static const char alphabet[] = {'\0', ' ', 'A', 'a', '@', '1'};
  enum { COUNT = sizeof alphabet, TEXTS = COUNT * COUNT * COUNT };
  for (int i = 0; i < TEXTS * TEXTS; i++) {
    char a[3], b[3];
    for (int k = 0, x = i % TEXTS, y = i / TEXTS; k < 3; k++, x /= COUNT, y /= COUNT) {
      a[k] = alphabet[x % COUNT];
      b[k] = alphabet[y % COUNT];
    }
    check_pair((kv_collation)_i, kv_slice_of(a, 3), kv_slice_of(b, 3));
  }
}
END_TEST

START_TEST(ambiguous_texts_by_example) {
  ck_assert(!kv_text_is_ambiguous(KV_NOCASE, kv_slice_of("@[`{ 12\xc3\0", 9)));
  ck_assert(kv_text_is_ambiguous(KV_NOCASE, kv_slice_of("12\0\0", 4)));
  ck_assert(kv_text_is_ambiguous(KV_NOCASE, kv_slice_of("z", 1)));
  ck_assert(kv_text_is_ambiguous(KV_RTRIM, kv_slice_of("", 0)));
  ck_assert(!kv_text_is_ambiguous(KV_BINARY, kv_slice_of("a ", 2)));
}
END_TEST

int main(void) {
  Suite *suite = suite_create("key_fold");
  TCase *tests = tcase_create("fold");
  tcase_add_test(tests, texts_are_folded_to_what_their_collation_compares);
  tcase_add_test(tests, folded_bytes_are_escaped_as_others);
  tcase_add_loop_test(tests, ambiguous_texts_have_others_that_fold_alike, 0, 3);
  tcase_add_test(tests, ambiguous_texts_by_example);
  suite_add_tcase(suite, tests);
  return harness_run(suite);
}
