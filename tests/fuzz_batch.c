/* Log batches. Any bytes, sealed with a right checksum or not: refused, or entries of which the encoder makes
** the same entries again, and the same bytes where these are as short as can be. Any writes, marks and
** rollbacks: the batch holds what an array of writes holds, and so does what is decoded from it. */
#include <stdlib.h>
#include <string.h>

#include "batch.h"
#include "code.h"
#include "harness_fuzz_seal.h"
#include "hash.h"

enum { WRITES_MAX = 300, MARKS_MAX = 8, SEQ = 7, SEAL = 99 };
static const uint8_t uuid[16] = "fuzz batch uuid";

static struct kv_batch *new_batch(void) {
  struct kv_batch *batch;
  ck_assert_int_eq(kv_batch_new(NULL, &batch, NULL), KV_OK);
  return batch;
}

/* ---- Any bytes */

/* With the seal that it has. */
static void encode(struct kv_batch *batch, struct kv_slice like, struct kv_buf *out) {
  uint64_t seal;
  kv_status status = kv_batch_seal(like, &seal)
                         ? kv_batch_encode_sealed(batch, uuid, SEQ, seal, false, out, NULL)
                         : kv_batch_encode(batch, uuid, SEQ, out, NULL);
  ck_assert_int_eq(status, KV_OK);
}

/* All entries of bytes that were accepted go into the batch. */
static size_t read_all(struct kv_batch_reader *reader, struct kv_batch *batch) {
  kv_status status;
  size_t count = 0;
  for (; kv_batch_reader_next(reader, &status, NULL); count++) {
    status = reader->deleted ? kv_batch_delete(batch, reader->key, 0, NULL)
                             : kv_batch_put(batch, reader->key, reader->value, 0, NULL);
    ck_assert_int_eq(status, KV_OK);
  }
  ck_assert_int_eq(status, KV_OK);
  return count;
}

static void expect_same_entries(struct kv_batch_reader *a, struct kv_batch_reader *b) {
  kv_status status;
  while (kv_batch_reader_next(a, &status, NULL)) {
    ck_assert(kv_batch_reader_next(b, &status, NULL));
    ck_assert(kv_slice_equal(a->key, b->key) && kv_slice_equal(a->value, b->value) &&
              a->deleted == b->deleted);
  }
  ck_assert_int_eq(status, KV_OK);
  ck_assert(!kv_batch_reader_next(b, &status, NULL));
}

static void expect_same_again(struct kv_slice bytes) {
  struct kv_batch_reader reader, again;
  struct kv_batch *batch = new_batch();
  struct kv_buf encoded;
  kv_buf_init(&encoded);
  ck_assert_int_eq(kv_batch_reader_init(&reader, bytes, uuid, SEQ, NULL), KV_OK);
  size_t count = read_all(&reader, batch);
  ck_assert_uint_eq(count, kv_batch_count(batch));
  encode(batch, bytes, &encoded);
  ck_assert_uint_le(encoded.size, reader.bytes);
  if (encoded.size == bytes.size && !reader.apart)
    ck_assert(kv_slice_equal(kv_buf_slice(&encoded), bytes));
  kv_batch_reader_release(&reader);
  ck_assert_int_eq(kv_batch_reader_init(&reader, bytes, uuid, SEQ, NULL), KV_OK);
  ck_assert_int_eq(kv_batch_reader_init(&again, kv_buf_slice(&encoded), uuid, SEQ, NULL), KV_OK);
  expect_same_entries(&reader, &again);
  kv_batch_reader_release(&reader);
  kv_batch_reader_release(&again);
  ck_assert_int_eq(kv_batch_reader_init(&reader, bytes, uuid, SEQ + 1, NULL), KV_CORRUPT);
  kv_buf_release(&encoded);
  kv_batch_unref(batch);
}

static void run_bytes(struct fuzz *in, bool sealed) {
  struct kv_slice rest = fuzz_rest(in);
  struct kv_buf bytes;
  struct kv_batch_reader reader;
  kv_buf_init(&bytes);
  kv_buf_append(&bytes, rest.data, rest.size);
  if (sealed) {
    kv_buf_append_u64(&bytes, 0);
    fuzz_seal_batch(&bytes, uuid, SEQ, SEAL);
  }
  kv_status status = kv_batch_reader_init(&reader, kv_buf_slice(&bytes), uuid, SEQ, NULL);
  ck_assert(status == KV_OK || status == KV_CORRUPT || status == KV_VERSION);
  if (!status) kv_batch_reader_release(&reader);
  if (!status) expect_same_again(kv_buf_slice(&bytes));
  kv_buf_release(&bytes);
}

/* ---- Writes against an array of them, of which the last one of a key counts */

struct write {
  struct kv_slice key, value;
  bool deleted;
  int rows;
};

struct model {
  struct write writes[WRITES_MAX];
  size_t count;
  struct {
    struct kv_batch_mark mark;
    size_t count;
  } marks[MARKS_MAX];
  size_t mark_count;
};

