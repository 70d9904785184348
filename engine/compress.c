/* See compress.h.
**
** Making what decompresses takes zstd 160 KB and a third of the time of a small block: some are kept, and one
** of what packs.
**
** A dictionary is picked as in COVER (Liao, Petri, Moffat, Wirth: Effective construction of relative
** Lempel-Ziv dictionaries, 2016): the sample is cut into as many stretches as the dictionary has segments,
** and of each stretch that segment is taken whose grams (of 6 bytes, counted by hash) occur most often in the
** whole sample; grams that were taken once count no more. The first segments go to the end, next to the text.
** Thread rule: compressors belong to one thread, the rest to all. */
#include "compress.h"

#include <string.h>
/* For allocators of the caller's own. */
#define ZSTD_STATIC_LINKING_ONLY
#include <zstd.h>
#include <zstd_errors.h>

#include "code.h"
#include "mem.h"

struct kv_compressor {
  ZSTD_CCtx *context;
  void *memory;                 /* of the dictionary, or NULL */
  const ZSTD_CDict *dictionary; /* or NULL */
};

static void *zstd_alloc(void *opaque, size_t size) {
  (void)opaque;
  return kv_alloc(1, size);
}

static void zstd_free(void *opaque, void *memory) {
  (void)opaque;
  kv_free(memory);
}

static const ZSTD_customMem zstd_memory = {zstd_alloc, zstd_free, NULL};

static bool is_out_of_memory(size_t result) {
  return ZSTD_getErrorCode(result) == ZSTD_error_memory_allocation;
}

/* ---- Compressing */

struct kv_compressor *kv_compressor_new(void) {
  struct kv_compressor *made = kv_alloc_zero(1, sizeof *made);
  if (!made) return NULL;
  made->context = ZSTD_createCCtx_advanced(zstd_memory);
  if (made->context) return made;
  kv_free(made);
  return NULL;
}

void kv_compressor_free(struct kv_compressor *compressor) {
  if (!compressor) return;
  kv_free(compressor->memory);
  ZSTD_freeCCtx(compressor->context);
  kv_free(compressor);
}

/* What a dictionary finds is words, and zstd's own parameters of the lower levels pass over short ones: with
** matches of four bytes, of 16-KiB blocks of text, level 1 makes what level 3 did in less time, and level 3,
** searching as level 5 does, a twelfth less for a third more of it. */
#define WORD_BYTES 4
#define GREEDY_LEVEL 3   /* from here on at least as */
#define GREEDY_SAME_AS 5 /* this level of zstd's */

static ZSTD_compressionParameters parameters_for(int level, size_t dictionary_bytes) {
  ZSTD_compressionParameters parameters = ZSTD_getCParams(level, 0, dictionary_bytes);
  if (level >= GREEDY_LEVEL && parameters.strategy < ZSTD_greedy)
    parameters = ZSTD_getCParams(GREEDY_SAME_AS, 0, dictionary_bytes);
  if (parameters.minMatch > WORD_BYTES) parameters.minMatch = WORD_BYTES;
  return parameters;
}

/* In memory of our own: zstd's own way ends the process when memory is out. */
kv_status kv_compressor_use(struct kv_compressor *compressor, struct kv_slice dictionary, int level,
                            struct kv_err *err) {
  kv_free(compressor->memory);
  compressor->memory = NULL;
  compressor->dictionary = NULL;
  if (!dictionary.size) return KV_OK;
  ZSTD_compressionParameters parameters = parameters_for(level, dictionary.size);
  size_t size = ZSTD_estimateCDictSize_advanced(dictionary.size, parameters, ZSTD_dlm_byCopy);
  compressor->memory = kv_alloc(1, size);
  if (!compressor->memory) return kv_fail_nomem(err);
  compressor->dictionary =
      ZSTD_initStaticCDict(compressor->memory, size, dictionary.data, dictionary.size,
                           ZSTD_dlm_byCopy, ZSTD_dct_rawContent, parameters);
  return compressor->dictionary ? KV_OK : kv_fail_nomem(err);
}

bool kv_compressor_has_dictionary(const struct kv_compressor *compressor) {
  return compressor->dictionary != NULL;
}

