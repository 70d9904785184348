/* A data block (FORMAT.md, Data block):
**
**   entry*                    sorted; {varint shared, varint unshared, varint value_size << 2 | kind,
**                             unshared key bytes, value bytes}
**   u32 restart[n]            offsets of entries with shared = 0, the first at 0: regions of at most 16
**   u16 slot[m]               hash index: 8 bits of a key's hash and the restart of its region, or EMPTY
**   u32 n, u32 m + INDEX_TAGGED
**
** `shared` is always the longest common prefix with the key before, so a point lookup walks a region
** without rebuilding keys: it only tracks how far the wanted key has matched. A lookup goes from
** the slot that the hash says to the next EMPTY one and walks the regions of slots with its tag: one, nearly
** always. After too many of either it falls back to binary search over the restarts, as it does without
** index.
** Invariants: nothing here reads outside the block's bytes, whatever they are; no lookup and no step
** goes over more than the 16 entries that a region has at the most.
** Thread rule: a parsed block is read-only; builder and cursor belong to one thread. */
#include "block.h"

#include <string.h>

#include "apart.h"
#include "code.h"
#include "hash.h"
#include "mem.h"

#define RESTART_INTERVAL 16
#define REGION_BYTES 512 /* a region that has so many ends, so that few lines are walked */
#define REGION_SHARE 16  /* ... and at least so many times what its end costs in shared bytes */
#define INDEX_TAGGED 0x80000000u /* in the tail's slot count; without: an old index, passed over */
#define SLOT_BYTES 2
#define SLOT_EMPTY 0xffff
#define SLOTS_TRIED_MAX 64
#define REGIONS_TRIED_MAX 4
#define HASH_RESTARTS_MAX 253
#define TAIL_BYTES 8 /* restart count, slot count */
#define KEY_INFO_BYTES 8
#define LONG_KEY_BYTES 128 /* that are compared as a whole first */
#define LINE_BYTES 64
#define AHEAD_LINES 16  /* of a region, asked for before it is walked */
#define RESTART_LINES 4 /* of restarts, asked for with the index */
enum entry_kind { ENTRY_PUT, ENTRY_TOMBSTONE, ENTRY_APART };

/* ---- Builder */

void kv_block_builder_init(struct kv_block_builder *builder) {
  kv_buf_init(&builder->bytes);
  kv_buf_init(&builder->restarts);
  kv_buf_init(&builder->hashes);
  kv_buf_init(&builder->last_key);
  builder->comparator = NULL;
  builder->leaves_index = false;
  builder->count = 0;
  builder->region_start = 0;
  builder->region_entries = 0;
}

void kv_block_builder_release(struct kv_block_builder *builder) {
  kv_buf_release(&builder->bytes);
  kv_buf_release(&builder->restarts);
  kv_buf_release(&builder->hashes);
  kv_buf_release(&builder->last_key);
}

void kv_block_builder_reset(struct kv_block_builder *builder) {
  kv_buf_clear(&builder->bytes);
  kv_buf_clear(&builder->restarts);
  kv_buf_clear(&builder->hashes);
  kv_buf_clear(&builder->last_key);
  builder->count = 0;
  builder->region_start = 0;
  builder->region_entries = 0;
}

static uint32_t slot_count_for(size_t restarts, uint32_t keys) {
  if (restarts > HASH_RESTARTS_MAX) return 0;
  return keys + keys / 7 + 1;
}

/* Where a search begins. */
static uint32_t slot_of(uint32_t hash, uint32_t slot_count) {
  return (uint32_t)((uint64_t)hash * slot_count >> 32);
}

static uint32_t slot_after(uint32_t slot, uint32_t slot_count) {
  return slot + 1 == slot_count ? 0 : slot + 1;
}

static uint8_t tag_of(uint64_t hash) {
  return (uint8_t)(hash >> 32);
}

/* What the index says of a key. */
static void append_info(struct kv_buf *infos, uint64_t hash, uint32_t restart) {
  kv_buf_append_u32(infos, (uint32_t)hash);
  kv_buf_append_u32(infos, (uint32_t)tag_of(hash) << 8 | (restart & 0xff));
}

/* Whether the entry that would share `shared` bytes begins a region. By bytes only as long as the hash index
** is not at risk. */
static bool begins_region(const struct kv_block_builder *builder, size_t shared) {
  if (!builder->count || builder->region_entries == RESTART_INTERVAL) return true;
  size_t bytes = builder->bytes.size - builder->region_start;
  return bytes >= REGION_BYTES && bytes / REGION_SHARE >= shared &&
         builder->restarts.size / 4 < HASH_RESTARTS_MAX / 2;
}

