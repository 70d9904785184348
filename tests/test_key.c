/* Keys: their order, their equality, and decoding of what is no key. */
#include "key.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

#include "harness.h"
#include "mem.h"

enum { COLUMNS_MAX = 3, BYTES_MAX = 8 };

/* A value that owns its bytes. */
struct sample {
  struct kv_datum datum;
  uint8_t bytes[BYTES_MAX];
};

struct row {
  size_t n;
  struct sample columns[COLUMNS_MAX];
};

static const int64_t odd_integers[] = {
    0,
    1,
    -1,
    2,
    255,
    256,
    -256,
    1000000,
    1LL << 31,
    1LL << 32,
    1LL << 52,
    1LL << 53,
    1LL << 54,
    1LL << 62,
    INT64_MAX,
    INT64_MIN,
    -(1LL << 52),
    -(1LL << 53),
    -(1LL << 54),
    -(1LL << 62),
    INT64_MAX - 1023,
    INT64_MAX - 511,
    INT64_MIN + 1024,
};

static const double odd_reals[] = {
    0.0,
    -0.0,
    0.5,
    -0.5,
    1.0,
    -1.0,
    1.5,
    0x1p52,
    0x1p53,
    0x1p54,
    0x1p62,
    0x1p63,
    0x1p64,
    -0x1p53,
    -0x1p62,
    -0x1p63,
    -0x1p64,
    INFINITY,
    -INFINITY,
    0x1p-1074,
    -0x1p-1074,
    0x1p-1022,
    1.7976931348623157e308,
    -1.7976931348623157e308,
};

/* Check's own asserts are too slow for the inner loops. */
static void expect(bool holds, const char *what, uint64_t seed) {
  if (!holds) ck_abort_msg("%s, seed %llu", what, (unsigned long long)seed);
}

#define PICK(random, array) ((array)[harness_below(random, sizeof(array) / sizeof *(array))])

static struct kv_datum integer(int64_t value) {
  return (struct kv_datum){.type = KV_INTEGER, .integer = value};
}

static struct kv_datum real(double value) {
  return (struct kv_datum){.type = KV_REAL, .real = value};
}

static struct kv_datum bytes_of(kv_type type, const char *bytes, size_t size) {
  return (struct kv_datum){.type = type, .bytes = kv_slice_of(bytes, size)};
}

static int sign(int x) {
  return (x > 0) - (x < 0);
}

/* The order of an integer and a real, by comparing whole parts and then fractions. */
static int compare_mixed(int64_t a, double b) {
  if (b >= 0x1p63) return -1;
  if (b < -0x1p63) return 1;
  double whole = trunc(b);
  int64_t as_integer = (int64_t)whole;
  if (a != as_integer) return a < as_integer ? -1 : 1;
  return (b < whole) - (b > whole);
}

static int compare_numbers(const struct kv_datum *a, const struct kv_datum *b) {
  if (a->type == KV_INTEGER && b->type == KV_INTEGER) {
    return (a->integer > b->integer) - (a->integer < b->integer);
  }
  if (a->type == KV_REAL && b->type == KV_REAL) return (a->real > b->real) - (a->real < b->real);
  if (a->type == KV_INTEGER) return compare_mixed(a->integer, b->real);
  return -compare_mixed(b->integer, a->real);
}

static int rank(kv_type type) {
  return type == KV_NULL ? 0 : type == KV_TEXT ? 2 : type == KV_BLOB ? 3 : 1;
}

/* As SQLite's function of that name goes through two texts. */
static int compare_nocase(struct kv_slice a, struct kv_slice b) {
  size_t size = a.size < b.size ? a.size : b.size;
  for (size_t i = 0; i < size; i++) {
    int x = tolower(a.data[i]), y = tolower(b.data[i]);
    if (x != y) return sign(x - y);
    if (!x) break;
  }
  return (a.size > b.size) - (a.size < b.size);
}

static struct kv_slice without_spaces(struct kv_slice text) {
  while (text.size && text.data[text.size - 1] == ' ') text.size--;
  return text;
}

static int compare_texts(kv_collation collation, struct kv_slice a, struct kv_slice b) {
  if (collation == KV_NOCASE) return compare_nocase(a, b);
  if (collation == KV_BINARY) return sign(kv_slice_compare(a, b));
  return sign(kv_slice_compare(without_spaces(a), without_spaces(b)));
}

