/* Writes one sorted table file (SST): data blocks, filter, fences, properties, footer (FORMAT.md, Table
** file). The file is created exclusively under a random id, synced (file, then directory) in finish, and
** abandoned after any failure: a file that saw a failed write or sync is never continued.
** Thread rule: one thread at a time. */
#ifndef KV_TABLE_WRITE_H
#define KV_TABLE_WRITE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "apart.h"
#include "buf.h"
#include "compare.h"
#include "digest.h"
#include "env.h"
#include "status.h"

/* Where and how. Borrowed as long as the writer lives. */
struct kv_table_config {
  struct kv_env *env;
  const char *dir;       /* created, and its parent synced, when missing */
  const char *like_path; /* file whose mode new files take, or NULL */
  uint8_t uuid[16];      /* of the store: seeds every checksum */
  int compression_level; /* zstd 1..19; 0 = none */
  int filter_bits;       /* 0..20 */
  uint32_t block_bytes;
  const struct kv_comparator *comparator; /* NULL: bytewise */
  uint32_t
      value_bytes;   /* larger values are to be stored apart; 0 = none. The writer only notes it */
  bool holds_values; /* a value file (apart.h) */
  size_t dictionary_bytes; /* of a dictionary, where it pays; 0 = never one */
};

#define KV_LEVEL_VALUES 64 /* the level of value files: they are in no run */

/* What a manifest keeps of a file: one row of t_cffile. smallest and largest are owned by whoever owns
** the struct (kv_file_info_release). */
struct kv_file_info {
  uint64_t id;    /* 63 random bits, not 0 */
  uint32_t level; /* or KV_LEVEL_VALUES */
  uint64_t seq;   /* newest commit in it: orders runs */
  struct kv_buf smallest;
  struct kv_buf largest;
  uint64_t bytes;   /* file size */
  uint64_t entries; /* tombstones included */
  uint64_t tombstones;
  uint64_t checksum; /* of the footer: names this very file */
};
void kv_file_info_init(struct kv_file_info *info);
void kv_file_info_release(struct kv_file_info *info);
/* `to` is overwritten, not released; on failure it is unchanged. */
kv_status kv_file_info_copy(struct kv_file_info *to, const struct kv_file_info *from,
                            struct kv_err *err);

/* "<dir>/<16 hex digits>.sst" appended with its NUL (size counts it). */
void kv_table_path(struct kv_buf *path, const char *dir, uint64_t id);

/* Makes the entries of config's directory durable, and its own in its parent. */
kv_status kv_table_sync_dir(const struct kv_table_config *config, struct kv_err *err);

struct kv_table_writer;
kv_status kv_table_writer_new(const struct kv_table_config *config, struct kv_table_writer **writer,
                              struct kv_err *err);
/* Closes; unlinks the file unless finish succeeded. */
void kv_table_writer_free(struct kv_table_writer *writer);
uint64_t kv_table_writer_id(const struct kv_table_writer *writer);
/* Keys strictly ascending. After a failure only free is allowed. */
kv_status kv_table_writer_add(struct kv_table_writer *writer, struct kv_slice key,
                              struct kv_slice value, bool deleted, struct kv_err *err);
/* The same for an entry whose value is stored apart; the reference is a sound one (apart.h). */
kv_status kv_table_writer_add_apart(struct kv_table_writer *writer, struct kv_slice key,
                                    struct kv_slice reference, struct kv_err *err);
/* Where the entry that was added last stands: its block, and its byte in the block's entries. */
void kv_table_writer_position(const struct kv_table_writer *writer, uint32_t *block,
                              uint32_t *offset);
/* What its references name so far. */
const struct kv_value_uses *kv_table_writer_uses(const struct kv_table_writer *writer);
/* Bytes given to the file so far, for splitting outputs. */
uint64_t kv_table_writer_bytes(const struct kv_table_writer *writer);
/* Writes the tail, syncs file and directory and fills *info but for level and seq. At least one entry,
** else KV_MISUSE. *digest (may be NULL) is the sum of what was added. The file stays locked (env.h) until
** the writer is freed or its handle is closed. */
kv_status kv_table_writer_finish(struct kv_table_writer *writer, struct kv_file_info *info,
                                 struct kv_digest *digest, struct kv_err *err);
/* Takes over the handle of a finished file, and with it its lock; closed with kv_env_close_write. */
struct kv_write_file *kv_table_writer_take_file(struct kv_table_writer *writer);

#endif
