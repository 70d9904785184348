/* For fuzz targets: right checksums put where bytes say that one is, so that the code behind them is
** reached. */
#ifndef HARNESS_FUZZ_SEAL_H
#define HARNESS_FUZZ_SEAL_H

#include "harness_fuzz.h"
#include "table_format.h"

/* A table file of this place: its footer, the parts that the footer names, and the data blocks that its
** fences name when these are plain. Returns the footer's checksum, 0 for bytes that are no table file. */
uint64_t fuzz_seal_table(struct kv_buf *file, const struct kv_table_place *place);

/* A log batch of this row: its seal, when it says that it has one, and its checksum. */
void fuzz_seal_batch(struct kv_buf *batch, const uint8_t uuid[16], uint64_t seq, uint64_t seal);

#endif