kv_status kv_compress(struct kv_compressor *compressor, struct kv_slice raw, int level,
                      uint8_t *into, size_t room, size_t *size, struct kv_err *err) {
  size_t result =
      compressor->dictionary
          ? ZSTD_compress_usingCDict(compressor->context, into, room, raw.data, raw.size,
                                     compressor->dictionary)
          : ZSTD_compressCCtx(compressor->context, into, room, raw.data, raw.size, level);
  *size = ZSTD_isError(result) ? 0 : result;
  return is_out_of_memory(result) ? kv_fail_nomem(err) : KV_OK;
}

/* ---- Decompressing */

struct kv_unpacking *kv_unpacking_new(struct kv_slice dictionary) {
  return (struct kv_unpacking *)ZSTD_createDDict_advanced(
      dictionary.data, dictionary.size, ZSTD_dlm_byRef, ZSTD_dct_rawContent, zstd_memory);
}

void kv_unpacking_free(struct kv_unpacking *unpacking) {
  ZSTD_freeDDict((ZSTD_DDict *)unpacking);
}

size_t kv_unpacking_memory(const struct kv_unpacking *unpacking) {
  return ZSTD_sizeof_DDict((const ZSTD_DDict *)unpacking);
}

#define SPARES 4
static ZSTD_DCtx *spares[SPARES]; /* atomic; NULL: none */
static ZSTD_CCtx *spare_packer;   /* likewise */
static int64_t spare_refs;        /* atomic: while it is 0 none are kept */

static void free_spares(void) {
  for (int i = 0; i < SPARES; i++)
    ZSTD_freeDCtx(__atomic_exchange_n(&spares[i], NULL, __ATOMIC_SEQ_CST));
  ZSTD_freeCCtx(__atomic_exchange_n(&spare_packer, NULL, __ATOMIC_SEQ_CST));
}

void kv_decompressors_ref(void) {
  __atomic_add_fetch(&spare_refs, 1, __ATOMIC_SEQ_CST);
}

void kv_decompressors_unref(void) {
  if (__atomic_sub_fetch(&spare_refs, 1, __ATOMIC_SEQ_CST) == 0) free_spares();
}

/* The last reference may have gone meanwhile: whoever comes second frees what is kept. */
static void settle_spares(void) {
  if (__atomic_load_n(&spare_refs, __ATOMIC_SEQ_CST) == 0) free_spares();
}

static ZSTD_DCtx *take_decompressor(void) {
  for (int i = 0; i < SPARES; i++) {
    ZSTD_DCtx *zstd = __atomic_exchange_n(&spares[i], NULL, __ATOMIC_SEQ_CST);
    if (zstd) return zstd;
  }
  return ZSTD_createDCtx_advanced(zstd_memory);
}

static void give_decompressor(ZSTD_DCtx *zstd) {
  for (int i = 0; i < SPARES && zstd; i++) {
    ZSTD_DCtx *none = NULL;
    if (__atomic_compare_exchange_n(&spares[i], &none, zstd, false, __ATOMIC_SEQ_CST,
                                    __ATOMIC_SEQ_CST))
      zstd = NULL;
  }
  ZSTD_freeDCtx(zstd);
  settle_spares();
}

kv_status kv_decompress(struct kv_slice packed, const struct kv_unpacking *unpacking, uint8_t *into,
                        size_t raw_size, bool *sound, struct kv_err *err) {
  ZSTD_DCtx *zstd = take_decompressor();
  if (!zstd) return kv_fail_nomem(err);
  size_t result = ZSTD_decompress_usingDDict(zstd, into, raw_size, packed.data, packed.size,
                                             (const ZSTD_DDict *)unpacking);
  give_decompressor(zstd);
  *sound = !ZSTD_isError(result) && result == raw_size;
  return is_out_of_memory(result) ? kv_fail_nomem(err) : KV_OK;
}

/* ---- Packing
**
** Most of what it saves comes from coding single bytes (on by LITERALS_CODED: zstd leaves it out at negative
** levels), which takes a quarter of the time of looking for what was there before as level 1 does. */

#define PACK_LEVEL (-100)
#define LITERALS_CODED 1

static ZSTD_CCtx *take_packer(void) {
  ZSTD_CCtx *zstd = __atomic_exchange_n(&spare_packer, NULL, __ATOMIC_SEQ_CST);
  if (!zstd) zstd = ZSTD_createCCtx_advanced(zstd_memory);
  return zstd;
}

