/* From the engine's statuses to SQLite's codes, and what stands in messages whatever they quote. */
#include <string.h>

#include "ext/error.h"
#include "harness.h"

START_TEST(each_status_has_its_code) {
  static const struct {
    kv_status status;
    int code;
  } codes[] = {
      {KV_OK, SQLITE_OK},
      {KV_NOMEM, SQLITE_NOMEM},
      {KV_IO, SQLITE_IOERR},
      {KV_FULL, SQLITE_FULL},
      {KV_BUSY, SQLITE_BUSY},
      {KV_CORRUPT, SQLITE_CORRUPT_VTAB},
      {KV_MISSING, SQLITE_CANTOPEN},
      {KV_MISUSE, SQLITE_MISUSE},
      {KV_CANCELED, SQLITE_INTERRUPT},
      {KV_VERSION, SQLITE_ERROR},
  };
  for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
    char *message = NULL;
    ck_assert_int_eq(colfam_code(codes[i].status), codes[i].code);
    ck_assert_int_eq(colfam_error_of(&message, NULL, codes[i].status, NULL), codes[i].code);
    ck_assert_ptr_nonnull(strstr(message, kv_status_name(codes[i].status)));
    sqlite3_free(message);
  }
}
END_TEST

START_TEST(message_names_the_table_and_takes_the_engines_text) {
  char *message = NULL;
  struct kv_err err = {0};
  ck_assert_int_eq(colfam_error_of(&message, "aux.t", KV_CORRUPT, &err), SQLITE_CORRUPT_VTAB);
  ck_assert_str_eq(message, "table aux.t: corrupt");
  kv_status status = kv_fail(&err, KV_IO, "cannot read %s", "it");
  ck_assert_int_eq(colfam_error_of(&message, "t", status, &err), SQLITE_IOERR);
  ck_assert_str_eq(message, "table t: cannot read it");
  ck_assert_int_eq(colfam_error(&message, SQLITE_BUSY, "%s, again", message), SQLITE_BUSY);
  ck_assert_str_eq(message, "table t: cannot read it, again");
  sqlite3_free(message);
}
END_TEST

/* Bytes, and what the message makes of them: characters stay, all that is none becomes question marks. */
START_TEST(message_is_utf8_whatever_it_quotes) {
  static const struct {
    const char *quoted, *shown;
  } texts[] = {
      {"a\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80z", "a\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80z"},
      {"\x7f\xc2\x80\xdf\xbf", "\x7f\xc2\x80\xdf\xbf"},
      {"\xe0\xa0\x80\xed\x9f\xbf\xee\x80\x80", "\xe0\xa0\x80\xed\x9f\xbf\xee\x80\x80"},
      {"\xf0\x90\x80\x80\xf4\x8f\xbf\xbf", "\xf0\x90\x80\x80\xf4\x8f\xbf\xbf"},
      {"\x80", "?"},                          /* alone */
      {"\xc1\xbf", "??"},                     /* longer than it must be, of two bytes */
      {"\xe0\x9f\xbf", "???"},                /* of three */
      {"\xf0\x8f\xbf\xbf", "????"},           /* of four */
      {"\xed\xa0\x80\xed\xbf\xbf", "??????"}, /* surrogates */
      {"\xf4\x90\x80\x80", "????"},           /* beyond the last character */
      {"\xf8\x88\x80\x80\x80\xff", "??????"},
      {"\xc3", "?"}, /* cut */
      {"\xe2\x82", "??"},
      {"\xf0\x9f\x98z", "???z"},
  };
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    char *message = NULL;
    ck_assert_int_eq(colfam_error(&message, SQLITE_ERROR, "%s", texts[i].quoted), SQLITE_ERROR);
    ck_assert_msg(strcmp(message, texts[i].shown) == 0, "text %zu: %s", i, message);
    sqlite3_free(message);
  }
}
END_TEST

int main(void) {
  Suite *suite = suite_create("core_error");
  TCase *tcase = tcase_create("error");
  tcase_add_test(tcase, each_status_has_its_code);
  tcase_add_test(tcase, message_names_the_table_and_takes_the_engines_text);
  tcase_add_test(tcase, message_is_utf8_whatever_it_quotes);
  suite_add_tcase(suite, tcase);
  return harness_run(suite);
}
