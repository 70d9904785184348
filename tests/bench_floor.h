/* What SQLite itself costs on the way to a virtual table: `bench_floor`, a table t(k, v) whose rows lie in a
** hash table in memory. Nobody can be faster through SQL. No transactions, no order, no file.
** And `bench_keys`, keys handed to a statement by a pointer, for SQLite's own tables. */
#ifndef BENCH_FLOOR_H
#define BENCH_FLOOR_H

#include <sqlite3.h>

#include "buf.h"

/* Bound as "bench_keys": the floor's hidden column `keys = ?`, or the argument of bench_keys(?). Borrowed
** while the statement runs. */
struct bench_key_list {
  const struct kv_slice *keys;
  size_t count;
};
#define BENCH_KEYS_POINTER "bench_keys"

int bench_floor_register(sqlite3 *db);

#endif