static void give_packer(ZSTD_CCtx *zstd) {
  ZSTD_freeCCtx(__atomic_exchange_n(&spare_packer, zstd, __ATOMIC_SEQ_CST));
  settle_spares();
}

kv_status kv_pack(struct kv_slice raw, struct kv_buf *into, bool *packed, struct kv_err *err) {
  size_t room = raw.size - raw.size / 8;
  *packed = false;
  ZSTD_CCtx *zstd = take_packer();
  if (!zstd || kv_buf_reserve(into, room)) {
    ZSTD_freeCCtx(zstd);
    return kv_fail_nomem(err);
  }
  (void)ZSTD_CCtx_setParameter(zstd, ZSTD_c_compressionLevel, PACK_LEVEL);
  (void)ZSTD_CCtx_setParameter(zstd, ZSTD_c_literalCompressionMode, LITERALS_CODED);
  size_t size = ZSTD_compress2(zstd, into->data + into->size, room, raw.data, raw.size);
  give_packer(zstd);
  if (is_out_of_memory(size)) return kv_fail_nomem(err);
  *packed = !ZSTD_isError(size) && kv_may_unpack_to(raw.size, size);
  if (*packed) into->size += size;
  return KV_OK;
}

/* ---- Picking a dictionary */

#define GRAM_BYTES 6
#define READ_BYTES 8 /* of which a gram is the first */
#define HASH_BITS 16
#define SEGMENT_BYTES ((size_t)32)
#define GRAMS (SEGMENT_BYTES - READ_BYTES + 1) /* of a segment */

static uint32_t *count_of(uint32_t *counts, const uint8_t *gram) {
  uint64_t bytes = kv_get_u64(gram) << (64 - 8 * GRAM_BYTES);
  return &counts[bytes * 0x9e3779b97f4a7c15u >> (64 - HASH_BITS)];
}

/* What a gram that occurs nowhere else is worth: nothing. */
static uint32_t worth_of(uint32_t *counts, const uint8_t *gram) {
  uint32_t count = *count_of(counts, gram);
  return count > 1 ? count : 0;
}

/* The segment of the stretch that is worth most, or NULL. */
static const uint8_t *best_segment(uint32_t *counts, struct kv_slice stretch) {
  const uint8_t *best = NULL, *end = stretch.data + stretch.size;
  uint64_t most = 0, worth = 0;
  for (const uint8_t *gram = stretch.data; gram + READ_BYTES <= end; gram++) {
    worth += worth_of(counts, gram);
    if (gram < stretch.data + GRAMS - 1) continue;
    const uint8_t *first = gram - (GRAMS - 1);
    if (worth > most) {
      most = worth;
      best = first;
    }
    worth -= worth_of(counts, first);
  }
  return best;
}

kv_status kv_dictionary_pick(struct kv_slice sample, size_t room, struct kv_buf *into,
                             struct kv_err *err) {
  size_t segments = room / SEGMENT_BYTES;
  size_t stretch = segments ? sample.size / segments : 0;
  if (stretch < 2 * SEGMENT_BYTES) return KV_OK;
  uint32_t *counts = kv_alloc_zero((size_t)1 << HASH_BITS, sizeof *counts);
  uint8_t *end = kv_buf_extend(into, room);
  if (!counts || !end) {
    kv_free(counts);
    return kv_fail_nomem(err);
  }
  uint8_t *start = end, *at = end + room;
  for (size_t i = 0; i + READ_BYTES <= sample.size; i++) ++*count_of(counts, sample.data + i);
  for (size_t i = 0; i < segments; i++) {
    struct kv_slice part = kv_slice_of(sample.data + i * stretch, stretch);
    const uint8_t *segment = best_segment(counts, part);
    if (!segment) continue;
    at -= SEGMENT_BYTES;
    memcpy(at, segment, SEGMENT_BYTES);
    for (size_t j = 0; j < GRAMS; j++) *count_of(counts, segment + j) = 0;
  }
  size_t size = (size_t)(start + room - at);
  memmove(start, at, size);
  into->size -= room - size;
  kv_free(counts);
  return KV_OK;
}
