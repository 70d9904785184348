/* Statuses and error text. */
#include "status.h"

#include <string.h>

#include "harness.h"

START_TEST(fail_writes_text_and_returns_status) {
  struct kv_err err;
  kv_status status = kv_fail(&err, KV_CORRUPT, "file %016llx: block at %d", 0xabcULL, 7);
  ck_assert_int_eq(status, KV_CORRUPT);
  ck_assert_int_eq(err.status, KV_CORRUPT);
  ck_assert_str_eq(err.text, "file 0000000000000abc: block at 7");
}
END_TEST

START_TEST(fail_without_buffer_returns_status) {
  ck_assert_int_eq(kv_fail(NULL, KV_BUSY, "nobody %s", "reads this"), KV_BUSY);
  ck_assert_int_eq(kv_fail_nomem(NULL), KV_NOMEM);
}
END_TEST

START_TEST(fail_replaces_earlier_failure) {
  struct kv_err err;
  ck_assert_int_eq(kv_fail(&err, KV_IO, "a long first text"), KV_IO);
  ck_assert_int_eq(kv_fail(&err, KV_FULL, "second"), KV_FULL);
  ck_assert_int_eq(err.status, KV_FULL);
  ck_assert_str_eq(err.text, "second");
}
END_TEST

START_TEST(fail_nomem_has_text) {
  struct kv_err err;
  ck_assert_int_eq(kv_fail_nomem(&err), KV_NOMEM);
  ck_assert_int_eq(err.status, KV_NOMEM);
  ck_assert_str_eq(err.text, "out of memory");
}
END_TEST

START_TEST(long_text_is_cut_and_terminated) {
  struct kv_err err;
  char text[2000];
  memset(text, 'x', sizeof text - 1);
  text[sizeof text - 1] = '\0';
  ck_assert_int_eq(kv_fail(&err, KV_IO, "%s", text), KV_IO);
  ck_assert_uint_eq(strlen(err.text), sizeof err.text - 1);
}
END_TEST

START_TEST(text_that_just_fits_is_whole) {
  struct kv_err err;
  char text[sizeof err.text];
  memset(text, 'x', sizeof text - 1);
  text[sizeof text - 1] = '\0';
  ck_assert_int_eq(kv_fail(&err, KV_IO, "%s", text), KV_IO);
  ck_assert_str_eq(err.text, text);
}
END_TEST

/* Characters of 2, 3 and 4 bytes, at every position relative to the end of the buffer. */
START_TEST(long_text_is_cut_between_characters) {
  static const char *const characters[] = {"\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x98\x80"};
  const char *character = characters[_i];
  size_t width = strlen(character);
  for (size_t shift = 0; shift < width; shift++) {
    char text[1000] = "";
    for (size_t i = 0; i < shift; i++) strcat(text, "x");
    while (strlen(text) < 600) strcat(text, character);
    struct kv_err err;
    ck_assert_int_eq(kv_fail(&err, KV_IO, "%s", text), KV_IO);
    size_t size = strlen(err.text);
    ck_assert_uint_eq((size - shift) % width, 0);
    ck_assert_uint_gt(size + width, sizeof err.text - 1);
    ck_assert(!memcmp(err.text, text, size));
  }
}
END_TEST

START_TEST(cut_of_stray_continuation_bytes_stays_inside) {
  struct kv_err err;
  char text[1000];
  memset(text, 0x80, sizeof text - 1);
  text[sizeof text - 1] = '\0';
  ck_assert_int_eq(kv_fail(&err, KV_IO, "%s", text), KV_IO);
  ck_assert_uint_lt(strlen(err.text), sizeof err.text);
}
END_TEST

START_TEST(every_status_has_its_own_name) {
  for (int a = KV_OK; a <= KV_VERSION; a++) {
    const char *name = kv_status_name((kv_status)a);
    ck_assert_uint_gt(strlen(name), 1);
    ck_assert_str_ne(name, "unknown");
    for (int b = a + 1; b <= KV_VERSION; b++) ck_assert_str_ne(name, kv_status_name((kv_status)b));
  }
  ck_assert_str_eq(kv_status_name(KV_OK), "ok");
  ck_assert_str_eq(kv_status_name(KV_CORRUPT), "corrupt");
  ck_assert_str_eq(kv_status_name((kv_status)(KV_VERSION + 1)), "unknown");
}
END_TEST

int main(void) {
  Suite *suite = suite_create("status");
  TCase *tests = tcase_create("status");
  tcase_add_test(tests, fail_writes_text_and_returns_status);
  tcase_add_test(tests, fail_without_buffer_returns_status);
  tcase_add_test(tests, fail_replaces_earlier_failure);
  tcase_add_test(tests, fail_nomem_has_text);
  tcase_add_test(tests, long_text_is_cut_and_terminated);
  tcase_add_test(tests, text_that_just_fits_is_whole);
  tcase_add_loop_test(tests, long_text_is_cut_between_characters, 0, 3);
  tcase_add_test(tests, cut_of_stray_continuation_bytes_stays_inside);
  tcase_add_test(tests, every_status_has_its_own_name);
  suite_add_tcase(suite, tests);
  return harness_run(suite);
}
