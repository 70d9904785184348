/* Words of SQL text: what is needed to read column definitions and names. Reentrant. */
#ifndef COLFAM_TOKEN_H
#define COLFAM_TOKEN_H

#include <stdbool.h>
#include <stddef.h>

enum colfam_token_kind {
  COLFAM_TOKEN_END,    /* of the text */
  COLFAM_TOKEN_WORD,   /* unquoted name, keyword or number */
  COLFAM_TOKEN_QUOTED, /* "x", [x], `x` or 'x', quotes included in text */
  COLFAM_TOKEN_SIGN,   /* any other single byte */
  COLFAM_TOKEN_BAD     /* a quote that does not end */
};
struct colfam_token {
  enum colfam_token_kind kind;
  const char *text; /* borrowed from the input */
  size_t size;      /* bytes */
};

/* Reads the token at `from` behind blanks and comments; returns the position after it. */
const char *colfam_token_next(const char *from, struct colfam_token *token);
/* Whether it is this keyword (ASCII case ignored) or sign. A quoted token is no keyword. */
bool colfam_token_is(const struct colfam_token *token, const char *word);
/* Whether it can be a name: quoted, or a word that does not begin with a digit or $. */
bool colfam_token_is_name(const struct colfam_token *token);
/* Its text without quotes, doubled quotes made single, as sqlite3_malloc memory; NULL when memory is
** out. */
char *colfam_token_name(const struct colfam_token *token);

#endif
