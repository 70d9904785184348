/* For benches of what only SQL has: the connection behind a store of bench_peer_sql.c. */
#ifndef BENCH_PEER_SQL_H
#define BENCH_PEER_SQL_H

#include <sqlite3.h>
#include <stddef.h>

sqlite3 *bench_sql_db(void *store);
/* Runs statements that must work; rows are thrown away. */
void bench_sql(sqlite3 *db, const char *sql);
sqlite3_stmt *bench_sql_prepare(sqlite3 *db, const char *sql);
/* Its first row's first column; the statement is reset. */
sqlite3_int64 bench_sql_step(sqlite3_stmt *statement);
/* A connection as the stores have it: WAL, the extension and the floor loaded. */
sqlite3 *bench_sql_open(const char *dir, size_t cache_bytes, int durable);

#endif