/* SQL's order, written down plainly. */
static int compare_values(kv_collation collation, const struct kv_datum *a,
                          const struct kv_datum *b) {
  if (rank(a->type) != rank(b->type)) return rank(a->type) - rank(b->type);
  if (rank(a->type) == 1) return compare_numbers(a, b);
  if (a->type == KV_TEXT) return compare_texts(collation, a->bytes, b->bytes);
  return a->type == KV_BLOB ? sign(kv_slice_compare(a->bytes, b->bytes)) : 0;
}

static int64_t random_integer(struct harness_random *random) {
  switch (harness_below(random, 3)) {
    case 0:
      return (int64_t)(harness_next(random) >> harness_below(random, 64));
    case 1:
      return -(int64_t)(harness_next(random) >> (1 + harness_below(random, 63)));
    default:
      return (int64_t)((uint64_t)PICK(random, odd_integers) + harness_below(random, 9) - 4);
  }
}

static double random_real(struct harness_random *random) {
  double value = NAN;
  switch (harness_below(random, 4)) {
    case 0:
      return (double)random_integer(random);
    case 1:
      return (double)random_integer(random) + 0.5;
    case 2:
      value = PICK(random, odd_reals);
      break;
    default:
      while (isnan(value)) {
        uint64_t bits = harness_next(random);
        memcpy(&value, &bits, sizeof value);
      }
      return value;
  }
  uint64_t step = harness_below(random, 3);
  return step ? nextafter(value, step == 1 ? INFINITY : -INFINITY) : value;
}

static void random_bytes(struct harness_random *random, struct sample *sample) {
  static const uint8_t alphabet[] = {0x00, 0x01, 0x02, 'a', 'b', 'A', 'B', '[', ' ', 0xfe, 0xff};
  size_t size = harness_below(random, BYTES_MAX + 1);
  for (size_t i = 0; i < size; i++) sample->bytes[i] = PICK(random, alphabet);
  sample->datum.bytes.size = size;
}

static void random_sample(struct harness_random *random, struct sample *sample) {
  memset(sample, 0, sizeof *sample);
  sample->datum.type = (kv_type)(KV_NULL + harness_below(random, 5));
  if (sample->datum.type == KV_INTEGER) sample->datum.integer = random_integer(random);
  if (sample->datum.type == KV_REAL) sample->datum.real = random_real(random);
  if (sample->datum.type >= KV_TEXT) random_bytes(random, sample);
}

/* A value near another one: equal, of the other numeric type, one step away, one byte longer. */
static void neighbour(struct harness_random *random, const struct sample *of,
                      struct sample *sample) {
  *sample = *of;
  struct kv_datum *datum = &sample->datum;
  uint64_t way = harness_below(random, 4);
  if (datum->type == KV_INTEGER && way == 1) {
    *datum = real((double)datum->integer);
  } else if (datum->type == KV_INTEGER && way == 2) {
    datum->integer = (int64_t)((uint64_t)datum->integer + harness_below(random, 5) - 2);
  } else if (datum->type == KV_REAL && way == 1 && fabs(datum->real) < 0x1p63) {
    *datum = integer((int64_t)datum->real);
  } else if (datum->type == KV_REAL && way == 2) {
    datum->real = nextafter(datum->real, 0);
  } else if (datum->type >= KV_TEXT && way && datum->bytes.size < BYTES_MAX) {
    sample->bytes[datum->bytes.size++] = (uint8_t)(way == 1 ? 0 : way == 2 ? 0xff : 'a');
  } else if (way == 3) {
    random_sample(random, sample);
  }
}

/* How columns are encoded: a bit each that says descending, then two bits each for the collation. */
enum { SHAPES = 1 << 3 * COLUMNS_MAX };

static struct kv_key_part part_at(size_t column, size_t n, unsigned shape) {
  return (struct kv_key_part){
      .descending = shape >> column & 1,
      .last = column + 1 == n,
      .collation = (kv_collation)((shape >> (COLUMNS_MAX + 2 * column) & 3) % 3)};
}

static void fix_bytes(struct row *row) {
  for (size_t i = 0; i < row->n; i++) row->columns[i].datum.bytes.data = row->columns[i].bytes;
}

