/* A data block: sorted entries with shared key prefixes, restart points and a hash index from key to
** restart (FORMAT.md, Data block). The builder makes the plain bytes; compression, checksum and place
** are the table's. */
#ifndef KV_BLOCK_H
#define KV_BLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "buf.h"
#include "compare.h"
#include "iter.h"
#include "status.h"

struct kv_block_builder {
  const struct kv_comparator *comparator; /* set after init; NULL: bytewise */
  bool leaves_index;                      /* set after init: readers are to make it */
  struct kv_buf bytes;
  struct kv_buf restarts; /* u32 offsets */
  struct kv_buf hashes;   /* u32 hash and u32 slot of every key, for the index */
  struct kv_buf last_key;
  uint32_t count;
  uint32_t region_entries; /* since the last restart */
  size_t region_start;
};
void kv_block_builder_init(struct kv_block_builder *builder);
void kv_block_builder_release(struct kv_block_builder *builder);
/* Empties it for the next block. */
void kv_block_builder_reset(struct kv_block_builder *builder);
/* Keys strictly ascending, else KV_MISUSE. hash = kv_hash_key(key). */
kv_status kv_block_builder_add(struct kv_block_builder *builder, struct kv_slice key, uint64_t hash,
                               struct kv_slice value, bool deleted, struct kv_err *err);
/* The same with a reference (apart.h) in the value's place. */
kv_status kv_block_builder_add_apart(struct kv_block_builder *builder, struct kv_slice key,
                                     uint64_t hash, struct kv_slice reference, struct kv_err *err);
/* Bytes that finish would give now, with the index. */
size_t kv_block_builder_size(const struct kv_block_builder *builder);
/* Appends restarts and index; the block is borrowed until reset. */
kv_status kv_block_builder_finish(struct kv_block_builder *builder, struct kv_slice *block,
                                  struct kv_err *err);

/* A parsed block over borrowed bytes. */
struct kv_block {
  struct kv_slice entries;
  const uint8_t *restarts;
  uint32_t restart_count;
  uint32_t index; /* what the tail says of the hash index */
  const uint8_t *slots;
  uint32_t slot_count;                    /* 0: no hash index */
  const struct kv_comparator *comparator; /* NULL, bytewise, unless set afterwards */
};
/* Bounds only: entries are checked when walked. KV_CORRUPT. */
kv_status kv_block_init(struct kv_block *block, struct kv_slice bytes, struct kv_err *err);
/* A parsed block's counts as one number. With it the same bytes are a parsed block again, and no line of
** theirs is touched for that. */
uint64_t kv_block_shape(const struct kv_block *block);
struct kv_block kv_block_of_shape(struct kv_slice bytes, uint64_t shape);

/* A block without a hash index gets one: its keys are listed, and a copy of it, of kv_block_indexed_size
** bytes, is written `into`. KV_CORRUPT, KV_NOMEM. */
bool kv_block_wants_index(const struct kv_block *block);
kv_status kv_block_list_keys(const struct kv_block *block, struct kv_buf *infos,
                             struct kv_err *err);
size_t kv_block_indexed_size(const struct kv_block *block, const struct kv_buf *infos);
void kv_block_put_index(const struct kv_block *block, const struct kv_buf *infos, uint8_t *into);

/* That the hash index names restarts only, as lookups of absent keys rely on; for kv_table_verify. */
kv_status kv_block_check_index(const struct kv_block *block, struct kv_err *err);

enum kv_block_answer { KV_BLOCK_NONE, KV_BLOCK_PUT, KV_BLOCK_DELETED, KV_BLOCK_APART };
/* *value is borrowed from the block's bytes; for KV_BLOCK_APART it is a reference, a sound one (apart.h). */
kv_status kv_block_get(const struct kv_block *block, struct kv_slice key, uint64_t hash,
                       enum kv_block_answer *answer, struct kv_slice *value, struct kv_err *err);

/* How far a lookup has come in the hash index. */
struct kv_block_probe {
  uint32_t slot;    /* the next to look at */
  uint32_t slots;   /* looked at */
  uint32_t regions; /* of these, that had the key's tag */
};

/* The entry at a byte of the entries, if it is this key's as far as its own bytes tell; else NONE. Who says
** where it stands vouches for the key: of a long one only both ends are compared. */
kv_status kv_block_get_at(const struct kv_block *block, struct kv_slice key, size_t offset,
                          enum kv_block_answer *answer, struct kv_slice *value, struct kv_err *err);

/* The same lookup in steps of one load each, of which each asks for the next one's line: many lookups that
** take their steps in turn overlap their loads. */
struct kv_block_search {
  struct kv_block block;
  struct kv_slice key; /* borrowed */
  uint64_t hash;
  struct kv_block_probe probe;
  bool placed; /* the entry is known, if it is the key's: */
  size_t offset;
  bool hinted;        /* the region is the index's: the key may be in a later one of the probe's */
  uint32_t low, high; /* restarts: the key is in low's region when they are neighbours */
  enum { KV_SEARCH_SLOT, KV_SEARCH_RESTART, KV_SEARCH_ENTRY, KV_SEARCH_DONE } step;
};
void kv_block_search_begin(struct kv_block_search *search, const struct kv_block *block,
                           struct kv_slice key, uint64_t hash);
/* As kv_block_get_at. */
void kv_block_search_begin_at(struct kv_block_search *search, const struct kv_block *block,
                              struct kv_slice key, size_t offset);
/* Until the step is KV_SEARCH_DONE. */
kv_status kv_block_search_step(struct kv_block_search *search, struct kv_err *err);
/* The answer of one that is done; *value as in kv_block_get. */
kv_status kv_block_search_end(struct kv_block_search *search, enum kv_block_answer *answer,
                              struct kv_slice *value, struct kv_err *err);

/* A position in a block; the embedding iterator owns it. Moves set valid=false at either end; damage
** gives KV_CORRUPT, never a read outside the bytes. */
struct kv_block_cursor {
  struct kv_block block;
  struct kv_buf key;
  struct kv_slice value;
  bool deleted;
  bool apart; /* the value is a reference, a sound one (apart.h) */
  bool valid;
  size_t offset; /* of the current entry */
  size_t shared; /* bytes of its key that are said to be those of the key before */
  size_t next_offset;
  uint32_t restart;        /* the restart region the current entry is in */
  uint32_t region_entries; /* of them, up to the current one */
};
void kv_block_cursor_init(struct kv_block_cursor *cursor);
void kv_block_cursor_release(struct kv_block_cursor *cursor);
void kv_block_cursor_set(struct kv_block_cursor *cursor, const struct kv_block *block);
kv_status kv_block_cursor_seek(struct kv_block_cursor *cursor, struct kv_slice key,
                               struct kv_err *err);
/* To the entry that begins at a byte of the entries; not valid when none does. */
kv_status kv_block_cursor_place(struct kv_block_cursor *cursor, size_t offset, struct kv_err *err);
kv_status kv_block_cursor_first(struct kv_block_cursor *cursor, struct kv_err *err);
kv_status kv_block_cursor_last(struct kv_block_cursor *cursor, struct kv_err *err);
kv_status kv_block_cursor_next(struct kv_block_cursor *cursor, struct kv_err *err);
kv_status kv_block_cursor_prev(struct kv_block_cursor *cursor, struct kv_err *err);
/* Whether a lookup of the current key, which has the hash, comes to this entry, in a block whose keys ascend
** and whose entries the cursor has walked from the first on; `before` is the key before this one. */
bool kv_block_cursor_leads_here(const struct kv_block_cursor *cursor, struct kv_slice before,
                                uint64_t hash);

#endif
