/* Keys whose memcmp order is SQL order.
**
** A key is its columns one after another. A column is a type byte and what follows it:
**
**   NULL    0x10
**   number  0x20  double (8 bytes)  [rest (2 bytes)]
**   text    0x30  bytes
**   blob    0x40  bytes
**
** number: `double` is the largest double d <= the value, its IEEE bits big-endian with the sign
** bit flipped when d >= 0 and all bits flipped when d < 0, so that the patterns order as the
** numbers do. -0.0 is written as 0.0; NaN does not occur. When |d| >= 2^53, where not every
** integer is a double, `rest` = value - d follows, big-endian: 0 for reals and infinities, at most
** 1023 for an int64. Equal numbers are thus equal bytes whatever their type, and 2^53 + 1 stays
** apart from both its neighbours.
**
** text, blob: in the last column, ascending, the bytes as they are up to the end of the key.
** Otherwise 0x00 is escaped as 0x00 0xff and 0x00 0x01 ends the bytes: the end mark sorts below
** every continuation, as a prefix does below what it begins.
**
** A text is folded first, to what its collation compares. NOCASE: A-Z become a-z up to the first NUL byte,
** and all bytes behind that become NUL, since SQLite's comparison ends there and then asks for the
** lengths. RTRIM: spaces at the end are left out. An encoder makes its sort key of the folded text.
**
** descending: every byte of the column, type byte included, is inverted. This reverses the order
** because no column's encoding is a prefix of another's (descending text and blob are always
** terminated).
**
** There is one encoding for each value, and decoding accepts no other. Any thread. */
#include "key.h"

#include <math.h>
#include <string.h>

#include "code.h"

enum { TAG_NULL = 0x10, TAG_NUMBER = 0x20, TAG_TEXT = KV_TAG_TEXT, TAG_BLOB = KV_TAG_BLOB };
enum { MARK = 0x00, MARK_END = 0x01, MARK_ESCAPED = 0xff };

#define SIGN_BIT ((uint64_t)1 << 63)
#define EXACT_LIMIT 0x1p53 /* every integer below it is a double */
#define INT64_LIMIT 0x1p63 /* the first double above every int64 */

/* A number as the encoding has it. */
struct number {
  double floor;  /* the largest double <= the value */
  uint16_t rest; /* value - floor */
};

static struct number number_of_integer(int64_t value) {
  double floor = (double)value;
  if (floor >= INT64_LIMIT || (int64_t)floor > value) floor = nextafter(floor, -INFINITY);
  return (struct number){floor, (uint16_t)(value - (int64_t)floor)};
}

static uint64_t ordered_bits(double value) {
  uint64_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits & SIGN_BIT ? ~bits : bits | SIGN_BIT;
}

