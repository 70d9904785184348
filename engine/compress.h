/* zstd on this library's heap, with a dictionary or without. A dictionary is bytes that are taken as if they
** stood before every text (zstd's raw content): any bytes are one. */
#ifndef KV_COMPRESS_H
#define KV_COMPRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "buf.h"
#include "status.h"

/* What compresses; belongs to one thread. NULL without memory; NULL may be freed. */
struct kv_compressor;
struct kv_compressor *kv_compressor_new(void);
void kv_compressor_free(struct kv_compressor *compressor);
/* From now on with this dictionary, of which it keeps a copy, at this level; of size 0, and after KV_NOMEM,
** without. */
kv_status kv_compressor_use(struct kv_compressor *compressor, struct kv_slice dictionary, int level,
                            struct kv_err *err);
bool kv_compressor_has_dictionary(const struct kv_compressor *compressor);
/* Into at most `room` bytes; *size is 0 when that is too little. With a dictionary its level counts. */
kv_status kv_compress(struct kv_compressor *compressor, struct kv_slice raw, int level,
                      uint8_t *into, size_t room, size_t *size, struct kv_err *err);

/* A dictionary for decompression, over bytes that must outlive it; may be used by many threads. NULL without
** memory; NULL may be freed. */
struct kv_unpacking;
struct kv_unpacking *kv_unpacking_new(struct kv_slice dictionary);
void kv_unpacking_free(struct kv_unpacking *unpacking);
size_t kv_unpacking_memory(const struct kv_unpacking *unpacking);

/* Exactly raw_size bytes to `into`; *sound is false when that is not what was compressed. `unpacking` may be
** NULL. Any thread. KV_NOMEM. */
kv_status kv_decompress(struct kv_slice packed, const struct kv_unpacking *unpacking, uint8_t *into,
                        size_t raw_size, bool *sound, struct kv_err *err);
/* What decompresses, and what kv_pack needs, is kept for the next time as long as there is a reference. */
void kv_decompressors_ref(void);
void kv_decompressors_unref(void);

/* Appends a zstd frame of bytes that are soon written again elsewhere: as fast as what it saves is worth.
** *packed is false, and nothing is appended, when it would not save an eighth, or more than readers believe
** (kv_may_unpack_to). Any thread. KV_NOMEM. */
kv_status kv_pack(struct kv_slice raw, struct kv_buf *into, bool *packed, struct kv_err *err);

/* What stored bytes may decompress to, so that a little of what is hostile cannot ask for much memory:
** so many bytes whatever their size, and so many times their size. */
#define KV_PACKED_RAW_BYTES_FREE ((size_t)64 << 10)
#define KV_PACKED_RATIO_MAX ((size_t)1024)
static inline bool kv_may_unpack_to(uint64_t raw_size, size_t stored_size) {
  return raw_size <= KV_PACKED_RAW_BYTES_FREE || raw_size / KV_PACKED_RATIO_MAX <= stored_size;
}

/* Picks a dictionary of at most `room` bytes out of a sample of what will be compressed: appended to *into,
** maybe nothing. KV_NOMEM. */
kv_status kv_dictionary_pick(struct kv_slice sample, size_t room, struct kv_buf *into,
                             struct kv_err *err);

#endif
