/* A whole store whose files are damaged: bytes changed, cut off, put in and moved between files; files
** swapped and missing. In table files: rows are right or an error. In table files of somebody who knows the
** checksums: the table fails or answers, and answers alike on every path when it is checked as sound. In
** the database file: all ends. */
#include <string.h>

#include "harness_fuzz.h"
#include "harness_fuzz_store.h"
#include "harness_sql.h"

enum flags { SEALED = 1, PAGES = 2 };
enum { BYTES_MAX = 200000 };

static void replace(struct kv_buf *file, size_t at, size_t gone, struct kv_slice bytes) {
  struct kv_buf next;
  if (at > file->size) at = file->size;
  if (gone > file->size - at) gone = file->size - at;
  kv_buf_init(&next);
  kv_buf_append(&next, file->data, at);
  kv_buf_append(&next, bytes.data, bytes.size);
  kv_buf_append(&next, file->data + at + gone, file->size - at - gone);
  if (next.size <= BYTES_MAX) {
    kv_buf_release(file);
    *file = next;
  } else {
    kv_buf_release(&next);
  }
}

static struct kv_slice part_of(struct fuzz *in, const struct kv_buf *file) {
  size_t at = fuzz_below(in, file->size + 1), size = fuzz_number(in, 2);
  if (size > file->size - at) size = file->size - at;
  return kv_slice_of(file->data + at, size);
}

/* `files` of the store from `first` on are those to be changed. */
static void make_change(struct fuzz *in, struct store *store, int first, int files) {
  uint8_t op = fuzz_byte(in);
  struct kv_buf *file = &store->files[first + op % files].bytes;
  struct kv_buf *other = &store->files[first + op / files % files].bytes;
  size_t at = fuzz_below(in, file->size + 300); /* never of one byte */
  if (at > file->size) at = file->size;
  struct kv_slice bytes;
  switch (op / files / files % 7) {
    case 0:
      bytes = fuzz_slice(in);
      replace(file, at, bytes.size, bytes);
      break;
    case 1:
      if (at < file->size) file->data[at] ^= (uint8_t)(fuzz_byte(in) | 1);
      break;
    case 2:
      file->size = at;
      break;
    case 3:
      replace(file, at, fuzz_byte(in), fuzz_slice(in));
      break;
    case 4: {
      struct kv_buf copy;
      kv_buf_init(&copy);
      bytes = part_of(in, other);
      kv_buf_append(&copy, bytes.data, bytes.size);
      replace(file, at, copy.size, kv_buf_slice(&copy));
      kv_buf_release(&copy);
      break;
    }
    case 5: {
      struct kv_buf swapped = *file;
      *file = *other;
      *other = swapped;
      break;
    }
    default: /* counted from the end, where footers are */
      bytes = fuzz_slice(in);
      at = fuzz_byte(in);
      replace(file, file->size - (at < file->size ? at : file->size), bytes.size, bytes);
  }
}

static enum store_trust damage(struct fuzz *in, struct store *store, uint8_t flags) {
  bool pages = flags & PAGES;
  for (int i = 0; i < 8 && fuzz_left(in); i++)
    make_change(in, store, pages ? 0 : 1, store->table_count + (pages ? 1 : 0));
  if (pages) return STORE_NOTHING;
  if (!(flags & SEALED)) return STORE_ROWS;
  fuzz_store_seal_files(store);
  return STORE_TABLE;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct fuzz in = fuzz_begin(data, size);
  uint8_t flags = fuzz_byte(&in);
  struct store store;
  fuzz_store_take(&store);
  enum store_trust trust = damage(&in, &store, flags);
  fuzz_store_write(&store);
  if (trust == STORE_TABLE) {
    sqlite3 *writer = fuzz_store_open(false);
    fuzz_store_seal_rows(writer, &store);
    sql_close(writer);
  }
  fuzz_store_examine(fuzz_store_open(true), trust);
  fuzz_store_release(&store);
  return 0;
}

/* ---- Seeds: every kind of change, in each kind of file */

void fuzz_seeds(void) {
  for (uint8_t flags = 0; flags < 4; flags++) {
    for (uint8_t op = 0; op < 7; op++) {
      int files = flags & PAGES ? 3 : 2;
      uint8_t input[] = {flags, (uint8_t)(op * files * files + op % files), 200, 1, 0, 0, 3, 7, 7,
                         7};
      fuzz_seed(kv_slice_of(input, sizeof input));
    }
  }
}
