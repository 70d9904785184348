/* See token.h. Blanks, comments and quotes are SQLite's. Any thread. */
#include "token.h"

#include <string.h>

#include "sqlite_api.h"

static bool is_blank(char c) {
  return c == ' ' || (c >= '\t' && c <= '\r' && c != '\v');
}

static bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

static bool is_word_byte(char c) {
  char letter = (char)(c | 0x20);
  return (letter >= 'a' && letter <= 'z') || is_digit(c) || c == '_' || c == '$' || (c & 0x80);
}

static const char *skip_comment(const char *from) {
  if (from[0] == '-' && from[1] == '-') {
    const char *end = strchr(from, '\n');
    return end ? end + 1 : from + strlen(from);
  }
  if (from[0] == '/' && from[1] == '*') {
    const char *end = strstr(from + 2, "*/");
    return end ? end + 2 : from + strlen(from);
  }
  return from;
}

static const char *skip_blanks(const char *from) {
  for (;;) {
    while (is_blank(*from)) from++;
    const char *after = skip_comment(from);
    if (after == from) return from;
    from = after;
  }
}

static char closing_quote(char opening) {
  if (opening == '[') return ']';
  return opening == '"' || opening == '\'' || opening == '`' ? opening : 0;
}

/* Behind the closing quote, or NULL without one. In brackets nothing is doubled. */
static const char *end_of_quoted(const char *from, char close) {
  for (const char *at = from + 1; *at; at++) {
    if (*at != close) continue;
    if (close == ']' || at[1] != close) return at + 1;
    at++;
  }
  return NULL;
}

const char *colfam_token_next(const char *from, struct colfam_token *token) {
  const char *start = skip_blanks(from);
  const char *end = start;
  char close = closing_quote(*start);
  if (!*start) {
    token->kind = COLFAM_TOKEN_END;
  } else if (close) {
    end = end_of_quoted(start, close);
    token->kind = end ? COLFAM_TOKEN_QUOTED : COLFAM_TOKEN_BAD;
    if (!end) end = start + strlen(start);
  } else if (is_word_byte(*start)) {
    token->kind = COLFAM_TOKEN_WORD;
    while (is_word_byte(*end)) end++;
  } else {
    token->kind = COLFAM_TOKEN_SIGN;
    end++;
  }
  token->text = start;
  token->size = (size_t)(end - start);
  return end;
}

bool colfam_token_is(const struct colfam_token *token, const char *word) {
  if (token->kind != COLFAM_TOKEN_WORD && token->kind != COLFAM_TOKEN_SIGN) return false;
  return strlen(word) == token->size && sqlite3_strnicmp(token->text, word, (int)token->size) == 0;
}

bool colfam_token_is_name(const struct colfam_token *token) {
  if (token->kind == COLFAM_TOKEN_QUOTED) return true;
  return token->kind == COLFAM_TOKEN_WORD && !is_digit(*token->text) && *token->text != '$';
}

char *colfam_token_name(const struct colfam_token *token) {
  char *name = sqlite3_malloc64(token->size + 1);
  if (!name) return NULL;
  char close = token->kind == COLFAM_TOKEN_QUOTED ? closing_quote(*token->text) : 0;
  size_t from = close ? 1 : 0, end = token->size - from, size = 0;
  for (size_t i = from; i < end; i++) {
    name[size++] = token->text[i];
    if (close && token->text[i] == close) i++;
  }
  name[size] = 0;
  return name;
}
