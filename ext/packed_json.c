/* See packed.h: `[1, "two", 3.0]`, or of a key of several columns `[["a", 1], ["b", 2]]`. RFC 8259 and no
** more; nothing nests deeper, so nothing recurses. */
#include <string.h>

#include "packed.h"

struct parser {
  struct colfam_packing *packing;
  struct kv_slice json;
  size_t at;
  const char *what; /* what is wrong */
  struct kv_buf text;
};

static int bad(struct parser *parser, const char *what) {
  parser->what = what;
  return SQLITE_ERROR;
}

/* The next byte, 0 at the end: a NUL is nowhere allowed. */
static uint8_t peek(const struct parser *parser) {
  return parser->at < parser->json.size ? parser->json.data[parser->at] : 0;
}

static bool take(struct parser *parser, uint8_t byte) {
  if (peek(parser) != byte) return false;
  parser->at++;
  return true;
}

static void skip_space(struct parser *parser) {
  while (peek(parser) == ' ' || peek(parser) == '\t' || peek(parser) == '\n' ||
         peek(parser) == '\r')
    parser->at++;
}

static bool is_digit(uint8_t byte) {
  return byte >= '0' && byte <= '9';
}

/* ---- Numbers */

static bool take_digits(struct parser *parser) {
  bool any = is_digit(peek(parser));
  while (is_digit(peek(parser))) parser->at++;
  return any;
}

/* The part of a number behind its whole part. */
static bool take_fraction(struct parser *parser) {
  if (take(parser, '.') && !take_digits(parser)) return false;
  if (!take(parser, 'e') && !take(parser, 'E')) return true;
  if (!take(parser, '-')) take(parser, '+');
  return take_digits(parser);
}

/* False for one that is no integer as it is written, or none of 64 bits: a real. */
static bool to_integer(struct kv_slice number, sqlite3_int64 *integer) {
  bool minus = number.data[0] == '-';
  *integer = 0;
  for (size_t i = minus; i < number.size; i++) {
    if (!is_digit(number.data[i])) return false;
    if (__builtin_mul_overflow(*integer, 10, integer)) return false;
    if (__builtin_sub_overflow(*integer, number.data[i] - '0', integer)) return false;
  }
  return minus || !__builtin_sub_overflow(0, *integer, integer);
}

static int read_number(struct parser *parser) {
  size_t start = parser->at;
  take(parser, '-');
  bool zero = peek(parser) == '0';
  size_t digits = parser->at;
  if (!take_digits(parser) || (zero && parser->at > digits + 1) || !take_fraction(parser))
    return bad(parser, "a malformed number");
  struct kv_slice text = kv_slice_of(parser->json.data + start, parser->at - start);
  struct colfam_value value = {.type = SQLITE_INTEGER};
  if (!to_integer(text, &value.integer)) {
    int rc = colfam_key_values_real(&parser->packing->values, text, &value.real);
    if (rc != SQLITE_OK) return rc;
    value.type = SQLITE_FLOAT;
  }
  return colfam_packing_add(parser->packing, &value);
}

/* ---- Strings */

static bool take_hex(struct parser *parser, uint32_t *code) {
  *code = 0;
  for (int i = 0; i < 4; i++) {
    uint8_t byte = peek(parser), letter = byte | 0x20;
    if (!is_digit(byte) && (letter < 'a' || letter > 'f')) return false;
    *code = *code << 4 | (uint32_t)(is_digit(byte) ? byte - '0' : letter - 'a' + 10);
    parser->at++;
  }
  return true;
}

/* A high surrogate takes the low one that follows; one that stands alone is kept, as SQLite does. */
static bool take_unicode(struct parser *parser, uint32_t *code) {
  uint32_t low;
  if (!take_hex(parser, code)) return false;
  if (*code < 0xd800 || *code > 0xdbff) return true;
  size_t back = parser->at;
  if (take(parser, '\\') && take(parser, 'u') && take_hex(parser, &low) && low >= 0xdc00 &&
      low <= 0xdfff) {
    *code = 0x10000 + ((*code - 0xd800) << 10) + (low - 0xdc00);
  } else {
    parser->at = back;
  }
  return true;
}

static void append_utf8(struct kv_buf *text, uint32_t code) {
  if (code < 0x80) {
    kv_buf_append_byte(text, (uint8_t)code);
    return;
  }
  int more = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
  static const uint8_t first[] = {0, 0xc0, 0xe0, 0xf0};
  kv_buf_append_byte(text, (uint8_t)(first[more] | code >> (6 * more)));
  while (more--) kv_buf_append_byte(text, (uint8_t)(0x80 | (code >> (6 * more) & 0x3f)));
}