static void encode(struct kv_buf *key, const struct row *row, unsigned shape) {
  kv_buf_clear(key);
  for (size_t i = 0; i < row->n; i++) {
    kv_key_append(key, part_at(i, row->n, shape), &row->columns[i].datum);
  }
  expect(key->status == KV_OK, "memory", 0);
}

static int compare_rows(const struct row *a, const struct row *b, unsigned shape) {
  for (size_t i = 0; i < a->n; i++) {
    struct kv_key_part part = part_at(i, a->n, shape);
    int order = sign(compare_values(part.collation, &a->columns[i].datum, &b->columns[i].datum));
    if (order) return part.descending ? -order : order;
  }
  return 0;
}

static void random_row(struct harness_random *random, size_t n, struct row *row) {
  row->n = n;
  for (size_t i = 0; i < n; i++) random_sample(random, &row->columns[i]);
  fix_bytes(row);
}

/* With every set of descending columns and collations of one to three. */
START_TEST(order_of_bytes_is_order_of_values) {
  uint64_t seed = harness_seed_env(41);
  struct harness_random random;
  harness_seed(&random, seed);
  struct kv_buf x, y;
  kv_buf_init(&x);
  kv_buf_init(&y);
  for (int round = 0; round < 60000; round++) {
    struct row a, b;
    random_row(&random, 1 + harness_below(&random, COLUMNS_MAX), &a);
    b.n = a.n;
    for (size_t i = 0; i < a.n; i++) neighbour(&random, &a.columns[i], &b.columns[i]);
    fix_bytes(&b);
    unsigned shape = (unsigned)harness_below(&random, SHAPES);
    encode(&x, &a, shape);
    encode(&y, &b, shape);
    int by_bytes = sign(kv_slice_compare(kv_buf_slice(&x), kv_buf_slice(&y)));
    expect(by_bytes == compare_rows(&a, &b, shape), "order", seed);
  }
  kv_buf_release(&x);
  kv_buf_release(&y);
}
END_TEST

/* Every pair of all the odd numbers, their neighbours and their casts. */
START_TEST(order_holds_between_all_odd_numbers) {
  struct kv_datum all[400];
  size_t n = 0;
  for (size_t i = 0; i < sizeof odd_integers / sizeof *odd_integers; i++) {
    for (int step = -2; step <= 2; step++) {
      all[n++] = integer((int64_t)((uint64_t)odd_integers[i] + (uint64_t)(int64_t)step));
    }
    all[n++] = real((double)odd_integers[i]);
  }
  for (size_t i = 0; i < sizeof odd_reals / sizeof *odd_reals; i++) {
    all[n++] = real(odd_reals[i]);
    all[n++] = real(nextafter(odd_reals[i], INFINITY));
    all[n++] = real(nextafter(odd_reals[i], -INFINITY));
  }
  struct kv_key_part part = {.last = true};
  struct kv_buf x, y;
  kv_buf_init(&x);
  kv_buf_init(&y);
  for (size_t i = 0; i < n * n; i++) {
    kv_buf_clear(&x);
    kv_buf_clear(&y);
    kv_key_append(&x, part, &all[i / n]);
    kv_key_append(&y, part, &all[i % n]);
    int by_bytes = sign(kv_slice_compare(kv_buf_slice(&x), kv_buf_slice(&y)));
    expect(by_bytes == compare_values(KV_BINARY, &all[i / n], &all[i % n]), "order", i);
  }
  kv_buf_release(&x);
  kv_buf_release(&y);
}
END_TEST

static void assert_same_key(struct kv_datum a, struct kv_datum b, bool same) {
  struct kv_buf x, y;
  kv_buf_init(&x);
  kv_buf_init(&y);
  kv_key_append(&x, (struct kv_key_part){.last = true}, &a);
  kv_key_append(&y, (struct kv_key_part){.last = true}, &b);
  ck_assert_int_eq(kv_slice_equal(kv_buf_slice(&x), kv_buf_slice(&y)), same);
  kv_buf_release(&x);
  kv_buf_release(&y);
}