static kv_status builder_status(const struct kv_block_builder *builder) {
  if (builder->bytes.status || builder->restarts.status || builder->hashes.status ||
      builder->last_key.status) {
    return KV_NOMEM;
  }
  return KV_OK;
}

static kv_status add_entry(struct kv_block_builder *builder, struct kv_slice key, uint64_t hash,
                           struct kv_slice value, enum entry_kind kind, struct kv_err *err) {
  struct kv_slice last = kv_buf_slice(&builder->last_key);
  if (builder->count && !kv_key_ascends(builder->comparator, last, key)) {
    return kv_fail(err, KV_MISUSE, "block: keys are not ascending at entry %u", builder->count);
  }
  if (builder->bytes.size > UINT32_MAX || (kind == ENTRY_TOMBSTONE && value.size)) {
    return kv_fail(err, KV_MISUSE, "block: entry %u does not fit", builder->count);
  }
  size_t shared = kv_slice_shared_prefix(last, key);
  if (begins_region(builder, shared)) {
    shared = 0;
    builder->region_start = builder->bytes.size;
    builder->region_entries = 0;
    kv_buf_append_u32(&builder->restarts, (uint32_t)builder->bytes.size);
  }
  uint32_t restart = (uint32_t)(builder->restarts.size / 4 - 1);
  append_info(&builder->hashes, hash, restart);
  kv_buf_append_varint(&builder->bytes, shared);
  kv_buf_append_varint(&builder->bytes, key.size - shared);
  kv_buf_append_varint(&builder->bytes, (uint64_t)value.size << 2 | kind);
  if (key.size > shared) {
    kv_buf_append(&builder->bytes, key.data + shared, key.size - shared);
  }
  if (value.size) kv_buf_append(&builder->bytes, value.data, value.size);
  builder->last_key.size = shared;
  if (key.size > shared) {
    kv_buf_append(&builder->last_key, key.data + shared, key.size - shared);
  }
  builder->count++;
  builder->region_entries++;
  return builder_status(builder) ? kv_fail_nomem(err) : KV_OK;
}

kv_status kv_block_builder_add(struct kv_block_builder *builder, struct kv_slice key, uint64_t hash,
                               struct kv_slice value, bool deleted, struct kv_err *err) {
  return add_entry(builder, key, hash, value, deleted ? ENTRY_TOMBSTONE : ENTRY_PUT, err);
}

kv_status kv_block_builder_add_apart(struct kv_block_builder *builder, struct kv_slice key,
                                     uint64_t hash, struct kv_slice reference, struct kv_err *err) {
  return add_entry(builder, key, hash, reference, ENTRY_APART, err);
}

size_t kv_block_builder_size(const struct kv_block_builder *builder) {
  return builder->bytes.size + builder->restarts.size +
         (size_t)slot_count_for(builder->restarts.size / 4, builder->count) * SLOT_BYTES +
         TAIL_BYTES;
}

static void fill_slots(const struct kv_buf *infos, uint8_t *slots, uint32_t count) {
  const uint8_t *end = infos->data + infos->size;
  memset(slots, 0xff, (size_t)count * SLOT_BYTES);
  for (const uint8_t *info = infos->data; info < end; info += KEY_INFO_BYTES) {
    uint32_t slot = slot_of(kv_get_u32(info), count);
    while (kv_get_u16(slots + (size_t)slot * SLOT_BYTES) != SLOT_EMPTY)
      slot = slot_after(slot, count);
    kv_put_u16(slots + (size_t)slot * SLOT_BYTES, (uint16_t)kv_get_u32(info + 4));
  }
}

kv_status kv_block_builder_finish(struct kv_block_builder *builder, struct kv_slice *block,
                                  struct kv_err *err) {
  if (!builder->count) return kv_fail(err, KV_MISUSE, "block: no entries");
  uint32_t restart_count = (uint32_t)(builder->restarts.size / 4);
  uint32_t slot_count = builder->leaves_index ? 0 : slot_count_for(restart_count, builder->count);
  kv_buf_append(&builder->bytes, builder->restarts.data, builder->restarts.size);
  if (slot_count) {
    uint8_t *slots = kv_buf_extend(&builder->bytes, (size_t)slot_count * SLOT_BYTES);
    if (slots) fill_slots(&builder->hashes, slots, slot_count);
  }
  kv_buf_append_u32(&builder->bytes, restart_count);
  kv_buf_append_u32(&builder->bytes, slot_count ? slot_count | INDEX_TAGGED : 0);
  if (builder_status(builder)) return kv_fail_nomem(err);
  *block = kv_buf_slice(&builder->bytes);
  return KV_OK;
}

