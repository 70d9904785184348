/* Cells in one growing array, in the order of appending; text is copied. Thread rule: one thread. */
#include "list.h"

#include <stdarg.h>
#include <stdbool.h>
#include <string.h>

enum { CELLS_FIRST = 64 };

static int list_grow(struct colfam_list *list) {
  sqlite3_int64 capacity = list->capacity ? list->capacity * 2 : CELLS_FIRST;
  struct colfam_cell *cells =
      sqlite3_realloc64(list->cells, (sqlite3_uint64)capacity * sizeof *cells);
  if (!cells) return SQLITE_NOMEM;
  list->cells = cells;
  list->capacity = capacity;
  return SQLITE_OK;
}

/* The next cell, or NULL after a failure. */
static struct colfam_cell *list_add(struct colfam_list *list, int type) {
  if (!list->rc && list->count == list->capacity) list->rc = list_grow(list);
  if (list->rc) return NULL;
  struct colfam_cell *cell = &list->cells[list->count++];
  cell->type = type;
  return cell;
}

/* Takes the text over; NULL is memory gone. */
static void list_take(struct colfam_list *list, char *text) {
  if (!text && !list->rc) list->rc = SQLITE_NOMEM;
  struct colfam_cell *cell = list_add(list, SQLITE_TEXT);
  if (cell) {
    cell->as.text = text;
  } else {
    sqlite3_free(text);
  }
}

static bool is_plain(const char *name) {
  bool plain = name[0] && !(name[0] >= '0' && name[0] <= '9');
  for (const char *c = name; *c && plain; c++) {
    bool letter = (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') || *c == '_';
    plain = letter || (*c >= '0' && *c <= '9') || (*c & 0x80);
  }
  return plain;
}

static void append_name(sqlite3_str *text, const char *name) {
  sqlite3_str_appendf(text, is_plain(name) ? "%s" : "\"%w\"", name);
}

void colfam_list_release(struct colfam_list *list) {
  for (sqlite3_int64 i = 0; i < list->count; i++) {
    if (list->cells[i].type == SQLITE_TEXT) sqlite3_free(list->cells[i].as.text);
  }
  sqlite3_free(list->cells);
  memset(list, 0, sizeof *list);
}

void colfam_list_null(struct colfam_list *list) {
  list_add(list, SQLITE_NULL);
}

void colfam_list_integer(struct colfam_list *list, sqlite3_int64 value) {
  struct colfam_cell *cell = list_add(list, SQLITE_INTEGER);
  if (cell) cell->as.integer = value;
}

void colfam_list_real(struct colfam_list *list, double value) {
  struct colfam_cell *cell = list_add(list, SQLITE_FLOAT);
  if (cell) cell->as.real = value;
}

void colfam_list_text(struct colfam_list *list, const char *text) {
  if (text) {
    list_take(list, sqlite3_mprintf("%s", text));
  } else {
    colfam_list_null(list);
  }
}

void colfam_list_format(struct colfam_list *list, const char *format, ...) {
  va_list args;
  va_start(args, format);
  list_take(list, sqlite3_vmprintf(format, args));
  va_end(args);
}

void colfam_list_str(struct colfam_list *list, sqlite3_str *text) {
  int rc = sqlite3_str_errcode(text);
  if (rc && !list->rc) list->rc = rc;
  char *finished = sqlite3_str_finish(text);
  list_take(list, finished || rc ? finished : sqlite3_mprintf(""));
}

void colfam_list_table(struct colfam_list *list, const char *database, const char *table,
                       bool hidden) {
  sqlite3_str *text = sqlite3_str_new(NULL);
  if (hidden || sqlite3_stricmp(database, "main") != 0) {
    append_name(text, database);
    sqlite3_str_appendchar(text, 1, '.');
  }
  append_name(text, table);
  colfam_list_str(list, text);
}
