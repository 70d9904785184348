/* colfam for C programs: one call that reads many keys of several tables, past SQL's parser and one value at
** a time. The library is loaded or linked as ever; its functions come over a connection, as a pointer:
**
**   const struct colfam_api *api = NULL;
**   rc = sqlite3_prepare_v2(db, "SELECT colfam_api(?1)", -1, &statement, NULL);   (an older library: fails)
**   sqlite3_bind_pointer(statement, 1, &api, COLFAM_API_POINTER, NULL);
**   sqlite3_step(statement);
**   sqlite3_finalize(statement);
**
** It is good until the connection is closed, and longer while a result is there.
** This header needs sqlite3.h only, and may be used from C11 and C++.
** Thread rule: api and results belong to their connection: no two threads at a time in any of them. */
#ifndef COLFAM_H
#define COLFAM_H

#include <sqlite3.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The entry points, for programs that link the library: give one to sqlite3_auto_extension. The second lets
** existing tables be read and nothing else. */
struct sqlite3_api_routines;
int sqlite3_colfam_init(sqlite3 *db, char **message, const struct sqlite3_api_routines *api);
int sqlite3_colfam_readonly_init(sqlite3 *db, char **message,
                                 const struct sqlite3_api_routines *api);

/* One SQL value. */
struct colfam_value {
  int type; /* SQLITE_INTEGER, SQLITE_FLOAT, SQLITE_TEXT, SQLITE_BLOB or SQLITE_NULL */
  sqlite3_int64 integer;
  double real;
  const void *bytes;  /* of a text (UTF-8, no NUL needed or promised) or blob; NULL when empty */
  sqlite3_int64 size; /* in bytes */
};

/* Keys of one table, one after another, each of as many values as the key has columns, in the key's order
** (a table without a primary key: its rowid). A value is compared as a bound parameter is by
** `column = ?`: the column's affinity is applied to it. NULL equals nothing. */
struct colfam_keys {
  const struct colfam_value *values; /* count * columns */
  sqlite3_int64 count;
  int columns; /* of a key */
};

/* Without this header's functions, a SELECT takes keys by a pointer too: sqlite3_bind_pointer(statement, i,
** &keys, COLFAM_KEYS_POINTER, NULL) for the parameter of `colfam_keys = ?`. Borrowed while it runs. */
#define COLFAM_KEYS_POINTER "colfam_keys"

struct colfam_request {
  const char *table;       /* as in SQL: "t", "aux.t", "\"odd name\"" */
  struct colfam_keys keys; /* in any order, also several times the same; borrowed for the call */
};

/* The rows that a multi_get found. Values are not copied: a result keeps the blocks, memtables and pending
** writes alive in which they lie, and the files. It stays as it is whatever happens to the table later
** (writes, COMMIT, ROLLBACK, DROP), and may be read and freed after sqlite3_close too. */
struct colfam_result;

/* Answers of may_exist. exists gives ABSENT or PRESENT. */
#define COLFAM_ABSENT 0
#define COLFAM_PRESENT 1
#define COLFAM_UNKNOWN 2 /* not told without reading a block */

/* A place of the caller's for one column of one row. */
struct colfam_room {
  void *bytes; /* for texts and blobs; may be NULL when capacity is 0 */
  sqlite3_int64 capacity;
  int found; /* set: whether the row is there */
  struct colfam_value
      value; /* set: NULL without a row. Its bytes are those above; they are NULL, and nothing was
                             ** written, when its size is over the capacity: ask again with more */
};
/* What is wanted of the rows of one request. */
struct colfam_into {
  const int *columns; /* numbers; -1 is the rowid of a table that has one */
  int column_count;
  struct colfam_room *rooms; /* keys.count * column_count, those of a key together */
};

/* What a probe found out without reading a block, and how far it came. It stays as it is whatever happens to
** the tables later, as a result does. */
struct colfam_probe;

