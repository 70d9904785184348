/* See harness_script.h. What is left out of a statement is overwritten by form feeds, which are blanks to
** SQLite and are not printed: so the places of its other parts stay. */
#include "harness_script.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "harness_pair.h"

enum { BLANK = '\f' };

void script_draw(struct script *script, uint64_t seed) {
  struct random_sql g;
  memset(script, 0, sizeof *script);
  random_sql_init(&g, seed, &script->scenario);
  for (int i = 0; i < SCRIPT_STATEMENTS; i++) {
    if (i % 50 >= 48 || i >= SCRIPT_STATEMENTS - 2) {
      random_sql_whole(&g, i % 2, &script->statements[i]);
    } else {
      random_sql_next(&g, &script->statements[i]);
    }
  }
}

void script_release(struct script *script) {
  random_scenario_release(&script->scenario);
  for (int i = 0; i < SCRIPT_STATEMENTS; i++) random_statement_release(&script->statements[i]);
}

int script_run(const struct script *script, uint64_t *errors, char **difference) {
  static struct pair pair;
  pair_open(&pair, "differential", &script->scenario);
  int i = 0;
  *difference = NULL;
  while (i < SCRIPT_STATEMENTS &&
         (script->left_out[i] || pair_run(&pair, &script->statements[i], difference)))
    i++;
  *errors = (uint64_t)pair.errors;
  pair_close(&pair);
  return i;
}

/* ---- Shrinking */

struct shrinking {
  struct script *script;
  int failed;
  time_t end;
};

static bool still_differs(struct shrinking *shrinking) {
  uint64_t errors;
  char *difference;
  int at = script_run(shrinking->script, &errors, &difference);
  sqlite3_free(difference);
  return at < SCRIPT_STATEMENTS;
}

static bool in_time(const struct shrinking *shrinking) {
  return time(NULL) < shrinking->end;
}

static void leave_out(struct script *script, int first, int count, bool out) {
  for (int i = first; i < first + count && i < SCRIPT_STATEMENTS; i++) script->left_out[i] = out;
}

/* Shorter and shorter stretches of statements. */
static void drop_statements(struct shrinking *shrinking) {
  struct script *script = shrinking->script;
  leave_out(script, shrinking->failed + 1, SCRIPT_STATEMENTS, true);
  for (int size = (shrinking->failed + 1) / 2; size >= 1; size /= 2) {
    for (int i = 0; i <= shrinking->failed && in_time(shrinking); i += size) {
      bool kept[SCRIPT_STATEMENTS];
      memcpy(kept, script->left_out, sizeof kept);
      leave_out(script, i, size, true);
      if (memcmp(kept, script->left_out, sizeof kept) != 0 && !still_differs(shrinking))
        memcpy(script->left_out, kept, sizeof kept);
    }
  }
}

static void drop_setups(struct shrinking *shrinking) {
  struct random_scenario *scenario = &shrinking->script->scenario;
  for (int i = scenario->setup_count - 1; i > 2 && in_time(shrinking); i--) {
    scenario->setups[i].not_needed = true;
    if (!still_differs(shrinking)) scenario->setups[i].not_needed = false;
  }
}

/* Parts of a statement, the largest first. */
static void drop_parts(struct shrinking *shrinking, struct random_statement *statement) {
  for (int i = statement->span_count - 1; i >= 0 && in_time(shrinking); i--) {
    struct random_span span = statement->spans[i];
    char *part = statement->sql + span.begin;
    size_t size = (size_t)(span.end - span.begin);
    char *kept = sqlite3_mprintf("%.*s", (int)size, part);
    memset(part, BLANK, size);
    if (!still_differs(shrinking)) memcpy(part, kept, size);
    sqlite3_free(kept);
  }
}

/* Bound values become literals. */
static void drop_bindings(struct shrinking *shrinking, struct random_statement *statement) {
  while (statement->binding_count && in_time(shrinking)) {
    int last = statement->binding_count - 1;
    char name[8];
    int length = snprintf(name, sizeof name, "?%d", last + 1);
    char *before = statement->sql, *at = strstr(before, name);
    if (at)
      statement->sql = sqlite3_mprintf("%.*s(%s)%s", (int)(at - before), before,
                                       statement->bindings[last].sql, at + length);
    statement->binding_count = last;
    if (at && strstr(statement->sql, name)) statement->binding_count = last + 1;
    bool differs = still_differs(shrinking);
    sqlite3_free(differs ? at ? before : NULL : statement->sql);
    if (differs) continue;
    statement->sql = before;
    statement->binding_count = last + 1;
    return;
  }
}

void script_shrink(struct script *script, int failed, int seconds) {
  struct shrinking shrinking = {script, failed, time(NULL) + seconds};
  drop_statements(&shrinking);
  drop_setups(&shrinking);
  for (int i = 0; i <= failed; i++)
    if (!script->left_out[i]) drop_parts(&shrinking, &script->statements[i]);
  for (int i = 0; i <= failed; i++)
    if (!script->left_out[i]) drop_bindings(&shrinking, &script->statements[i]);
}

/* ---- Printing */

static void print_text(const char *text) {
  for (; *text; text++)
    if (*text != BLANK) putchar(*text);
}

/* As the shell reads it in double quotes. */
static void print_quoted(const char *text) {
  putchar('"');
  for (; *text; text++) {
    if (*text == '"' || *text == '\\') putchar('\\');
    putchar(*text);
  }
  puts("\"");
}

static void print_statement(const struct random_statement *statement) {
  for (int i = 0; i < statement->binding_count; i++) {
    printf(".parameter set ?%d ", i + 1);
    print_quoted(statement->bindings[i].sql);
  }
  if (statement->kind == RANDOM_CURSOR_OPEN)
    printf("-- cursor %d: opened, %d rows read: ", statement->cursor, statement->rows + 1);
  print_text(statement->sql);
  puts(";");
}

void script_print(const struct script *script) {
  const struct random_scenario *scenario = &script->scenario;
  puts(".load build/colfam");
  if (scenario->attached) puts("ATTACH 'differential-aux.db' AS aux;");
  printf("PRAGMA %s;\nPRAGMA journal_mode = %s;\nPRAGMA synchronous = %s;\n", scenario->settings,
         scenario->journal_mode, scenario->synchronous);
  for (int i = 0; i < scenario->setup_count; i++)
    if (!scenario->setups[i].not_needed) printf("%s;\n", scenario->setups[i].sql[PAIR_SUBJECT]);
  for (int i = 0; i < SCRIPT_STATEMENTS; i++)
    if (!script->left_out[i]) print_statement(&script->statements[i]);
}