static double double_of_ordered_bits(uint64_t ordered) {
  uint64_t bits = ordered & SIGN_BIT ? ordered & ~SIGN_BIT : ~ordered;
  double value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

static void append_number(struct kv_buf *key, struct number number) {
  bool exact = fabs(number.floor) < EXACT_LIMIT;
  uint8_t *into = kv_buf_extend(key, exact ? 8 : 10);
  if (!into) return;
  double floor = number.floor == 0 ? 0.0 : number.floor;
  kv_put_u64_be(into, ordered_bits(floor));
  if (exact) return;
  into[8] = (uint8_t)(number.rest >> 8);
  into[9] = (uint8_t)number.rest;
}

/* Eight bytes at a time. */
static void invert(uint8_t *bytes, size_t size) {
  for (; size >= 8; bytes += 8, size -= 8) {
    uint64_t word;
    memcpy(&word, bytes, sizeof word);
    word = ~word;
    memcpy(bytes, &word, sizeof word);
  }
  for (; size; bytes++, size--) *bytes = (uint8_t) ~*bytes;
}

static bool ends_with_key(struct kv_key_part part) {
  return part.last && !part.descending;
}

static void append_escaped(struct kv_buf *key, struct kv_slice bytes) {
  while (bytes.size) {
    const uint8_t *zero = memchr(bytes.data, MARK, bytes.size);
    size_t plain = zero ? (size_t)(zero - bytes.data) + 1 : bytes.size;
    kv_buf_append(key, bytes.data, plain);
    if (zero) kv_buf_append_byte(key, MARK_ESCAPED);
    bytes = kv_slice_of(bytes.data + plain, bytes.size - plain);
  }
}

static void append_bytes(struct kv_buf *key, struct kv_key_part part, struct kv_slice bytes) {
  if (ends_with_key(part)) {
    kv_buf_append(key, bytes.data, bytes.size);
  } else {
    append_escaped(key, bytes);
  }
}

static void append_end(struct kv_buf *key, struct kv_key_part part) {
  uint8_t *into = ends_with_key(part) ? NULL : kv_buf_extend(key, 2);
  if (!into) return;
  into[0] = MARK;
  into[1] = MARK_END;
}

/* ---- Folding */

static bool is_upper(uint8_t byte) {
  return byte >= 'A' && byte <= 'Z';
}

static uint8_t to_lower(uint8_t byte) {
  return is_upper(byte) ? byte | 0x20 : byte;
}

/* Up to the first NUL byte. */
static size_t size_before_nul(struct kv_slice text) {
  const uint8_t *nul = text.size ? memchr(text.data, 0, text.size) : NULL;
  return nul ? (size_t)(nul - text.data) : text.size;
}

static void append_nocase(struct kv_buf *key, struct kv_key_part part, struct kv_slice text) {
  static const uint8_t nul = 0;
  size_t start = key->size, compared = size_before_nul(text);
  append_bytes(key, part, kv_slice_of(text.data, compared));
  for (size_t i = start; i < key->size; i++) key->data[i] = to_lower(key->data[i]);
  for (size_t i = compared; i < text.size; i++) append_bytes(key, part, kv_slice_of(&nul, 1));
}

static struct kv_slice trim(struct kv_slice text) {
  while (text.size && text.data[text.size - 1] == ' ') text.size--;
  return text;
}

/* ---- Sort keys */

#define SORT_KEY_BYTES 256 /* of most sort keys: made on the stack */

/* Larger than any key may be, so that it is refused. */
static void append_too_much(struct kv_buf *key) {
  uint8_t *into = kv_buf_extend(key, KV_KEY_BYTES_MAX + 1);
  if (into) memset(into, 0, KV_KEY_BYTES_MAX + 1);
}

static void append_long_sort_key(struct kv_buf *key, struct kv_key_part part, struct kv_slice bytes,
                                 int size) {
  struct kv_buf room;
  kv_buf_init(&room);
  uint8_t *into = kv_buf_extend(&room, (size_t)size);
  int again = into ? part.encoder->encode(part.encoder, bytes, into, size) : -1;
  if (again < 0 || again > size)
    key->status = KV_NOMEM;
  else
    append_bytes(key, part, kv_slice_of(into, (size_t)again));
  kv_buf_release(&room);
}

/* Made in the key itself where nothing is escaped. */
static void append_sort_key(struct kv_buf *key, struct kv_key_part part, struct kv_slice bytes) {
  uint8_t escaping[SORT_KEY_BYTES], *room = escaping;
  bool in_place = ends_with_key(part) && kv_buf_reserve(key, SORT_KEY_BYTES) == KV_OK;
  if (in_place) room = key->data + key->size;
  int size = bytes.size > KV_KEY_BYTES_MAX
                 ? KV_KEY_BYTES_MAX + 1
                 : part.encoder->encode(part.encoder, bytes, room, SORT_KEY_BYTES);
  if (size < 0)
    key->status = KV_NOMEM;
  else if (size > KV_KEY_BYTES_MAX)
    append_too_much(key);
  else if (size > SORT_KEY_BYTES)
    append_long_sort_key(key, part, bytes, size);
  else if (in_place)
    key->size += (size_t)size;
  else
    append_bytes(key, part, kv_slice_of(room, (size_t)size));
}

/* The sort key of what the collation compares. */
static void append_folded_sort_key(struct kv_buf *key, struct kv_key_part part,
                                   struct kv_slice text) {
  struct kv_buf folded;
  kv_buf_init(&folded);
  append_nocase(&folded, (struct kv_key_part){.last = true}, text);
  if (folded.status == KV_OK)
    append_sort_key(key, part, kv_buf_slice(&folded));
  else
    key->status = folded.status;
  kv_buf_release(&folded);
}

static void append_encoded_text(struct kv_buf *key, struct kv_key_part part, struct kv_slice text) {
  if (part.collation == KV_NOCASE && text.size)
    append_folded_sort_key(key, part, text);
  else
    append_sort_key(key, part, part.collation == KV_RTRIM ? trim(text) : text);
}

static void append_plain_text(struct kv_buf *key, struct kv_key_part part, struct kv_slice text) {
  switch (part.collation) {
    case KV_BINARY:
      append_bytes(key, part, text);
      break;
    case KV_NOCASE:
      append_nocase(key, part, text);
      break;
    case KV_RTRIM:
      append_bytes(key, part, trim(text));
      break;
  }
}

static void append_text(struct kv_buf *key, struct kv_key_part part, struct kv_slice text) {
  if (part.encoder)
    append_encoded_text(key, part, text);
  else
    append_plain_text(key, part, text);
  append_end(key, part);
}

/* Whether type byte and bytes are all. */
static inline bool is_plain(struct kv_key_part part, const struct kv_datum *value) {
  if (value->type < KV_TEXT || part.encoder || !ends_with_key(part)) return false;
  return value->type == KV_BLOB || part.collation == KV_BINARY;
}

static void append_plain(struct kv_buf *key, const struct kv_datum *value) {
  uint8_t *into = kv_buf_extend(key, 1 + value->bytes.size);
  if (!into) return;
  *into = value->type == KV_TEXT ? TAG_TEXT : TAG_BLOB;
  if (value->bytes.size) memcpy(into + 1, value->bytes.data, value->bytes.size);
}

void kv_key_append(struct kv_buf *key, struct kv_key_part part, const struct kv_datum *value) {
  if (is_plain(part, value)) {
    append_plain(key, value);
    return;
  }
  size_t start = key->size;
  kv_buf_append_byte(key, kv_key_type_byte(value->type, false));
  switch (value->type) {
    case KV_NULL:
      break;
    case KV_INTEGER:
      append_number(key, number_of_integer(value->integer));
      break;
    case KV_REAL:
      append_number(key, (struct number){value->real, 0});
      break;
    case KV_TEXT:
      append_text(key, part, value->bytes);
      break;
    case KV_BLOB:
      if (part.encoder)
        append_sort_key(key, part, value->bytes);
      else
        append_bytes(key, part, value->bytes);
      append_end(key, part);
      break;
  }
  if (part.descending) invert(key->data + start, key->size - start);
}

/* A column being decoded: what is left of the key, and what inverts its bytes. */
struct column {
  struct kv_slice rest;
  uint8_t invert; /* 0xff in a descending column, else 0 */
};

static void skip(struct column *column, size_t size) {
  column->rest = kv_slice_of(column->rest.data + size, column->rest.size - size);
}

/* Big-endian integer of `size` bytes; the caller has checked that they are there. */
static uint64_t take_number(struct column *column, size_t size) {
  uint64_t number = 0;
  for (size_t i = 0; i < size; i++) {
    number = number << 8 | (column->rest.data[i] ^ column->invert);
  }
  skip(column, size);
  return number;
}

/* Integer when the number is one that fits int64. False when no value has this encoding. */
static bool number_value(struct number number, struct kv_datum *value) {
  if (isnan(number.floor) || (number.floor == 0 && signbit(number.floor))) return false;
  bool in_range = number.floor >= -INT64_LIMIT && number.floor < INT64_LIMIT;
  if (!in_range || number.floor != trunc(number.floor)) {
    *value = (struct kv_datum){.type = KV_REAL, .real = number.floor};
    return !number.rest;
  }
  if (number.rest > 1023) return false;
  int64_t integer = (int64_t)number.floor + number.rest;
  *value = (struct kv_datum){.type = KV_INTEGER, .integer = integer};
  return number_of_integer(integer).floor == number.floor;
}

static bool decode_number(struct column *column, struct kv_datum *value) {
  if (column->rest.size < 8) return false;
  struct number number = {double_of_ordered_bits(take_number(column, 8)), 0};
  if (!(fabs(number.floor) < EXACT_LIMIT)) {
    if (column->rest.size < 2) return false;
    number.rest = (uint16_t)take_number(column, 2);
  }
  return number_value(number, value);
}

/* The next mark in the column from `at` on; SIZE_MAX when there is none with a byte behind it. */
static size_t find_mark(const struct column *column, size_t at) {
  struct kv_slice in = column->rest;
  if (in.size < 2 || at > in.size - 2) return SIZE_MAX;
  const uint8_t *mark = memchr(in.data + at, MARK ^ column->invert, in.size - 1 - at);
  return mark ? (size_t)(mark - in.data) : SIZE_MAX;
}

/* Measures a terminated string: *stored bytes up to its end mark, *escapes among them. False when
** it does not end or has a mark of no meaning. */
static bool measure_terminated(const struct column *column, size_t *stored, size_t *escapes) {
  *escapes = 0;
  for (size_t at = 0; (at = find_mark(column, at)) != SIZE_MAX; at += 2) {
    uint8_t kind = column->rest.data[at + 1] ^ column->invert;
    *stored = at;
    if (kind == MARK_END) return true;
    if (kind != MARK_ESCAPED) return false;
    ++*escapes;
  }
  return false;
}

/* Escapes are two bytes, of which the first is meant. */
static void copy_unescaped(const struct column *column, size_t stored, uint8_t *into) {
  for (size_t from = 0; from < stored;) {
    size_t mark = find_mark(column, from);
    size_t end = mark < stored ? mark + 1 : stored;
    for (size_t i = from; i < end; i++) *into++ = column->rest.data[i] ^ column->invert;
    from = mark < stored ? end + 1 : end;
  }
}

static kv_status decode_terminated(struct column *column, struct kv_buf *scratch,
                                   struct kv_slice *bytes, struct kv_err *err) {
  size_t stored, escapes;
  if (!measure_terminated(column, &stored, &escapes)) {
    return kv_fail(err, KV_CORRUPT, "key: text or blob without its end");
  }
  *bytes = kv_slice_of(column->rest.data, stored);
  if (column->invert || escapes) {
    uint8_t *into = kv_buf_extend(scratch, stored - escapes);
    if (!into) return kv_fail_nomem(err);
    copy_unescaped(column, stored, into);
    *bytes = kv_slice_of(into, stored - escapes);
  }
  skip(column, stored + 2);
  return KV_OK;
}

static kv_status decode_bytes(struct column *column, struct kv_key_part part,
                              struct kv_buf *scratch, struct kv_slice *bytes, struct kv_err *err) {
  if (!ends_with_key(part)) return decode_terminated(column, scratch, bytes, err);
  *bytes = column->rest;
  skip(column, column->rest.size);
  return KV_OK;
}

static kv_status decode_column(struct column *column, struct kv_key_part part,
                               struct kv_buf *scratch, struct kv_datum *value, struct kv_err *err) {
  if (!column->rest.size) return kv_fail(err, KV_CORRUPT, "key: ends before its last column");
  uint8_t tag = (uint8_t)take_number(column, 1);
  switch (tag) {
    case TAG_NULL:
      *value = (struct kv_datum){.type = KV_NULL};
      return KV_OK;
    case TAG_NUMBER:
      if (decode_number(column, value)) return KV_OK;
      return kv_fail(err, KV_CORRUPT, "key: bytes that are no number");
    case TAG_TEXT:
    case TAG_BLOB:
      *value = (struct kv_datum){.type = tag == TAG_TEXT ? KV_TEXT : KV_BLOB};
      return decode_bytes(column, part, scratch, &value->bytes, err);
    default:
      return kv_fail(err, KV_CORRUPT, "key: unknown type byte 0x%02x", tag);
  }
}

kv_status kv_key_decode(struct kv_slice *key, struct kv_key_part part, struct kv_buf *scratch,
                        struct kv_datum *value, struct kv_err *err) {
  struct column column = {*key, part.descending ? 0xff : 0};
  kv_status status = decode_column(&column, part, scratch, value, err);
  if (status != KV_OK) return status;
  bool folds = value->type == KV_TEXT && !part.encoder;
  if (folds && !kv_text_is_folded(part.collation, value->bytes)) {
    return kv_fail(err, KV_CORRUPT, "key: a text that its collation would fold");
  }
  if (part.last && column.rest.size) {
    return kv_fail(err, KV_CORRUPT, "key: %zu bytes behind its last column", column.rest.size);
  }
  *key = column.rest;
  return KV_OK;
}

/* The byte at i of the folded text. */
static uint8_t nocase_byte(struct kv_slice text, size_t compared, size_t i) {
  return i < compared ? to_lower(text.data[i]) : 0;
}

static int compare_nocase(struct kv_slice a, struct kv_slice b) {
  size_t compared_a = size_before_nul(a), compared_b = size_before_nul(b);
  for (size_t i = 0; i < a.size && i < b.size; i++) {
    int order = nocase_byte(a, compared_a, i) - nocase_byte(b, compared_b, i);
    if (order) return order;
  }
  return (a.size > b.size) - (a.size < b.size);
}

int kv_text_compare(kv_collation collation, struct kv_slice a, struct kv_slice b) {
  if (collation == KV_NOCASE) return compare_nocase(a, b);
  if (collation == KV_RTRIM) return kv_slice_compare(trim(a), trim(b));
  return kv_slice_compare(a, b);
}

static bool is_nocase_folded(struct kv_slice text) {
  size_t compared = size_before_nul(text);
  for (size_t i = 0; i < compared; i++)
    if (is_upper(text.data[i])) return false;
  for (size_t i = compared; i < text.size; i++)
    if (text.data[i]) return false;
  return true;
}

bool kv_text_is_folded(kv_collation collation, struct kv_slice text) {
  if (collation == KV_NOCASE) return is_nocase_folded(text);
  return collation == KV_BINARY || trim(text).size == text.size;
}

bool kv_text_is_ambiguous(kv_collation collation, struct kv_slice folded) {
  if (collation != KV_NOCASE) return collation == KV_RTRIM;
  size_t compared = size_before_nul(folded);
  for (size_t i = 0; i < compared; i++)
    if (is_upper(folded.data[i] & ~0x20)) return true;
  return compared + 1 < folded.size;
}

bool kv_key_prefix_successor(struct kv_buf *key) {
  size_t size = key->size;
  while (size && key->data[size - 1] == 0xff) size--;
  if (!size) return false;
  key->data[size - 1]++;
  key->size = size;
  return true;
}

uint8_t kv_key_type_byte(kv_type type, bool descending) {
  uint8_t tag = TAG_NULL;
  switch (type) {
    case KV_NULL:
      break;
    case KV_INTEGER:
    case KV_REAL:
      tag = TAG_NUMBER;
      break;
    case KV_TEXT:
      tag = TAG_TEXT;
      break;
    case KV_BLOB:
      tag = TAG_BLOB;
      break;
  }
  return descending ? tag ^ 0xff : tag;
}