/* ---- Parsed block */

/* The two numbers of the tail as one. */
static uint64_t shape_of(uint32_t restart_count, uint32_t index) {
  return (uint64_t)restart_count << 32 | index;
}

static uint64_t index_bytes(uint32_t index) {
  return index & INDEX_TAGGED ? (uint64_t)(index & ~INDEX_TAGGED) * SLOT_BYTES : index;
}

uint64_t kv_block_shape(const struct kv_block *block) {
  return shape_of(block->restart_count, block->index);
}

struct kv_block kv_block_of_shape(struct kv_slice bytes, uint64_t shape) {
  struct kv_block block = {.restart_count = (uint32_t)(shape >> 32), .index = (uint32_t)shape};
  block.slots = bytes.data + bytes.size - TAIL_BYTES - index_bytes(block.index);
  block.slot_count = block.index & INDEX_TAGGED ? block.index & ~INDEX_TAGGED : 0;
  block.restarts = block.slots - (size_t)block.restart_count * 4;
  block.entries = kv_slice_of(bytes.data, (size_t)(block.restarts - bytes.data));
  return block;
}

kv_status kv_block_init(struct kv_block *block, struct kv_slice bytes, struct kv_err *err) {
  if (bytes.size < TAIL_BYTES) {
    return kv_fail(err, KV_CORRUPT, "block: %zu bytes are too few", bytes.size);
  }
  const uint8_t *tail = bytes.data + bytes.size - TAIL_BYTES;
  uint32_t restart_count = kv_get_u32(tail);
  uint32_t index = kv_get_u32(tail + 4);
  uint64_t behind = (uint64_t)restart_count * 4 + index_bytes(index);
  if (!restart_count || behind >= bytes.size - TAIL_BYTES) {
    return kv_fail(err, KV_CORRUPT, "block: %u restarts and an index of %llu bytes in %zu bytes",
                   restart_count, (unsigned long long)index_bytes(index), bytes.size);
  }
  *block = kv_block_of_shape(bytes, shape_of(restart_count, index));
  return KV_OK;
}

static uint16_t slot_value(const struct kv_block *block, uint32_t slot) {
  return kv_get_u16(block->slots + (size_t)slot * SLOT_BYTES);
}

static kv_status check_slot(const struct kv_block *block, uint16_t value, struct kv_err *err) {
  if (value == SLOT_EMPTY || (value & 0xff) < block->restart_count) return KV_OK;
  return kv_fail(err, KV_CORRUPT, "block: hash index names restart %u of %u", value & 0xff,
                 block->restart_count);
}

kv_status kv_block_check_index(const struct kv_block *block, struct kv_err *err) {
  kv_status status = KV_OK;
  for (uint32_t i = 0; i < block->slot_count && !status; i++)
    status = check_slot(block, slot_value(block, i), err);
  return status;
}

bool kv_block_wants_index(const struct kv_block *block) {
  return block->index == 0 && block->restart_count <= HASH_RESTARTS_MAX;
}

kv_status kv_block_list_keys(const struct kv_block *block, struct kv_buf *infos,
                             struct kv_err *err) {
  struct kv_block_cursor cursor;
  kv_block_cursor_init(&cursor);
  kv_block_cursor_set(&cursor, block);
  kv_status status = kv_block_cursor_first(&cursor, err);
  while (!status && cursor.valid) {
    append_info(infos, kv_hash_key(kv_buf_slice(&cursor.key)), cursor.restart);
    status = kv_block_cursor_next(&cursor, err);
  }
  kv_block_cursor_release(&cursor);
  return status || !infos->status ? status : kv_fail_nomem(err);
}

static uint32_t slots_of_infos(const struct kv_block *block, const struct kv_buf *infos) {
  return slot_count_for(block->restart_count, (uint32_t)(infos->size / KEY_INFO_BYTES));
}

size_t kv_block_indexed_size(const struct kv_block *block, const struct kv_buf *infos) {
  return block->entries.size + (size_t)block->restart_count * 4 +
         (size_t)slots_of_infos(block, infos) * SLOT_BYTES + TAIL_BYTES;
}

