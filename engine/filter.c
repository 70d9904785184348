/* A blocked Bloom filter. The high half of a key's hash picks one 64-byte line, the low half gives the
** bits in it by repeated multiplication; so a lookup touches one cache line whatever the filter's size
** (FORMAT.md, Filter).
**
** Bytes: a header of one line { u8 version, u8 probes, u16 0, u32 line_count, zeros } and the lines. The
** header takes a whole line so that aligning the whole aligns each line.
** Thread rule: a filter is read-only; any thread. */
#include "filter.h"

#include <string.h>

#include "code.h"
#include "mem.h"

#define LINE_BYTES 64
#define LINE_BITS_SHIFT 23 /* keeps the top 9 of 32 bits: one of 512 */
#define FILTER_VERSION 1
#define BITS_PER_KEY_MAX 20
#define PROBES_MAX 14
#define FIRST_PROBES 4 /* of many, that are looked at before the others */
#define MANY_PROBES 9
#define LINES_MAX \
  ((uint64_t)1 << 24) /* 1 GiB; beyond that the rate rises, the answers stay right */
#define PREFETCH_GROUP 32

static uint64_t line_of(uint64_t hash, uint64_t line_count) {
  return (hash >> 32) * line_count >> 32;
}

static int probes_for(int bits_per_key) {
  int probes = bits_per_key * 69 / 100; /* ln 2 */
  return probes < 1 ? 1 : probes;
}

static void line_add(uint8_t *line, uint64_t hash, int probes) {
  uint32_t h = (uint32_t)hash;
  for (int i = 0; i < probes; i++) {
    uint32_t bit = h >> LINE_BITS_SHIFT;
    line[bit >> 3] |= (uint8_t)(1u << (bit & 7));
    h *= 0x9e3779b9u;
  }
}

/* Whether so many bits from h on are set; h becomes what the next is told by. All are looked at: that costs
** less than guessing at which of them to stop. */
static bool has_bits(const uint8_t *line, uint32_t *h, int count) {
  unsigned all = 1;
  for (int i = 0; i < count; i++) {
    uint32_t bit = *h >> LINE_BITS_SHIFT;
    all &= (unsigned)line[bit >> 3] >> (bit & 7);
    *h *= 0x9e3779b9u;
  }
  return all;
}

/* The first few of many tell most keys that are not there. */
static bool line_has(const uint8_t *line, uint64_t hash, int probes) {
  uint32_t h = (uint32_t)hash;
  int first = probes < MANY_PROBES ? probes : FIRST_PROBES;
  return has_bits(line, &h, first) && has_bits(line, &h, probes - first);
}

static uint64_t lines_for(size_t n, int bits_per_key) {
  if (n >= LINES_MAX * LINE_BYTES * 8 / (uint64_t)bits_per_key) return LINES_MAX;
  uint64_t bits = (uint64_t)n * (uint64_t)bits_per_key;
  uint64_t lines = (bits + LINE_BYTES * 8 - 1) / (LINE_BYTES * 8);
  return lines ? lines : 1;
}

kv_status kv_filter_build(const uint64_t *hashes, size_t n, int bits_per_key, struct kv_buf *out,
                          struct kv_err *err) {
  if (bits_per_key < 1 || bits_per_key > BITS_PER_KEY_MAX) {
    return kv_fail(err, KV_MISUSE, "filter: %d bits a key is out of range 1..%d", bits_per_key,
                   BITS_PER_KEY_MAX);
  }
  uint64_t line_count = lines_for(n, bits_per_key);
  int probes = probes_for(bits_per_key);
  size_t size = (size_t)(line_count + 1) * LINE_BYTES;
  uint8_t *bytes = kv_buf_extend(out, size);
  if (!bytes) return kv_fail_nomem(err);
  memset(bytes, 0, size);
  bytes[0] = FILTER_VERSION;
  bytes[1] = (uint8_t)probes;
  kv_put_u32(bytes + 4, (uint32_t)line_count);
  uint8_t *lines = bytes + LINE_BYTES;
  for (size_t i = 0; i < n; i++) {
    line_add(lines + line_of(hashes[i], line_count) * LINE_BYTES, hashes[i], probes);
  }
  return KV_OK;
}

kv_status kv_filter_init(struct kv_filter *filter, struct kv_slice bytes, struct kv_err *err) {
  *filter = (struct kv_filter){0};
  if (!bytes.size) return KV_OK;
  if (bytes.size < LINE_BYTES) {
    return kv_fail(err, KV_CORRUPT, "filter: %zu bytes are too few", bytes.size);
  }
  if (bytes.data[0] != FILTER_VERSION) {
    return kv_fail(err, KV_VERSION, "filter: version %d is not known", bytes.data[0]);
  }
  int probes = bytes.data[1];
  uint64_t line_count = kv_get_u32(bytes.data + 4);
  if (probes < 1 || probes > PROBES_MAX || line_count < 1 || line_count > LINES_MAX ||
      (line_count + 1) * LINE_BYTES != bytes.size) {
    return kv_fail(err, KV_CORRUPT, "filter: %d probes, %llu lines in %zu bytes", probes,
                   (unsigned long long)line_count, bytes.size);
  }
  filter->lines = bytes.data + LINE_BYTES;
  filter->line_count = line_count;
  filter->probes = probes;
  return KV_OK;
}

bool kv_filter_may_contain(const struct kv_filter *filter, uint64_t hash) {
  if (!filter->lines) return true;
  const uint8_t *line = filter->lines + line_of(hash, filter->line_count) * LINE_BYTES;
  return line_has(line, hash, filter->probes);
}

void kv_filter_may_contain_many(const struct kv_filter *const *filters, const uint64_t *hashes,
                                size_t n, bool *maybe) {
  const uint8_t *lines[PREFETCH_GROUP];
  for (size_t base = 0; base < n; base += PREFETCH_GROUP) {
    size_t group = n - base < PREFETCH_GROUP ? n - base : PREFETCH_GROUP;
    for (size_t i = 0; i < group; i++) {
      const struct kv_filter *filter = filters[base + i];
      lines[i] = NULL;
      if (!filter->lines) continue;
      lines[i] = filter->lines + line_of(hashes[base + i], filter->line_count) * LINE_BYTES;
      kv_prefetch(lines[i]);
    }
    for (size_t i = 0; i < group; i++) {
      maybe[base + i] =
          !lines[i] || line_has(lines[i], hashes[base + i], filters[base + i]->probes);
    }
  }
}
