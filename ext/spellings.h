/* Texts among the keys that spell a number: '01', ' 1' and '1.0' all equal 1 when they are compared as
** numbers. Thread rule: the connection's. */
#ifndef COLFAM_SPELLINGS_H
#define COLFAM_SPELLINGS_H

#include "argument.h"
#include "byte_strings.h"
#include "engine/kv.h"

/* Numbers that are looked for. Zero-initialise. */
struct colfam_numbers {
  struct kv_buf items; /* double each; ascending when closed */
  struct kv_buf
      mantissas; /* their absolute values as 1 to 10 times a power of ten, ascending; none when digits
                              do not tell: some number is about 0 or infinite */
};
void colfam_numbers_clear(struct colfam_numbers *numbers);
void colfam_numbers_add(struct colfam_numbers *numbers, double number);
kv_status colfam_numbers_close(struct colfam_numbers *numbers);
size_t colfam_numbers_memory(const struct colfam_numbers *numbers); /* bytes */
void colfam_numbers_release(struct colfam_numbers *numbers);

/* All texts that look like numbers are between these. */
extern const struct colfam_bound colfam_numerals_begin, colfam_numerals_end;

/* Walks the distinct values of a key column behind a prefix. */
struct colfam_spellings {
  struct kv_view *view;
  struct kv_batch *batch;
  struct kv_slice prefix;
  struct kv_key_part part;
  const struct colfam_numbers *numbers;
  struct kv_buf *scratch;
};
/* Adds to `out` the prefix with each text that spells one of the numbers, roughly: never one too few. */
kv_status colfam_spellings_find(const struct colfam_spellings *self, struct colfam_strings *out,
                                struct kv_err *err);

#endif