static bool take_escape(struct parser *parser) {
  static const char letters[] = "\"\\/bfnrt", meanings[] = "\"\\/\b\f\n\r\t";
  uint32_t code;
  if (take(parser, 'u')) {
    if (!take_unicode(parser, &code)) return false;
    append_utf8(&parser->text, code);
    return true;
  }
  const char *letter = peek(parser) ? strchr(letters, peek(parser)) : NULL;
  if (!letter) return false;
  parser->at++;
  kv_buf_append_byte(&parser->text, (uint8_t)meanings[letter - letters]);
  return true;
}

/* Behind the opening quote. Bytes between escapes are copied at once; without any, nothing is. */
static int read_string(struct parser *parser) {
  size_t start = parser->at;
  bool escaped = false;
  kv_buf_clear(&parser->text);
  while (peek(parser) != '"') {
    if (peek(parser) < ' ') return bad(parser, "an unfinished string or a control character");
    if (peek(parser) != '\\') {
      parser->at++;
      continue;
    }
    kv_buf_append(&parser->text, parser->json.data + start, parser->at - start);
    parser->at++;
    escaped = true;
    if (!take_escape(parser)) return bad(parser, "a malformed escape");
    start = parser->at;
  }
  struct kv_slice rest = kv_slice_of(parser->json.data + start, parser->at - start);
  if (escaped) {
    kv_buf_append(&parser->text, rest.data, rest.size);
    if (parser->text.status != KV_OK) return SQLITE_NOMEM;
    rest = kv_buf_slice(&parser->text);
  }
  struct colfam_value value = {
      .type = SQLITE_TEXT, .bytes = rest.data, .size = (sqlite3_int64)rest.size};
  parser->at++;
  return colfam_packing_add(parser->packing, &value);
}

/* ---- Arrays */

static int read_scalar(struct parser *parser) {
  static const char null[] = "null";
  static const struct colfam_value none = {.type = SQLITE_NULL};
  skip_space(parser);
  if (take(parser, '"')) return read_string(parser);
  if (peek(parser) == '-' || is_digit(peek(parser))) return read_number(parser);
  if (parser->json.size - parser->at >= 4 && memcmp(parser->json.data + parser->at, null, 4) == 0) {
    parser->at += 4;
    return colfam_packing_add(parser->packing, &none);
  }
  return bad(parser, "no string, number or null");
}

static int read_tuple(struct parser *parser) {
  int columns = parser->packing->columns, rc = SQLITE_OK;
  skip_space(parser);
  if (!take(parser, '[')) return bad(parser, "no array, which keys of several columns are");
  for (int i = 0; i < columns && rc == SQLITE_OK; i++) {
    if (i && !take(parser, ',')) return bad(parser, "a key with too few values");
    rc = read_scalar(parser);
    if (rc == SQLITE_OK) skip_space(parser);
  }
  if (rc == SQLITE_OK && !take(parser, ']')) return bad(parser, "a key with too many values");
  return rc;
}

static int read_key(struct parser *parser) {
  int rc = parser->packing->columns > 1 ? read_tuple(parser) : read_scalar(parser);
  if (rc == SQLITE_OK) colfam_packing_end(parser->packing);
  return rc;
}

static int read_array(struct parser *parser) {
  int rc = SQLITE_OK;
  skip_space(parser);
  if (!take(parser, '[')) return bad(parser, "no array");
  skip_space(parser);
  bool more = !take(parser, ']');
  while (more && rc == SQLITE_OK) {
    rc = read_key(parser);
    if (rc != SQLITE_OK) return rc;
    skip_space(parser);
    more = take(parser, ',');
    if (!more && !take(parser, ']')) return bad(parser, "no comma and no end of the array");
  }
  skip_space(parser);
  return parser->at == parser->json.size ? rc : bad(parser, "more behind the array");
}

int colfam_packing_json(struct colfam_packing *packing, struct kv_slice json, const char **what,
                        size_t *at) {
  struct parser parser = {.packing = packing, .json = json};
  kv_buf_init(&parser.text);
  int rc = read_array(&parser);
  kv_buf_release(&parser.text);
  *what = parser.what;
  *at = parser.at;
  return rc;
}