START_TEST(equal_numbers_are_equal_bytes) {
  assert_same_key(integer(1), real(1.0), true);
  assert_same_key(real(0.0), real(-0.0), true);
  assert_same_key(integer(0), real(-0.0), true);
  assert_same_key(integer(INT64_MIN), real(-0x1p63), true);
  assert_same_key(integer(INT64_MAX), real(0x1p63), false);
  assert_same_key(integer(INT64_MAX), integer(INT64_MAX - 1), false);
  assert_same_key(integer(INT64_MIN), integer(INT64_MIN + 1), false);
  assert_same_key(integer((1LL << 53) + 1), real(0x1p53), false);
  assert_same_key(integer((1LL << 53) + 1), integer((1LL << 53) + 2), false);
  assert_same_key(integer(1LL << 53), real(0x1p53), true);
  assert_same_key(integer(INT64_MAX - 1023), real(0x1p63 - 1024), true);
}
END_TEST

START_TEST(text_and_blob_of_equal_bytes_differ) {
  assert_same_key(bytes_of(KV_TEXT, "a", 1), bytes_of(KV_BLOB, "a", 1), false);
  assert_same_key(bytes_of(KV_TEXT, "", 0), (struct kv_datum){.type = KV_NULL}, false);
}
END_TEST

static void assert_encodes(struct kv_key_part part, struct kv_datum value, const char *expected,
                           size_t size) {
  struct kv_buf key;
  kv_buf_init(&key);
  kv_key_append(&key, part, &value);
  ck_assert_uint_eq(key.size, size);
  ck_assert_mem_eq(key.data, expected, size);
  kv_buf_release(&key);
}

/* The bytes on disk are a promise. */
START_TEST(encodings_are_as_documented) {
  struct kv_key_part inner = {0}, last = {.last = true}, down = {.descending = true, .last = true};
  assert_encodes(last, (struct kv_datum){.type = KV_NULL}, "\x10", 1);
  assert_encodes(last, integer(1), "\x20\xbf\xf0\0\0\0\0\0\0", 9);
  assert_encodes(last, integer(-1), "\x20\x40\x0f\xff\xff\xff\xff\xff\xff", 9);
  assert_encodes(last, real(-0.0), "\x20\x80\0\0\0\0\0\0\0", 9);
  assert_encodes(last, integer((1LL << 53) + 1), "\x20\xc3\x40\0\0\0\0\0\0\0\x01", 11);
  assert_encodes(last, integer(INT64_MAX), "\x20\xc3\xdf\xff\xff\xff\xff\xff\xff\x03\xff", 11);
  assert_encodes(last, real(INFINITY), "\x20\xff\xf0\0\0\0\0\0\0\0\0", 11);
  assert_encodes(last, bytes_of(KV_TEXT, "a\0b", 3),
                 "\x30"
                 "a\0b",
                 4);
  assert_encodes(inner, bytes_of(KV_TEXT, "a\0b", 3),
                 "\x30"
                 "a\0\xff"
                 "b\0\x01",
                 7);
  assert_encodes(inner, bytes_of(KV_BLOB, "", 0), "\x40\0\x01", 3);
  assert_encodes(down, bytes_of(KV_BLOB, "\x01", 1), "\xbf\xfe\xff\xfe", 4);
}
END_TEST

START_TEST(type_byte_is_the_first_byte) {
  struct harness_random random;
  harness_seed(&random, 5);
  struct kv_buf key;
  kv_buf_init(&key);
  for (int i = 0; i < 1000; i++) {
    struct row row;
    random_row(&random, 1, &row);
    encode(&key, &row, i & 1);
    ck_assert_uint_eq(key.data[0], kv_key_type_byte(row.columns[0].datum.type, i & 1));
  }
  ck_assert_uint_eq(kv_key_type_byte(KV_INTEGER, false), kv_key_type_byte(KV_REAL, false));
  kv_buf_release(&key);
}
END_TEST

/* Decodes a whole key; the last status. Values borrow from the key and the scratch buffers. */
static kv_status decode_all(struct kv_slice key, size_t n, unsigned shape, struct kv_buf *scratch,
                            struct kv_datum *values) {
  for (size_t i = 0; i < n; i++) {
    struct kv_err err;
    kv_buf_clear(&scratch[i]);
    struct kv_key_part part = part_at(i, n, shape);
    kv_status status = kv_key_decode(&key, part, &scratch[i], &values[i], &err);
    if (status != KV_OK) {
      expect(err.status == status, "status in err", 0);
      return status;
    }
  }
  expect(!key.size, "all decoded", 0);
  return KV_OK;
}