void kv_block_put_index(const struct kv_block *block, const struct kv_buf *infos, uint8_t *into) {
  size_t before = block->entries.size + (size_t)block->restart_count * 4;
  uint32_t count = slots_of_infos(block, infos);
  uint8_t *slots = into + before, *tail = slots + (size_t)count * SLOT_BYTES;
  memcpy(into, block->entries.data, before);
  fill_slots(infos, slots, count);
  kv_put_u32(tail, block->restart_count);
  kv_put_u32(tail + 4, count | INDEX_TAGGED);
}

struct entry {
  uint64_t shared;
  struct kv_slice suffix; /* the key's bytes after the shared ones */
  struct kv_slice value;
  enum entry_kind kind;
  size_t next; /* offset of the next entry */
};

static kv_status bad_entry(size_t offset, struct kv_err *err) {
  return kv_fail(err, KV_CORRUPT, "block: bad entry at byte %zu", offset);
}

/* The three numbers that an entry begins with. */
struct head {
  uint64_t shared, unshared, value;
};

/* Mostly the first two take a byte each, the third one or two. False when they do not end before `end`. */
static inline bool read_head(const uint8_t **pos, const uint8_t *end, struct head *head) {
  const uint8_t *p = *pos;
  if (end - p >= 4 && !((p[0] | p[1] | (p[2] & p[3])) & 0x80)) {
    bool two = p[2] & 0x80;
    *head = (struct head){p[0], p[1], two ? (p[2] & 0x7f) | (uint64_t)p[3] << 7 : p[2]};
    *pos = p + 3 + two;
    return true;
  }
  struct kv_reader reader = {p, end, false};
  head->shared = kv_reader_varint(&reader);
  head->unshared = kv_reader_varint(&reader);
  head->value = kv_reader_varint(&reader);
  *pos = reader.pos;
  return !reader.failed;
}

/* Most entries: a put with a value below 4 KiB, keys below 128 bytes. False: to be read the other way. */
static inline bool read_short_put(const struct kv_block *block, size_t offset, uint64_t shared_max,
                                  struct entry *entry) {
  if (offset + 4 > block->entries.size) return false;
  const uint8_t *p = block->entries.data + offset;
  bool two = p[2] & 0x80;
  if ((p[0] | p[1] | (p[2] & p[3])) & 0x80 || p[2] & 3) return false;
  size_t value_size = (two ? (p[2] & 0x7f) | (size_t)p[3] << 7 : p[2]) >> 2;
  entry->shared = p[0];
  entry->suffix = kv_slice_of(p + 3 + two, p[1]);
  entry->value = kv_slice_of(entry->suffix.data + p[1], value_size);
  entry->kind = ENTRY_PUT;
  entry->next = offset + 3 + two + p[1] + value_size;
  return entry->shared <= shared_max && entry->next <= block->entries.size;
}

/* The entry at `offset`, which may share at most `shared_max` bytes. */
static kv_status read_entry(const struct kv_block *block, size_t offset, uint64_t shared_max,
                            struct entry *entry, struct kv_err *err) {
  if (offset >= block->entries.size) return bad_entry(offset, err);
  const uint8_t *pos = block->entries.data + offset;
  const uint8_t *end = block->entries.data + block->entries.size;
  struct head head;
  if (!read_head(&pos, end, &head)) return bad_entry(offset, err);
  uint64_t kind = head.value & 3, value_size = head.value >> 2;
  bool known_kind = kind == ENTRY_PUT || kind == ENTRY_APART || head.value == ENTRY_TOMBSTONE;
  size_t left = (size_t)(end - pos);
  if (!known_kind || head.shared > shared_max || head.unshared > left ||
      value_size > left - (size_t)head.unshared)
    return bad_entry(offset, err);
  entry->shared = head.shared;
  entry->suffix = kv_slice_of(pos, (size_t)head.unshared);
  entry->value = kv_slice_of(pos + head.unshared, (size_t)value_size);
  entry->kind = (enum entry_kind)kind;
  entry->next = (size_t)(entry->value.data - block->entries.data) + entry->value.size;
  struct kv_apart apart;
  if (kind == ENTRY_APART && !kv_apart_parse(entry->value, &apart)) return bad_entry(offset, err);
  return KV_OK;
}

static size_t restart_offset(const struct kv_block *block, uint32_t restart) {
  return kv_get_u32(block->restarts + (size_t)restart * 4);
}

/* Where the region of a restart ends. */
static size_t restart_end(const struct kv_block *block, uint32_t restart) {
  if (restart + 1 >= block->restart_count) return block->entries.size;
  return restart_offset(block, restart + 1);
}