/* An order of keys that the program makes, for tables with `comparator = <name>`: one of the two functions
** says it.
**
** encode, a sort-key encoder, is called for each text or blob of a key that is written or looked for, and
** makes of it the bytes by which memcmp orders keys. Values that it makes alike are one key, like 'a' and
** 'A' under NOCASE. It writes them when `room` is enough and returns their size; else it is called again
** with as much room. A negative size says that memory is out. It is asked for one value at a time, of any
** column of the key.
**
** compare is called for each comparison that the store makes, about twenty for each key that is read or
** written. Of a key of one column it gets two texts or two blobs; of a key of several columns the whole keys
** as the engine encodes them (engine/FORMAT.md, Keys). It may call only the same bytes equal: an INSERT,
** UPDATE, flush or merge that sees it say so of others ends with SQLITE_MISUSE.
**
** Either function must say the same for the same bytes for ever, and compare must be a total order: else
** rows are missed, or colfam_check reports damage. Both are called by any thread of the process, at a time,
** as `threads` says, in the middle of the store's work: they must not call SQLite, or fork. */
struct colfam_order {
  int size; /* sizeof(struct colfam_order), of the header that the program was compiled with */
  const char *name; /* a letter, then up to 62 letters, digits, '_', '-' and '.' */
  void *context;
  int (*compare)(void *context, const void *a, int a_size, const void *b, int b_size);
  int (*encode)(void *context, const void *bytes, int size, void *into, int room);
  int threads; /* COLFAM_THREADS_... */
  /* OWN_CONTEXT: open makes the context of a thread when it first calls, close ends it with the thread or
  ** with the order. A thread that is out of memory then opens one for each call and closes it after that.
  ** close is called below a lock of the order: it must not use a table of it. */
  void *(*open)(void *context);
  void (*close)(void *thread_context);
  /* compare always gets copies, which it may write to: above 0, in buffers of so many bytes that are used
  ** again (64 is a good size), and longer keys in memory of their own; below 0 all keys in memory of their
  ** own; 0: no copies. */
  int copy_bytes;
  void (*destroy)(void *context); /* when the order has been unregistered; NULL is allowed */
};
#define COLFAM_THREADS_ANY 0         /* several threads may call at a time */
#define COLFAM_THREADS_OWN_CONTEXT 1 /* likewise, each with a context of its own */
#define COLFAM_THREADS_MUTEX 2       /* one at a time */
#define COLFAM_THREADS_ADAPTIVE 3 /* one at a time; who waits tries for a while before it sleeps */

#define COLFAM_API_VERSION 3
#define COLFAM_API_POINTER "colfam_api_ptr"

/* Members are only ever added at the end, each with a new version.
** A call reads all its requests at one snapshot (of each database file): that of the transaction in
** progress, else of a read transaction of its own, which ends with it. It sees the connection's pending
** writes. All functions that give an int give SQLITE_OK or an error code. `message`, when not NULL, then
** gets a text to be freed with sqlite3_free, or NULL. */
struct colfam_api {
  int version; /* of the library: COLFAM_API_VERSION or above */
  int size;    /* of the library's struct, in bytes */

  int (*multi_get)(const struct colfam_api *api, const struct colfam_request *requests, int count,
                   struct colfam_result **result, char **message);
  /* answers[i] for the i-th key, counted over all requests. Cheaper than multi_get: no value is touched. */
  int (*exists)(const struct colfam_api *api, const struct colfam_request *requests, int count,
                unsigned char *answers, char **message);
  /* From filters, fences and memory alone: no block is read. */
  int (*may_exist)(const struct colfam_api *api, const struct colfam_request *requests, int count,
                   unsigned char *answers, char **message);

  /* Whether the key of that request was found: 1 or 0. Numbers count from 0, as in the requests. */
  int (*found)(const struct colfam_result *result, int request, sqlite3_int64 key);
  /* Columns that the table was declared with. */
  int (*column_count)(const struct colfam_result *result, int request);
  /* A column of a row that was found; column -1 is the rowid of a table that has one. Bytes are borrowed
  ** from the result. SQLITE_RANGE when there is no such row or column. */
  int (*column)(struct colfam_result *result, int request, sqlite3_int64 key, int column,
                struct colfam_value *value);
  void (*free_result)(struct colfam_result *result); /* NULL is allowed */

  /* From version 2 on. */

  /* multi_get into the caller's memory: into[i] for requests[i]; nothing is kept. */
  int (*multi_get_into)(const struct colfam_api *api, const struct colfam_request *requests,
                        int count, const struct colfam_into *into, char **message);
  /* may_exist that can go on: `probed` tells the answer of a key, and `go_on` makes the unknown ones ABSENT
  ** or PRESENT, as they were when it was probed: it reads what is left to be read, no filter is asked twice.
  ** After a failure it may be called again. */
  int (*probe)(const struct colfam_api *api, const struct colfam_request *requests, int count,
               struct colfam_probe **probe, char **message);
  int (*probed)(const struct colfam_probe *probe, int request, sqlite3_int64 key);
  int (*go_on)(struct colfam_probe *probe, char **message);
  void (*free_probe)(struct colfam_probe *probe); /* NULL is allowed */

  /* From version 3 on. */

  /* An order is registered for the whole process and every connection that has loaded this
  ** library, before its tables are used. The struct is copied. SQLITE_BUSY when the name is taken. */
  int (*register_order)(const struct colfam_api *api, const struct colfam_order *order,
                        char **message);
  /* SQLITE_BUSY while a connection or a result still refers to a table that has the order. */
  int (*unregister_order)(const struct colfam_api *api, const char *name, char **message);
  /* Asks a registered order about all pairs and triples of these texts or blobs, a few hundred at most:
  ** SQLITE_OK, or SQLITE_CONSTRAINT and what contradicts what, SQLITE_TOOBIG for more bytes than a key can
  ** have. Calls different bytes equal: a contradiction for compare. */
  int (*check_order)(const struct colfam_api *api, const char *name,
                     const struct colfam_value *values, int count, char **message);
};

#ifdef __cplusplus
}
#endif

#endif
