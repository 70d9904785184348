/* Order-preserving keys: memcmp order of the bytes is SQL order of the column values, NULL < numbers <
** text < blob, and equal values are equal bytes (1 = 1.0, -0.0 = 0.0, 'A' = 'a' under NOCASE). Layout in
** FORMAT.md, Keys. */
#ifndef KV_KEY_H
#define KV_KEY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "buf.h"

#define KV_KEY_BYTES_MAX 65536 /* largest encoded key */

typedef enum kv_type { KV_NULL = 1, KV_INTEGER, KV_REAL, KV_TEXT, KV_BLOB } kv_type;

/* One SQL value. Text and blob bytes are borrowed. A NaN is KV_NULL before it gets here. */
struct kv_datum {
  kv_type type;
  int64_t integer;
  double real;
  struct kv_slice bytes; /* text (UTF-8, no terminator counted) or blob */
};

/* How texts compare: as SQLite's collations of these names do. A key holds a text *folded*, which is
** what its collation compares: the same bytes for equal texts. */
typedef enum kv_collation {
  KV_BINARY, /* byte by byte */
  KV_NOCASE, /* A-Z as a-z; behind a NUL byte only the length counts */
  KV_RTRIM   /* without spaces at the end */
} kv_collation;

/* What stands in a key for a text or blob: its sort key, an application's (custom.h). Returns its size
** and, when that is at most `room`, has written it; negative when memory is out. */
struct kv_encoder {
  int (*encode)(const struct kv_encoder *self, struct kv_slice bytes, void *into, int room);
};

/* How one column of a key is encoded. */
struct kv_key_part {
  bool descending; /* bytes inverted */
  bool last;       /* the last column: text and blob end with the key, not with a terminator (unless
                      descending) */
  kv_collation collation;           /* of texts; other types do not have one */
  const struct kv_encoder *encoder; /* of blobs and of texts as folded; NULL: as they are */
};

/* Appends one column; a failure is the buffer's sticky NOMEM. Keys over KV_KEY_BYTES_MAX are the
** caller's to refuse. */
void kv_key_append(struct kv_buf *key, struct kv_key_part part, const struct kv_datum *value);

/* Reads one column from *key and moves *key behind it. A number that fits int64 comes back as
** KV_INTEGER, else KV_REAL, a text folded, and of an encoder's column the sort keys: what the bytes lose
** is kept by the row. Text and blobs are borrowed from the key when possible, else copied into `scratch`
** (cleared by the caller; grows, earlier results into the same scratch move: decode one column at a time
** or use one scratch a column). KV_CORRUPT when the bytes are no key. */
kv_status kv_key_decode(struct kv_slice *key, struct kv_key_part part, struct kv_buf *scratch,
                        struct kv_datum *value, struct kv_err *err);

/* The order of two texts, folded or not: <0, 0, >0. */
int kv_text_compare(kv_collation collation, struct kv_slice a, struct kv_slice b);
/* Whether folding leaves the text as it is. */
bool kv_text_is_folded(kv_collation collation, struct kv_slice text);
/* Whether a folded text stands for others too: false means that the key says it all. */
bool kv_text_is_ambiguous(kv_collation collation, struct kv_slice folded);

/* Turns a key (or prefix of columns) into the smallest byte string above everything that begins with
** it; false when there is none (all 0xff): then the range has no upper bound. */
bool kv_key_prefix_successor(struct kv_buf *key);

/* The first key byte of values of a type (ascending or inverted), for ranges over a type:
** KV_INTEGER and KV_REAL share one. */
uint8_t kv_key_type_byte(kv_type type, bool descending);
/* Whether what follows this type byte, of a key of one ascending column, is a text's or blob's bytes. */
enum { KV_TAG_TEXT = 0x30, KV_TAG_BLOB = 0x40 };
static inline bool kv_key_has_content(uint8_t type_byte) {
  return type_byte == KV_TAG_TEXT || type_byte == KV_TAG_BLOB;
}

#endif