/* Asks for the bytes of entries [offset, end), up to AHEAD_LINES of them. */
static void ask_for(const struct kv_block *block, size_t offset, size_t end) {
  if (end > block->entries.size) end = block->entries.size;
  for (int lines = 0; lines < AHEAD_LINES && offset < end; lines++, offset += LINE_BYTES) {
    kv_prefetch(block->entries.data + offset);
  }
}

static void ask_for_region(const struct kv_block *block, uint32_t restart) {
  ask_for(block, restart_offset(block, restart), restart_end(block, restart));
}

static void ask_for_key(const struct kv_block *block, uint32_t restart) {
  size_t offset = restart_offset(block, restart);
  ask_for(block, offset, offset + 1);
}

static uint32_t middle_of(uint32_t low, uint32_t high) {
  return low + (high - low) / 2;
}

/* One step of the search for the last restart in [low, high) whose key is <= key, or low. */
static kv_status halve(const struct kv_block *block, struct kv_slice key, uint32_t *low,
                       uint32_t *high, struct kv_err *err) {
  uint32_t middle = middle_of(*low, *high);
  struct entry entry;
  kv_status status = read_entry(block, restart_offset(block, middle), 0, &entry, err);
  if (status) return status;
  if (kv_key_compare(block->comparator, entry.suffix, key) <= 0) {
    *low = middle;
  } else {
    *high = middle;
  }
  return KV_OK;
}

/* The last restart whose key is <= key, or 0. Either way the next key to compare is already on its way. */
static kv_status find_restart(const struct kv_block *block, struct kv_slice key, uint32_t *restart,
                              struct kv_err *err) {
  uint32_t low = 0, high = block->restart_count;
  kv_status status = KV_OK;
  while (high - low > 1 && !status) {
    uint32_t middle = middle_of(low, high);
    ask_for_key(block, middle_of(low, middle));
    ask_for_key(block, middle_of(middle, high));
    status = halve(block, key, &low, &high, err);
  }
  *restart = low;
  return status;
}

/* Whether a suffix is above the rest of a key, which begins with as many equal bytes and is another. */
static bool is_above(struct kv_slice suffix, struct kv_slice rest, size_t equal) {
  if (equal == rest.size) return true;
  return equal < suffix.size && suffix.data[equal] > rest.data[equal];
}

static const enum kv_block_answer answers[] = {[ENTRY_PUT] = KV_BLOCK_PUT,
                                               [ENTRY_TOMBSTONE] = KV_BLOCK_DELETED,
                                               [ENTRY_APART] = KV_BLOCK_APART};

/* What a lookup found. */
struct found {
  enum kv_block_answer answer;
  struct kv_slice value;
};

/* Walks one region. `matched` is how many bytes of the wanted key the key before had; that key was
** below it. An entry sharing more with the key before is below too; one sharing less is above. Under a
** comparator nothing is told by that, but what an entry has in common with the wanted key still is. */
static kv_status get_in_region(const struct kv_block *block, uint32_t restart, struct kv_slice key,
                               struct found *found, struct kv_err *err) {
  size_t offset = restart_offset(block, restart), end = restart_end(block, restart);
  bool bytewise = !block->comparator;
  size_t matched = 0;
  uint64_t last_size = 0;
  for (int entries = 0; offset < end; entries++) {
    struct entry entry;
    if (!read_short_put(block, offset, last_size, &entry)) {
      kv_status status = read_entry(block, offset, last_size, &entry, err);
      if (status) return status;
    }
    if (entries == RESTART_INTERVAL) return bad_entry(offset, err);
    if (entry.shared < matched) {
      if (bytewise) return KV_OK;
      matched = (size_t)entry.shared;
    }
    if (entry.shared == matched) {
      struct kv_slice rest = matched ? kv_slice_of(key.data + matched, key.size - matched) : key;
      bool long_and_equal = rest.size >= LONG_KEY_BYTES && kv_slice_equal(entry.suffix, rest);
      size_t more = long_and_equal ? rest.size : kv_slice_shared_prefix(entry.suffix, rest);
      if (more == rest.size && more == entry.suffix.size) {
        *found = (struct found){answers[entry.kind], entry.value};
        return KV_OK;
      }
      if (bytewise && is_above(entry.suffix, rest, more)) return KV_OK;
      matched += more;
    }
    last_size = entry.shared + entry.suffix.size;
    offset = entry.next;
  }
  return KV_OK;
}

/* ---- The hash index */