static void assert_decoded(kv_collation collation, const struct kv_datum *value,
                           const struct kv_datum *original) {
  expect(!compare_values(collation, value, original), "value", 0);
  bool number = rank(original->type) == 1;
  expect(number || value->type == original->type, "type", 0);
  if (value->type == KV_REAL) {
    bool fits = value->real >= -0x1p63 && value->real < 0x1p63 && value->real == trunc(value->real);
    expect(!fits, "a real that is an integer", 0);
  }
}

static void scratch_init(struct kv_buf scratch[COLUMNS_MAX]) {
  for (int i = 0; i < COLUMNS_MAX; i++) kv_buf_init(&scratch[i]);
}

static void scratch_release(struct kv_buf scratch[COLUMNS_MAX]) {
  for (int i = 0; i < COLUMNS_MAX; i++) kv_buf_release(&scratch[i]);
}

START_TEST(decode_gives_back_the_values) {
  uint64_t seed = harness_seed_env(42);
  struct harness_random random;
  harness_seed(&random, seed);
  struct kv_buf key, scratch[COLUMNS_MAX];
  kv_buf_init(&key);
  scratch_init(scratch);
  for (int round = 0; round < 30000; round++) {
    struct row row;
    struct kv_datum values[COLUMNS_MAX];
    random_row(&random, 1 + harness_below(&random, COLUMNS_MAX), &row);
    unsigned shape = (unsigned)harness_below(&random, SHAPES);
    encode(&key, &row, shape);
    kv_status status = decode_all(kv_buf_slice(&key), row.n, shape, scratch, values);
    expect(status == KV_OK, "decode", seed);
    for (size_t i = 0; i < row.n; i++)
      assert_decoded(part_at(i, row.n, shape).collation, &values[i], &row.columns[i].datum);
  }
  kv_buf_release(&key);
  scratch_release(scratch);
}
END_TEST

START_TEST(decode_borrows_plain_bytes_from_the_key) {
  struct kv_buf key, scratch;
  kv_buf_init(&key);
  kv_buf_init(&scratch);
  struct kv_datum value, plain = bytes_of(KV_TEXT, "plain", 5);
  kv_key_append(&key, (struct kv_key_part){0}, &plain);
  struct kv_slice rest = kv_buf_slice(&key);
  kv_status status = kv_key_decode(&rest, (struct kv_key_part){0}, &scratch, &value, NULL);
  ck_assert_int_eq(status, KV_OK);
  ck_assert_ptr_eq(value.bytes.data, key.data + 1);
  ck_assert_uint_eq(scratch.size, 0);
  kv_buf_release(&key);
  kv_buf_release(&scratch);
}
END_TEST

/* What decodes must be what kv_key_append gives for the decoded values. */
static void assert_canonical_or_corrupt(struct kv_slice key, size_t n, unsigned shape,
                                        struct kv_buf *scratch, uint64_t seed) {
  uint8_t *copy = kv_alloc(key.size, 1);
  expect(copy, "memory", seed);
  if (key.size) memcpy(copy, key.data, key.size);
  struct kv_datum values[COLUMNS_MAX];
  key = kv_slice_of(copy, key.size);
  kv_status status = decode_all(key, n, shape, scratch, values);
  if (status == KV_OK) {
    struct kv_buf again;
    kv_buf_init(&again);
    for (size_t i = 0; i < n; i++) {
      kv_key_append(&again, part_at(i, n, shape), &values[i]);
    }
    expect(kv_slice_equal(kv_buf_slice(&again), key), "canonical", seed);
    kv_buf_release(&again);
  } else {
    expect(status == KV_CORRUPT, "corrupt", seed);
  }
  kv_free(copy);
}

