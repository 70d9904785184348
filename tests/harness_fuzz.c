/* See harness_fuzz.h. */
#include "harness_fuzz.h"

#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Assertions: fuzz targets are linked with --wrap for what Check's macros call */

void __wrap__mark_point(const char *file, int line);
void __wrap__ck_assert_failed(const char *file, int line, const char *expr, const char *text, ...);

void __wrap__mark_point(const char *file, int line) {
  (void)file, (void)line;
}

void __wrap__ck_assert_failed(const char *file, int line, const char *expr, const char *text, ...) {
  fprintf(stderr, "%s:%d: %s", file, line, expr);
  if (text) {
    va_list args;
    va_start(args, text);
    fputs(": ", stderr);
    vfprintf(stderr, text, args);
    va_end(args);
  }
  fputc('\n', stderr);
  abort();
}

/* ---- Taking */

struct fuzz fuzz_begin(const uint8_t *data, size_t size) {
  return (struct fuzz){data, size ? data + size : data};
}

size_t fuzz_left(const struct fuzz *in) {
  return (size_t)(in->end - in->pos);
}

uint8_t fuzz_byte(struct fuzz *in) {
  return in->pos < in->end ? *in->pos++ : 0;
}

uint64_t fuzz_number(struct fuzz *in, int bytes) {
  uint64_t number = 0;
  for (int i = 0; i < bytes; i++) number |= (uint64_t)fuzz_byte(in) << (8 * i);
  return number;
}

size_t fuzz_below(struct fuzz *in, size_t bound) {
  return (size_t)fuzz_number(in, bound > 256 ? 4 : 1) % bound;
}

static struct kv_slice take(struct fuzz *in, size_t size) {
  if (size > fuzz_left(in)) size = fuzz_left(in);
  struct kv_slice bytes = kv_slice_of(in->pos, size);
  if (size) in->pos += size;
  return bytes;
}

struct kv_slice fuzz_slice(struct fuzz *in) {
  return take(in, fuzz_byte(in));
}

struct kv_slice fuzz_rest(struct fuzz *in) {
  return take(in, fuzz_left(in));
}

/* ---- Values */

static const int64_t integers[] = {0,
                                   1,
                                   -1,
                                   255,
                                   1LL << 31,
                                   1LL << 53,
                                   (1LL << 53) + 1,
                                   -(1LL << 53) - 1,
                                   INT64_MAX,
                                   -INT64_MAX,
                                   INT64_MIN,
                                   1LL << 62,
                                   1LL << 47};
static const double reals[] = {0.0,
                               -0.0,
                               1.0,
                               -1.0,
                               0.5,
                               1e15,
                               9007199254740992.0,
                               9007199254740994.0,
                               1e300,
                               -1e300,
                               5e-324,
                               9223372036854775808.0,
                               -9223372036854775808.0,
                               9223372036854774784.0,
                               INFINITY,
                               -INFINITY};
static const char *const texts[] = {
    "",    "1",   " 1",  "1.0", "01", "1e0", "-0",  "9007199254740993",
    "abc", "ABC", "ab ", "abd", " ",  "inf", "0x1", "9223372036854775808"};
#define ONE_OF(in, items) (items)[fuzz_below((in), sizeof(items) / sizeof *(items))]

static double real_of_bits(uint64_t bits) {
  double real;
  memcpy(&real, &bits, sizeof real);
  return real;
}

static struct kv_datum real_datum(double real) {
  return (struct kv_datum){.type = isnan(real) ? KV_NULL : KV_REAL, .real = isnan(real) ? 0 : real};
}

static struct kv_datum text_datum(const char *text) {
  return (struct kv_datum){.type = KV_TEXT, .bytes = kv_slice_of(text, strlen(text))};
}

void fuzz_datum(struct fuzz *in, struct kv_datum *datum) {
  *datum = (struct kv_datum){.type = KV_NULL};
  switch (fuzz_byte(in) % 9) {
    case 0:
      break;
    case 1:
      *datum = (struct kv_datum){.type = KV_INTEGER, .integer = (int8_t)fuzz_byte(in)};
      break;
    case 2:
      *datum = (struct kv_datum){.type = KV_INTEGER, .integer = (int64_t)fuzz_number(in, 8)};
      break;
    case 3:
      *datum = (struct kv_datum){.type = KV_INTEGER, .integer = ONE_OF(in, integers)};
      break;
    case 4:
      *datum = real_datum(real_of_bits(fuzz_number(in, 8)));
      break;
    case 5:
      *datum = real_datum(ONE_OF(in, reals));
      break;
    case 6:
      *datum = (struct kv_datum){.type = KV_TEXT, .bytes = fuzz_slice(in)};
      break;
    case 7:
      *datum = (struct kv_datum){.type = KV_BLOB, .bytes = fuzz_slice(in)};
      break;
    default:
      *datum = text_datum(ONE_OF(in, texts));
  }
}

void fuzz_bind(sqlite3_stmt *stmt, int index, const struct kv_datum *datum) {
  const char *bytes = datum->bytes.size ? (const char *)datum->bytes.data : "";
  int rc = SQLITE_OK;
  switch (datum->type) {
    case KV_NULL:
      rc = sqlite3_bind_null(stmt, index);
      break;
    case KV_INTEGER:
      rc = sqlite3_bind_int64(stmt, index, datum->integer);
      break;
    case KV_REAL:
      rc = sqlite3_bind_double(stmt, index, datum->real);
      break;
    case KV_TEXT:
      rc = sqlite3_bind_text(stmt, index, bytes, (int)datum->bytes.size, SQLITE_STATIC);
      break;
    case KV_BLOB:
      rc = sqlite3_bind_blob(stmt, index, bytes, (int)datum->bytes.size, SQLITE_STATIC);
      break;
  }
  ck_assert_int_eq(rc, SQLITE_OK);
}

/* ---- Databases */

static sqlite3 *kept[2];

/* The extension's own statements go with the first try. */
static void close_kept(void) {
  for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) {
    sqlite3_stmt *stmt;
    if (sqlite3_close(kept[i]) != SQLITE_BUSY) continue;
    while ((stmt = sqlite3_next_stmt(kept[i], NULL))) sqlite3_finalize(stmt);
    sqlite3_close(kept[i]);
  }
}

void fuzz_close_at_exit(sqlite3 *db) {
  if (!kept[0]) atexit(close_kept);
  ck_assert_ptr_null(kept[1]);
  kept[kept[0] != NULL] = db;
}

/* ---- Seeds */

const char *fuzz_seed_dir;

void fuzz_put_slice(struct kv_buf *out, const void *bytes, size_t size) {
  ck_assert_uint_le(size, 255);
  kv_buf_append_byte(out, (uint8_t)size);
  kv_buf_append(out, bytes, size);
}

void fuzz_seed(struct kv_slice bytes) {
  static int count;
  char path[PATH_MAX];
  snprintf(path, sizeof path, "%s/seed-%02d", fuzz_seed_dir, count++);
  FILE *file = fopen(path, "wb");
  ck_assert_msg(file && fwrite(bytes.data, 1, bytes.size, file) == bytes.size, "%s", path);
  ck_assert_int_eq(fclose(file), 0);
}