enum hint { HINT_NONE, HINT_REGION, HINT_SEARCH };

static struct kv_block_probe begin_probe(const struct kv_block *block, uint64_t hash) {
  return (struct kv_block_probe){.slot = slot_of((uint32_t)hash, block->slot_count)};
}

/* Goes on to the next region that may have the key; HINT_SEARCH: the index cannot tell. */
static kv_status next_hint(const struct kv_block *block, uint64_t hash,
                           struct kv_block_probe *probe, enum hint *hint, uint32_t *restart,
                           struct kv_err *err) {
  const uint8_t tag = tag_of(hash);
  *hint = HINT_SEARCH;
  if (!block->slot_count || probe->regions >= REGIONS_TRIED_MAX) return KV_OK;
  while (probe->slots++ < SLOTS_TRIED_MAX) {
    uint16_t value = slot_value(block, probe->slot);
    if (value == SLOT_EMPTY) {
      *hint = HINT_NONE;
      return KV_OK;
    }
    if ((value & 0xff) >= block->restart_count) return check_slot(block, value, err);
    probe->slot = slot_after(probe->slot, block->slot_count);
    if (value >> 8 != tag) continue;
    probe->regions++;
    *hint = HINT_REGION;
    *restart = value & 0xff;
    return KV_OK;
  }
  return KV_OK;
}

static kv_status get_by_search(const struct kv_block *block, struct kv_slice key,
                               struct found *found, struct kv_err *err) {
  uint32_t restart;
  kv_status status = find_restart(block, key, &restart, err);
  if (status) return status;
  ask_for_region(block, restart);
  return get_in_region(block, restart, key, found, err);
}

/* The slot leads to a restart, which stands just before the index: both are on their way at once. */
static void ask_for_index(const struct kv_block *block, const struct kv_block_probe *probe) {
  const uint8_t *line = block->restarts;
  kv_prefetch(block->slots + (size_t)probe->slot * SLOT_BYTES);
  for (int lines = 0; lines < RESTART_LINES && line < block->slots; lines++, line += LINE_BYTES)
    kv_prefetch(line);
}

/* From where the probe is on. */
static kv_status get_by_index(const struct kv_block *block, struct kv_slice key, uint64_t hash,
                              struct kv_block_probe *probe, struct found *found,
                              struct kv_err *err) {
  for (;;) {
    enum hint hint;
    uint32_t restart;
    kv_status status = next_hint(block, hash, probe, &hint, &restart, err);
    if (status || hint == HINT_NONE) return status;
    if (hint == HINT_SEARCH) return get_by_search(block, key, found, err);
    ask_for_region(block, restart);
    status = get_in_region(block, restart, key, found, err);
    if (status || found->answer != KV_BLOCK_NONE) return status;
  }
}

kv_status kv_block_get(const struct kv_block *block, struct kv_slice key, uint64_t hash,
                       enum kv_block_answer *answer, struct kv_slice *value, struct kv_err *err) {
  struct kv_block_probe probe = begin_probe(block, hash);
  struct found found = {.answer = KV_BLOCK_NONE};
  ask_for_index(block, &probe);
  kv_status status = get_by_index(block, key, hash, &probe, &found, err);
  *answer = found.answer;
  *value = found.value;
  return status;
}

kv_status kv_block_get_at(const struct kv_block *block, struct kv_slice key, size_t offset,
                          enum kv_block_answer *answer, struct kv_slice *value,
                          struct kv_err *err) {
  struct entry entry;
  *answer = KV_BLOCK_NONE;
  kv_status status = read_entry(block, offset, key.size, &entry, err);
  if (status) return status;
  size_t rest = key.size - (size_t)entry.shared;
  if (rest != entry.suffix.size) return KV_OK;
  if (rest && memcmp(key.data + entry.shared, entry.suffix.data, rest) != 0) return KV_OK;
  *answer = answers[entry.kind];
  *value = entry.value;
  return KV_OK;
}

/* ---- The same in steps */

void kv_block_search_begin(struct kv_block_search *search, const struct kv_block *block,
                           struct kv_slice key, uint64_t hash) {
  *search = (struct kv_block_search){.block = *block,
                                     .key = key,
                                     .hash = hash,
                                     .probe = begin_probe(block, hash),
                                     .high = block->restart_count,
                                     .step = KV_SEARCH_SLOT};
  kv_prefetch(block->slots + (size_t)search->probe.slot * SLOT_BYTES);
}