START_TEST(decode_of_flipped_and_truncated_keys_is_canonical_or_corrupt) {
  uint64_t seed = harness_seed_env(43);
  struct harness_random random;
  harness_seed(&random, seed);
  struct kv_buf key, scratch[COLUMNS_MAX];
  kv_buf_init(&key);
  scratch_init(scratch);
  for (int round = 0; round < 3000; round++) {
    struct row row;
    random_row(&random, 1 + harness_below(&random, COLUMNS_MAX), &row);
    unsigned shape = (unsigned)harness_below(&random, SHAPES);
    encode(&key, &row, shape);
    for (size_t size = 0; size <= key.size; size++) {
      struct kv_slice cut = kv_slice_of(key.data, size);
      assert_canonical_or_corrupt(cut, row.n, shape, scratch, seed);
    }
    for (size_t i = 0; i < key.size; i++) {
      uint8_t flip = (uint8_t)(1 << harness_below(&random, 8));
      key.data[i] ^= flip;
      assert_canonical_or_corrupt(kv_buf_slice(&key), row.n, shape, scratch, seed);
      key.data[i] ^= flip;
    }
  }
  kv_buf_release(&key);
  scratch_release(scratch);
}
END_TEST

START_TEST(decode_of_random_bytes_is_canonical_or_corrupt) {
  static const uint8_t alphabet[] = {0x00, 0x01, 0x10, 0x20, 0x30, 0x40, 0x43, 0xc3,
                                     0xbf, 0xcf, 0xdf, 0xef, 0xfe, 0xff, 0x03, 0x80};
  uint64_t seed = harness_seed_env(44);
  struct harness_random random;
  harness_seed(&random, seed);
  struct kv_buf scratch[COLUMNS_MAX];
  scratch_init(scratch);
  for (int round = 0; round < 100000; round++) {
    uint8_t bytes[24];
    size_t size = harness_below(&random, sizeof bytes + 1);
    for (size_t i = 0; i < size; i++) bytes[i] = PICK(&random, alphabet);
    assert_canonical_or_corrupt(kv_slice_of(bytes, size), 1 + harness_below(&random, COLUMNS_MAX),
                                (unsigned)harness_below(&random, SHAPES), scratch, seed);
  }
  scratch_release(scratch);
}
END_TEST

/* One byte string each that is nearly a key. */
static const struct {
  const char *bytes;
  size_t size;
  struct kv_key_part part;
} bad[] = {
    {"", 0, {.last = true}},
    {"\x00", 1, {.last = true}},
    {"\x10", 1, {.descending = true, .last = true}},
    {"\x10z", 2, {.last = true}},                                       /* bytes behind */
    {"\x20\xbf\xf0\0\0\0\0\0", 8, {.last = true}},                      /* short double */
    {"\x20\xbf\xf0\0\0\0\0\0\0z", 10, {.last = true}},                  /* bytes behind */
    {"\x20\x7f\xff\xff\xff\xff\xff\xff\xff", 9, {.last = true}},        /* -0.0 */
    {"\x20\xff\xf8\0\0\0\0\0\0", 9, {.last = true}},                    /* NaN */
    {"\x20\xff\xf8\0\0\0\0\0\0\0\0", 11, {.last = true}},               /* NaN with rest */
    {"\x20\x00\x07\xff\xff\xff\xff\xff\xff\0\0", 11, {.last = true}},   /* NaN, negative */
    {"\x20\xc3\x40\0\0\0\0\0\0", 9, {.last = true}},                    /* no rest */
    {"\x20\xc3\x40\0\0\0\0\0\0\0", 10, {.last = true}},                 /* half a rest */
    {"\x20\xc3\x40\0\0\0\0\0\0\0\x02", 11, {.last = true}},             /* rest is a double more */
    {"\x20\xc3\xdf\xff\xff\xff\xff\xff\xff\x04\0", 11, {.last = true}}, /* INT64_MAX + 1 */
    {"\x20\xc3\xdf\xff\xff\xff\xff\xff\xff\xff\xff", 11, {.last = true}},
    {"\x20\xc3\xe0\0\0\0\0\0\0\0\x01", 11, {.last = true}}, /* 2^63 + 1 */
    {"\x20\xff\xf0\0\0\0\0\0\0\0\x01", 11, {.last = true}}, /* infinity + 1 */
    {"\x30"
     "a",
     2,
     {0}}, /* no end mark */
    {"\x30"
     "a\0",
     3,
     {0}}, /* half an end mark */
    {"\x30"
     "a\0\x02\0\x01",
     6,
     {0}}, /* an unknown mark */
    {"\x30"
     "aB",
     3,
     {.last = true, .collation = KV_NOCASE}}, /* not folded */
    {"\x30"
     "a\0b",
     4,
     {.last = true, .collation = KV_NOCASE}}, /* not folded behind NUL */
    {"\x30"
     "a ",
     3,
     {.last = true, .collation = KV_RTRIM}},                  /* a space at the end */
    {"\x30\0\xff", 3, {0}},                                   /* an escape, then nothing */
    {"\xcf\xff\xfe!", 4, {.descending = true, .last = true}}, /* bytes behind */
};
enum { BAD = sizeof bad / sizeof *bad };

