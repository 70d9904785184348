/* See numeral.h. By hand, since strtod obeys the locale. */
#include "numeral.h"

#include <math.h>
#include <stdlib.h>

struct text {
  struct kv_slice left;
};

static bool at_digit(const struct text *text) {
  return text->left.size && *text->left.data >= '0' && *text->left.data <= '9';
}

static bool at_one_of(const struct text *text, uint8_t a, uint8_t b) {
  return text->left.size && (*text->left.data == a || *text->left.data == b);
}

static uint8_t take(struct text *text) {
  uint8_t byte = *text->left.data;
  text->left = kv_slice_of(text->left.data + 1, text->left.size - 1);
  return byte;
}

static void skip_blanks(struct text *text) {
  while (text->left.size &&
         (*text->left.data == ' ' || (*text->left.data >= '\t' && *text->left.data <= '\r')))
    take(text);
}

static bool take_minus(struct text *text) {
  return at_one_of(text, '-', '+') && take(text) == '-';
}

enum { DIGITS_MAX = 18, EXPONENT_MAX = 9999 };

/* Decimal digits read so far: mantissa * 10^exponent. Digits beyond the mantissa's room only count. */
struct decimal {
  int64_t mantissa;
  int significant; /* digits of the mantissa */
  int exponent;
  bool any;
};

static void take_digits(struct text *text, struct decimal *decimal, bool fraction) {
  while (at_digit(text)) {
    int digit = take(text) - '0';
    bool room = decimal->significant < DIGITS_MAX;
    if (room) decimal->mantissa = decimal->mantissa * 10 + digit;
    if (room && decimal->mantissa) decimal->significant++;
    int step = fraction ? -(int)room : (int)!room;
    if (abs(decimal->exponent) < EXPONENT_MAX) decimal->exponent += step;
    decimal->any = true;
  }
}

static int take_exponent(struct text *text) {
  int exponent = 0;
  if (!at_one_of(text, 'e', 'E')) return 0;
  take(text);
  bool minus = take_minus(text);
  while (at_digit(text)) {
    int digit = take(text) - '0';
    if (exponent < EXPONENT_MAX) exponent = exponent * 10 + digit;
  }
  return minus ? -exponent : exponent;
}

bool colfam_numeral(struct kv_slice bytes, double *number) {
  struct text text = {bytes};
  struct decimal decimal = {0};
  skip_blanks(&text);
  bool minus = take_minus(&text);
  take_digits(&text, &decimal, false);
  if (at_one_of(&text, '.', '.')) {
    take(&text);
    take_digits(&text, &decimal, true);
  }
  if (!decimal.any) return false;
  int exponent = decimal.exponent + take_exponent(&text);
  /* Doubles end at 1e-324; the power alone may be far below that. */
  long double value = decimal.mantissa ? decimal.mantissa * powl(10, exponent) : 0;
  *number = (double)(minus ? -value : value);
  return true;
}

static bool skip_digits(struct text *text) {
  bool any = at_digit(text);
  while (at_digit(text)) take(text);
  return any;
}

size_t colfam_numeral_reach(struct kv_slice bytes, bool *whole) {
  struct text text = {bytes};
  skip_blanks(&text);
  take_minus(&text);
  bool any = skip_digits(&text);
  if (at_one_of(&text, '.', '.')) {
    take(&text);
    any |= skip_digits(&text);
  }
  bool complete = any;
  if (any && at_one_of(&text, 'e', 'E')) {
    take(&text);
    take_minus(&text);
    complete = skip_digits(&text);
  }
  if (complete) skip_blanks(&text);
  *whole = complete && (!text.left.size || !*text.left.data);
  return bytes.size - text.left.size;
}

bool colfam_is_numeral(struct kv_slice text) {
  bool whole;
  return colfam_numeral_reach(text, &whole) == text.size && whole;
}