void kv_block_search_begin_at(struct kv_block_search *search, const struct kv_block *block,
                              struct kv_slice key, size_t offset) {
  *search = (struct kv_block_search){
      .block = *block, .key = key, .placed = true, .offset = offset, .step = KV_SEARCH_DONE};
  ask_for(block, offset, offset + 1);
  size_t end = offset + key.size;
  ask_for(block, end > LINE_BYTES ? end - LINE_BYTES : 0, end + LINE_BYTES);
}

static kv_status step_slot(struct kv_block_search *search, struct kv_err *err) {
  enum hint hint;
  uint32_t restart;
  kv_status status = next_hint(&search->block, search->hash, &search->probe, &hint, &restart, err);
  if (status) return status;
  search->hinted = hint == HINT_REGION;
  if (hint == HINT_NONE) {
    search->high = 0;
    search->step = KV_SEARCH_DONE;
    return KV_OK;
  }
  if (search->hinted) {
    search->low = restart;
    search->high = restart + 1;
  }
  kv_prefetch(search->block.restarts + (size_t)middle_of(search->low, search->high) * 4);
  search->step = KV_SEARCH_RESTART;
  return KV_OK;
}
/* Asks for the entry that is read next: one to compare, or the region. */
static void step_restart(struct kv_block_search *search) {
  uint32_t middle = middle_of(search->low, search->high);
  if (search->high - search->low > 1) {
    ask_for_key(&search->block, middle);
    search->step = KV_SEARCH_ENTRY;
  } else {
    ask_for_region(&search->block, middle);
    search->step = KV_SEARCH_DONE;
  }
}

kv_status kv_block_search_step(struct kv_block_search *search, struct kv_err *err) {
  kv_status status = KV_OK;
  switch (search->step) {
    case KV_SEARCH_SLOT:
      return step_slot(search, err);
    case KV_SEARCH_ENTRY:
      status = halve(&search->block, search->key, &search->low, &search->high, err);
      if (!status) step_restart(search);
      return status;
    case KV_SEARCH_RESTART:
      step_restart(search);
      return KV_OK;
    case KV_SEARCH_DONE:
      break;
  }
  return KV_OK;
}

kv_status kv_block_search_end(struct kv_block_search *search, enum kv_block_answer *answer,
                              struct kv_slice *value, struct kv_err *err) {
  if (search->placed)
    return kv_block_get_at(&search->block, search->key, search->offset, answer, value, err);
  kv_status status = KV_OK;
  struct found found = {.answer = KV_BLOCK_NONE};
  if (search->low < search->high)
    status = get_in_region(&search->block, search->low, search->key, &found, err);
  if (!status && search->hinted && found.answer == KV_BLOCK_NONE)
    status = get_by_index(&search->block, search->key, search->hash, &search->probe, &found, err);
  *answer = found.answer;
  *value = found.value;
  return status;
}

/* ---- Cursor */

void kv_block_cursor_init(struct kv_block_cursor *cursor) {
  memset(cursor, 0, sizeof *cursor);
  kv_buf_init(&cursor->key);
}

void kv_block_cursor_release(struct kv_block_cursor *cursor) {
  kv_buf_release(&cursor->key);
}

void kv_block_cursor_set(struct kv_block_cursor *cursor, const struct kv_block *block) {
  cursor->block = *block;
  cursor->valid = false;
}

/* Reads the entry at next_offset: its key is built on the current one. */
static kv_status cursor_step(struct kv_block_cursor *cursor, struct kv_err *err) {
  cursor->valid = false;
  struct entry entry;
  kv_status status = read_entry(&cursor->block, cursor->next_offset, cursor->key.size, &entry, err);
  if (status) return status;
  cursor->key.size = (size_t)entry.shared;
  if (entry.suffix.size) kv_buf_append(&cursor->key, entry.suffix.data, entry.suffix.size);
  if (cursor->key.status) {
    kv_buf_clear(&cursor->key);
    return kv_fail_nomem(err);
  }
  cursor->value = entry.value;
  cursor->deleted = entry.kind == ENTRY_TOMBSTONE;
  cursor->apart = entry.kind == ENTRY_APART;
  cursor->offset = cursor->next_offset;
  cursor->shared = (size_t)entry.shared;
  cursor->next_offset = entry.next;
  cursor->region_entries++;
  if (entry.next > restart_end(&cursor->block, cursor->restart) ||
      cursor->region_entries > RESTART_INTERVAL) {
    return bad_entry(cursor->offset, err);
  }
  cursor->valid = true;
  return KV_OK;
}