START_TEST(decode_of_near_keys_is_corrupt) {
  struct kv_slice key = kv_slice_of(bad[_i].bytes, bad[_i].size);
  struct kv_buf scratch;
  kv_buf_init(&scratch);
  struct kv_datum value;
  struct kv_err err;
  ck_assert_int_eq(kv_key_decode(&key, bad[_i].part, &scratch, &value, &err), KV_CORRUPT);
  ck_assert(!strncmp(err.text, "key: ", 5));
  ck_assert_uint_eq(key.size, bad[_i].size);
  kv_buf_release(&scratch);
}
END_TEST

START_TEST(decode_without_memory_is_nomem) {
  struct kv_buf key, scratch;
  kv_buf_init(&key);
  kv_buf_init(&scratch);
  struct kv_key_part part = {.descending = true};
  struct kv_datum value, text = bytes_of(KV_TEXT, "text", 4);
  kv_key_append(&key, part, &text);
  struct kv_slice rest = kv_buf_slice(&key);
  struct kv_err err;
  (void)kv_mem_fail_nth(1, 0);
  ck_assert_int_eq(kv_key_decode(&rest, part, &scratch, &value, &err), KV_NOMEM);
  ck_assert_int_eq(err.status, KV_NOMEM);
  (void)kv_mem_fail_nth(0, 0);
  kv_buf_clear(&scratch);
  ck_assert_int_eq(kv_key_decode(&rest, part, &scratch, &value, &err), KV_OK);
  ck_assert_mem_eq(value.bytes.data, "text", 4);
  kv_buf_release(&key);
  kv_buf_release(&scratch);
}
END_TEST

START_TEST(append_without_memory_sticks) {
  static const char long_text[500] = {1};
  struct kv_datum value = bytes_of(KV_BLOB, long_text, sizeof long_text);
  for (uint64_t n = 1;; n++) {
    struct kv_buf key;
    kv_buf_init(&key);
    (void)kv_mem_fail_nth(n, 0);
    kv_key_append(&key, (struct kv_key_part){.descending = true}, &value);
    uint64_t made = kv_mem_fail_nth(0, 0);
    kv_status status = key.status;
    kv_buf_release(&key);
    ck_assert_int_eq(status, made < n ? KV_OK : KV_NOMEM);
    if (made < n) break;
  }
  ck_assert_int_eq(kv_mem_live_blocks(), 0);
}
END_TEST

START_TEST(successor_increments_the_last_byte_that_can) {
  struct kv_buf key;
  kv_buf_init(&key);
  kv_buf_append(&key, "ab", 2);
  ck_assert(kv_key_prefix_successor(&key));
  ck_assert(kv_slice_equal(kv_buf_slice(&key), kv_slice_of("ac", 2)));
  kv_buf_clear(&key);
  kv_buf_append(&key, "a\xff\xff", 3);
  ck_assert(kv_key_prefix_successor(&key));
  ck_assert(kv_slice_equal(kv_buf_slice(&key), kv_slice_of("b", 1)));
  kv_buf_clear(&key);
  ck_assert(!kv_key_prefix_successor(&key));
  kv_buf_append(&key, "\xff\xff", 2);
  ck_assert(!kv_key_prefix_successor(&key));
  ck_assert(kv_slice_equal(kv_buf_slice(&key), kv_slice_of("\xff\xff", 2)));
  kv_buf_release(&key);
}
END_TEST

static bool begins_with(struct kv_slice key, struct kv_slice prefix) {
  return kv_slice_shared_prefix(key, prefix) == prefix.size;
}

