#!/usr/bin/env bash
# Runs sql/demo.sql through the sqlite3 shell and compares what it prints with what awk makes of the same
# file. Every line with a number in it must be an expected one, and every expected line must come, in
# order; the measured figures are held against the files on disk and against each other.
set -euo pipefail
export LC_ALL=C # bytes, for every awk
cd "$(dirname "$0")/.."

data=/usr/share/unicode/UnicodeData.txt
so=${COLFAM_SO:-$PWD/build/colfam.so}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

sed "s|\./build/colfam|${so%.so}|; s|\./build/|$dir/|g" sql/demo.sql | sqlite3 -batch >"$dir/printed" 2>&1 || {
  cat "$dir/printed"
  echo "demo.sql failed"
  exit 1
}

# Lines beginning with ~ are regular expressions for the whole line.
awk -F';' '
function number(hex,   n, i) {
  for (i = 1; i <= length(hex); i++) n = n * 16 + index("123456789ABCDEF", substr(hex, i, 1))
  return n + 0
}
function utf8(n) {
  if (n < 128) return sprintf("%c", n)
  if (n < 2048) return bytes(192 + int(n / 64), 128 + n % 64)
  if (n < 65536) return bytes(224 + int(n / 4096), 128 + int(n / 64) % 64, 128 + n % 64)
  return bytes(240 + int(n / 262144), 128 + int(n / 4096) % 64, 128 + int(n / 64) % 64, 128 + n % 64)
}
function bytes(a, b, c, d) {
  return c == "" ? sprintf("%c%c", a, b) : d == "" ? sprintf("%c%c%c", a, b, c) : \
    sprintf("%c%c%c%c", a, b, c, d)
}
function known(list,   parts, n, i, count) {
  n = split(list, parts, " ")
  for (i = 1; i <= n; i++) count += (parts[i] in name)
  return count + 0
}
function asked(list,   parts) { return split(list, parts, " ") }
function plan(words) { print "~[`|]--.*characters VIRTUAL TABLE INDEX [0-9]+:" words }
{
  code = number($1)
  name[code] = $2
  category[code] = $3
  if (NR == 1 || code < least) least = code
  if (code > greatest) greatest = code
  capitals += $3 == "Lu"
  payload += length($0) - length($1)
}
END {
  printf "characters: %d rows; ordinary: %d rows; rows that differ: 0\n", NR, NR
  printf "after a flush: 1 file, %d rows, code %d to %d\n", NR, least, greatest

  list = "888 889 896 907 909 930 1328 1367 1368 1419"
  print "~ *`--SCAN characters( EXISTS)? VIRTUAL TABLE INDEX [0-9]+:exists code"
  printf "of %d code points %d are assigned\n", asked(list), known(list)
  printf "~blocks_read 0 .*\n~probe_absent %d .*\n~probes %d .*\n", asked(list) - known(list), asked(list)

  list = "65 233 937 1046 8364 9731 9835 65533 128512 129419"
  print "~ *`--SCAN characters( EXISTS)? VIRTUAL TABLE INDEX [0-9]+:exists code"
  printf "of %d code points %d are assigned\n", asked(list), known(list)
  printf "~probe_absent %d .*\n~probes %d .*\n", asked(list) - known(list), asked(list)

  list = "65 233 888 937 1046 8364 9731 128512"
  plan("multi-get code")
  n = split(list, parts, " ")
  for (i = 1; i <= n; i++) if ((code = parts[i] + 0) in name)
    printf "U+%04X|%s|%s|%s\n", code, utf8(code), category[code], name[code]
  printf "~gets 0 .*\n~multi_get_blocks [1-%d] .*\n~multi_get_filter_passes 1 .*\n", n
  printf "~multi_get_keys %d .*\n~multi_gets 1 .*\n", n

  plan("range code")
  count = 0
  for (code = 9823; code >= 9812 && count < 4; code--) if (code in name) {
    printf "U+%04X|%s|%s\n", code, utf8(code), name[code]
    count++
  }
  printf "without capital letters: %d rows\n", NR + 1 - capitals
  printf "rolled back to the savepoint: %d rows\n", NR + 1
  printf "rolled back altogether: %d rows\n", NR

  # One row in, one out, one changed.
  rows = NR + !(57345 in name) - (65 in name)
  printf "characters: %d rows; ordinary: %d rows; rows that differ: 0\n", rows, rows
  print "~(colfam|ordinary) [0-9]+[.][0-9]+ [0-9]+"
  print "~(colfam|ordinary) [0-9]+[.][0-9]+ [0-9]+"
  printf "characters: %d rows; ordinary: %d rows; rows that differ: 0\n", rows, rows
  printf "U+%04X|%s|seen in the demo\n", 9731, name[9731]
  print "U+E001|FIRST OF OURS|"
  print "problems found by colfam_check: 0"
  print "~ordinary table [0-9]+"
  print "~characters, sorted files [0-9]+"
  print "~characters, shadow tables [0-9]+"
  print rows >ROWS
  print payload >PAYLOAD
}' ROWS="$dir/rows" PAYLOAD="$dir/payload" "$data" >"$dir/expected"

# Since 3.51 SQLite makes a join of EXISTS, where before it planned a subquery.
sed -E 's/ +/ /g; s/ $//; /CORRELATED SCALAR SUBQUERY/d' "$dir/printed" | grep '[0-9]' >"$dir/facts" || true
awk '
NR == FNR { expected[++n] = $0; next }
{
  i++
  good = substr(expected[i], 1, 1) == "~" ? $0 ~ ("^" substr(expected[i], 2) "$") : $0 == expected[i]
  if (!good) { print "printed:  " $0; print "expected: " expected[i]; bad = 1; exit }
}
END {
  if (!bad && i < n) { print "not printed: " expected[i + 1]; bad = 1 }
  exit bad
}' "$dir/expected" "$dir/facts" || {
  cat "$dir/printed"
  exit 1
}

fail() {
  cat "$dir/printed"
  echo "$1"
  exit 1
}
figure() { sed -nE "s/^$1 +([0-9]+) *$/\1/p" "$dir/printed"; }
rows=$(cat "$dir/rows") payload=$(cat "$dir/payload")
ordinary=$(figure 'ordinary table')
files=$(figure 'characters, sorted files')
shadow=$(figure 'characters, shadow tables')
on_disk=$(cat "$dir"/demo.db-colfam/* | wc -c)
database=$(wc -c <"$dir/demo.db")
[ "$files" -eq "$on_disk" ] || fail "sorted files: $on_disk bytes on disk"
[ "$ordinary" -ge "$payload" ] || fail "the ordinary table holds $payload bytes of text alone"
[ $((ordinary + shadow)) -le "$database" ] || fail "the database file has only $database bytes"
[ "$files" -lt "$ordinary" ] || fail "compressed files should be smaller than the ordinary table"
awk -v rows="$(wc -l <"$data")" '
$2 ~ /^[0-9.]+$/ && ($1 == "colfam" || $1 == "ordinary") {
  seconds = $2 < 0.001 ? 0.001 : $2
  if ($3 > rows / (seconds - 0.0006) || $3 < rows / (seconds + 0.0006)) exit 1
}' "$dir/printed" || fail "rows a second do not follow from the seconds"
echo "demo: $(wc -l <"$dir/expected") printed facts are as awk has them ($rows rows at the end)"