static kv_status cursor_to_restart(struct kv_block_cursor *cursor, uint32_t restart,
                                   struct kv_err *err) {
  kv_buf_clear(&cursor->key);
  cursor->restart = restart;
  cursor->region_entries = 0;
  cursor->next_offset = restart_offset(&cursor->block, restart);
  return cursor_step(cursor, err);
}

/* From a region's first entry to the last one that begins before `end`. */
static kv_status cursor_to_end(struct kv_block_cursor *cursor, size_t end, struct kv_err *err) {
  while (cursor->valid && cursor->next_offset < end) {
    kv_status status = cursor_step(cursor, err);
    if (status) return status;
  }
  return KV_OK;
}

kv_status kv_block_cursor_seek(struct kv_block_cursor *cursor, struct kv_slice key,
                               struct kv_err *err) {
  cursor->valid = false;
  uint32_t restart;
  kv_status status = find_restart(&cursor->block, key, &restart, err);
  if (status) return status;
  status = cursor_to_restart(cursor, restart, err);
  while (!status && cursor->valid &&
         kv_key_compare(cursor->block.comparator, kv_buf_slice(&cursor->key), key) < 0) {
    status = kv_block_cursor_next(cursor, err);
  }
  return status;
}

kv_status kv_block_cursor_place(struct kv_block_cursor *cursor, size_t offset, struct kv_err *err) {
  uint32_t low = 0, high = cursor->block.restart_count;
  cursor->valid = false;
  while (high - low > 1) {
    uint32_t middle = middle_of(low, high);
    if (restart_offset(&cursor->block, middle) <= offset)
      low = middle;
    else
      high = middle;
  }
  kv_status status = cursor_to_restart(cursor, low, err);
  while (!status && cursor->valid && cursor->offset < offset)
    status = kv_block_cursor_next(cursor, err);
  cursor->valid = !status && cursor->valid && cursor->offset == offset;
  return status;
}

kv_status kv_block_cursor_first(struct kv_block_cursor *cursor, struct kv_err *err) {
  cursor->valid = false;
  return cursor_to_restart(cursor, 0, err);
}

kv_status kv_block_cursor_last(struct kv_block_cursor *cursor, struct kv_err *err) {
  cursor->valid = false;
  kv_status status = cursor_to_restart(cursor, cursor->block.restart_count - 1, err);
  return status ? status : cursor_to_end(cursor, cursor->block.entries.size, err);
}

kv_status kv_block_cursor_next(struct kv_block_cursor *cursor, struct kv_err *err) {
  if (!cursor->valid) return KV_OK;
  if (cursor->next_offset < restart_end(&cursor->block, cursor->restart)) {
    return cursor_step(cursor, err);
  }
  if (cursor->restart + 1 < cursor->block.restart_count) {
    return cursor_to_restart(cursor, cursor->restart + 1, err);
  }
  cursor->valid = false;
  return KV_OK;
}

kv_status kv_block_cursor_prev(struct kv_block_cursor *cursor, struct kv_err *err) {
  if (!cursor->valid) return KV_OK;
  cursor->valid = false;
  size_t end = cursor->offset;
  uint32_t restart = cursor->restart;
  if (end == restart_offset(&cursor->block, restart)) {
    if (!restart) return KV_OK;
    restart--;
  }
  kv_status status = cursor_to_restart(cursor, restart, err);
  return status ? status : cursor_to_end(cursor, end, err);
}

/* Whether `shared` is all that two keys have in common at the front, of which it is a part. */
static bool shares_all(struct kv_slice before, struct kv_slice key, size_t shared) {
  return shared == before.size || shared == key.size || before.data[shared] != key.data[shared];
}

/* Whether the index leads to a region, or leaves it to a search. */
static bool index_leads_to(const struct kv_block *block, uint64_t hash, uint32_t region) {
  struct kv_block_probe probe = begin_probe(block, hash);
  enum hint hint = HINT_REGION;
  uint32_t restart = UINT32_MAX;
  while (hint == HINT_REGION && restart != region)
    if (next_hint(block, hash, &probe, &hint, &restart, NULL)) return false;
  return hint != HINT_NONE;
}

bool kv_block_cursor_leads_here(const struct kv_block_cursor *cursor, struct kv_slice before,
                                uint64_t hash) {
  bool first = cursor->region_entries == 1;
  if (!first && !shares_all(before, kv_buf_slice(&cursor->key), cursor->shared)) return false;
  return index_leads_to(&cursor->block, hash, cursor->restart);
}