START_TEST(successor_bounds_exactly_what_has_the_prefix) {
  static const uint8_t alphabet[] = {0, 1, 0xfe, 0xff};
  uint64_t seed = harness_seed_env(45);
  struct harness_random random;
  harness_seed(&random, seed);
  struct kv_buf bound;
  kv_buf_init(&bound);
  for (int round = 0; round < 50000; round++) {
    uint8_t a[4], b[6];
    for (int i = 0; i < 4; i++) a[i] = b[i] = PICK(&random, alphabet);
    for (uint64_t i = harness_below(&random, 5); i < 6; i++) b[i] = PICK(&random, alphabet);
    struct kv_slice prefix = kv_slice_of(a, harness_below(&random, 5));
    struct kv_slice key = kv_slice_of(b, harness_below(&random, 7));
    kv_buf_clear(&bound);
    kv_buf_append(&bound, prefix.data, prefix.size);
    bool bounded = kv_key_prefix_successor(&bound);
    bool below = !bounded || kv_slice_compare(key, kv_buf_slice(&bound)) < 0;
    bool inside = kv_slice_compare(prefix, key) <= 0 && below;
    expect(inside == begins_with(key, prefix), "bound", seed);
  }
  kv_buf_release(&bound);
}
END_TEST

/* A range over the first columns of a key holds the rows that have these values, and no others. */
START_TEST(successor_of_leading_columns_bounds_their_rows) {
  uint64_t seed = harness_seed_env(46);
  struct harness_random random;
  harness_seed(&random, seed);
  struct kv_buf low, high, key;
  kv_buf_init(&low);
  kv_buf_init(&high);
  kv_buf_init(&key);
  for (int round = 0; round < 20000; round++) {
    struct row row;
    struct sample wanted;
    random_row(&random, 2, &row);
    unsigned shape = (unsigned)harness_below(&random, SHAPES);
    neighbour(&random, &row.columns[0], &wanted);
    wanted.datum.bytes.data = wanted.bytes;
    encode(&key, &row, shape);
    kv_buf_clear(&low);
    kv_buf_clear(&high);
    kv_key_append(&low, part_at(0, 2, shape), &wanted.datum);
    kv_key_append(&high, part_at(0, 2, shape), &wanted.datum);
    bool bounded = kv_key_prefix_successor(&high);
    bool inside = kv_slice_compare(kv_buf_slice(&low), kv_buf_slice(&key)) <= 0 &&
                  (!bounded || kv_slice_compare(kv_buf_slice(&key), kv_buf_slice(&high)) < 0);
    kv_collation collation = part_at(0, 2, shape).collation;
    bool equal = compare_values(collation, &wanted.datum, &row.columns[0].datum) == 0;
    expect(inside == equal, "range", seed);
  }
  kv_buf_release(&low);
  kv_buf_release(&high);
  kv_buf_release(&key);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("key");
  TCase *tests = tcase_create("encode");
  tcase_set_timeout(tests, 30);
  tcase_add_test(tests, order_of_bytes_is_order_of_values);
  tcase_add_test(tests, order_holds_between_all_odd_numbers);
  tcase_add_test(tests, equal_numbers_are_equal_bytes);
  tcase_add_test(tests, text_and_blob_of_equal_bytes_differ);
  tcase_add_test(tests, encodings_are_as_documented);
  tcase_add_test(tests, type_byte_is_the_first_byte);
  tcase_add_test(tests, append_without_memory_sticks);
  suite_add_tcase(suite, tests);
  TCase *decode = tcase_create("decode");
  tcase_set_timeout(decode, 30);
  tcase_add_test(decode, decode_gives_back_the_values);
  tcase_add_test(decode, decode_borrows_plain_bytes_from_the_key);
  tcase_add_test(decode, decode_of_flipped_and_truncated_keys_is_canonical_or_corrupt);
  tcase_add_test(decode, decode_of_random_bytes_is_canonical_or_corrupt);
  tcase_add_loop_test(decode, decode_of_near_keys_is_corrupt, 0, BAD);
  tcase_add_test(decode, decode_without_memory_is_nomem);
  suite_add_tcase(suite, decode);
  TCase *successor = tcase_create("successor");
  tcase_add_test(successor, successor_increments_the_last_byte_that_can);
  tcase_add_test(successor, successor_bounds_exactly_what_has_the_prefix);
  tcase_add_test(successor, successor_of_leading_columns_bounds_their_rows);
  suite_add_tcase(suite, successor);
  return harness_run(suite);
}