static void write_one(struct fuzz *in, uint8_t op, struct kv_batch *batch, struct model *model) {
  struct write *write = &model->writes[model->count++];
  *write = (struct write){.key = fuzz_slice(in), .deleted = op & 1, .rows = (op >> 1) % 3 - 1};
  if (!write->deleted) write->value = fuzz_slice(in);
  kv_status status = write->deleted
                         ? kv_batch_delete(batch, write->key, write->rows, NULL)
                         : kv_batch_put(batch, write->key, write->value, write->rows, NULL);
  ck_assert_int_eq(status, KV_OK);
}

static void mark_or_roll_back(uint8_t op, struct kv_batch *batch, struct model *model) {
  if ((op & 1) && model->mark_count) {
    size_t mark = (size_t)(op >> 1) % model->mark_count;
    kv_batch_rollback(batch, model->marks[mark].mark);
    model->count = model->marks[mark].count;
    model->mark_count = mark + 1;
  } else if (model->mark_count < MARKS_MAX) {
    model->marks[model->mark_count].mark = kv_batch_mark(batch);
    model->marks[model->mark_count++].count = model->count;
  }
}

static bool is_last_of_key(const struct model *model, size_t i) {
  for (size_t j = i + 1; j < model->count; j++)
    if (kv_slice_equal(model->writes[i].key, model->writes[j].key)) return false;
  return true;
}

static void expect_model(struct kv_batch *batch, const struct model *model) {
  size_t live = 0;
  int64_t rows = 0;
  for (size_t i = 0; i < model->count; i++) {
    const struct write *write = &model->writes[i];
    rows += write->rows;
    if (!is_last_of_key(model, i)) continue;
    live++;
    struct kv_slice value = {0};
    enum kv_batch_answer answer = kv_batch_get(batch, write->key, kv_hash_key(write->key), &value);
    ck_assert_int_eq(answer, write->deleted ? KV_BATCH_DELETED : KV_BATCH_PUT);
    if (!write->deleted) ck_assert(kv_slice_equal(value, write->value));
  }
  ck_assert_uint_eq(live, kv_batch_count(batch));
  ck_assert_int_eq(rows, kv_batch_rows_delta(batch));
}

static void run_writes(struct fuzz *in) {
  struct model model = {.count = 0};
  struct kv_batch *batch = new_batch();
  struct kv_buf encoded;
  while (fuzz_left(in) && model.count < WRITES_MAX) {
    uint8_t op = fuzz_byte(in);
    if (op & 0x80) {
      mark_or_roll_back(op & 0x7f, batch, &model);
    } else {
      write_one(in, op, batch, &model);
    }
    if (op & 0x40) expect_model(batch, &model);
  }
  expect_model(batch, &model);
  kv_buf_init(&encoded);
  ck_assert_int_eq(kv_batch_encode(batch, uuid, SEQ, &encoded, NULL), KV_OK);
  expect_same_again(kv_buf_slice(&encoded));
  kv_buf_clear(&encoded);
  ck_assert_int_eq(kv_batch_encode_sealed(batch, uuid, SEQ, SEAL, true, &encoded, NULL), KV_OK);
  expect_same_again(kv_buf_slice(&encoded));
  kv_buf_release(&encoded);
  kv_batch_unref(batch);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct fuzz in = fuzz_begin(data, size);
  uint8_t mode = fuzz_byte(&in) % 4;
  if (mode == 3) {
    run_writes(&in);
  } else {
    run_bytes(&in, mode);
  }
  return 0;
}

/* ---- Seeds: batches with and without their checksum, and writes */

static void seed_batch(size_t writes, bool sealed, struct kv_slice value) {
  struct kv_batch *batch = new_batch();
  struct kv_buf input;
  for (size_t i = 0; i < writes; i++) {
    uint8_t key[2] = {(uint8_t)i, 0};
    struct kv_slice k = kv_slice_of(key, i % 3),
                    v = kv_slice_of(value.data, value.size * (i % 6) / 5);
    ck_assert_int_eq(
        i % 4 == 3 ? kv_batch_delete(batch, k, -1, NULL) : kv_batch_put(batch, k, v, 1, NULL),
        KV_OK);
  }
  kv_buf_init(&input);
  kv_buf_append_byte(&input, 0);
  kv_status status = sealed ? kv_batch_encode_sealed(batch, uuid, SEQ, SEAL, true, &input, NULL)
                            : kv_batch_encode(batch, uuid, SEQ, &input, NULL);
  ck_assert_int_eq(status, KV_OK);
  fuzz_seed(kv_buf_slice(&input));
  input.data[0] = 1;
  input.size -= 8;
  fuzz_seed(kv_buf_slice(&input));
  kv_buf_release(&input);
  kv_batch_unref(batch);
}

void fuzz_seeds(void) {
  static uint8_t large[4000]; /* zeros: packed */
  seed_batch(0, false, kv_slice_of("value", 5));
  seed_batch(1, true, kv_slice_of("value", 5));
  seed_batch(9, false, kv_slice_of("value", 5));
  seed_batch(6, true, kv_slice_of(large, sizeof large));
  static const char writes[] = "\3\4\1a\2xy\200\4\1a\1z\100\1b\0\201\5\1a\177\2ab\0";
  fuzz_seed(kv_slice_of(writes, sizeof writes - 1));
}
