#!/usr/bin/env bash
# The house rules that a program can check (`make lint`, which builds the extension first). Every check is
# run; the exit code is 1 when one found something.
set -uo pipefail
cd "$(dirname "$0")/.." || exit

SO=${COLFAM_SO:-build/colfam.so}
read -ra flags <<<"${SOURCE_FLAGS:?run by make lint}"
failed=0

# The engine's modules in order: a file includes only headers of modules named before its own, or its own.
# env_posix.c belongs to env, and so on: the longest name that a file's name starts with.
modules=(status mem buf code compress compare hash digest stream stats env open_files key custom build apart iter pool cache places slots entries order uncounted batch memtable log
  filter block table_format table_write table_read copy kv merge layout view run_iter family values read scan compact_pick
  compact_plan compact_account compact_check compact
  salvage_run salvage check)

report() { # WHAT, findings on standard input
  local findings
  findings=$(cat)
  [ -z "$findings" ] && return
  printf 'lint: %s\n%s\n' "$1" "$findings" >&2
  failed=1
}

module_of() { # NAME (no folder, no suffix): prints its place in the list
  local i found='' length=0
  for i in "${!modules[@]}"; do
    case $1 in
    "${modules[i]}" | "${modules[i]}"_*)
      if [ ${#modules[i]} -gt "$length" ]; then found=$i length=${#modules[i]}; fi
      ;;
    esac
  done
  echo "$found"
}

includes() { sed -n 's/^ *# *include *"\(.*\)".*/\1/p' "$1"; }

layers() {
  local file name place header other
  for file in engine/*.[ch]; do
    name=$(basename "${file%.*}")
    place=$(module_of "$name")
    if [ -z "$place" ]; then
      echo "$file: its module is not in the list of tests/lint.sh"
      continue
    fi
    for header in $(includes "$file"); do
      other=$(module_of "$(basename "$header" .h)")
      if [ -z "$other" ] || [ "$other" -gt "$place" ]; then
        echo "$file: includes $header, which comes after it"
      fi
    done
    grep -n 'include.*sqlite3' "$file" | sed "s|^|$file:|"
  done
  for file in ext/*.[ch]; do
    for header in $(includes "$file"); do
      [ "$header" = engine/kv.h ] || [ -e "ext/$header" ] || echo "$file: includes $header"
    done
  done
}

own_header_first() {
  local file first
  for file in engine/*.c ext/*.c; do
    [ -e "${file%.c}.h" ] || continue
    first=$(includes "$file" | head -n 1)
    [ "$first" = "$(basename "${file%.c}.h")" ] || echo "$file: includes $first first"
  done
}

stand_alone_headers() {
  local header compiler
  for header in engine/*.h ext/*.h tests/harness*.h; do
    for compiler in gcc clang; do
      # Included twice, from a file of its own: guards, and no warning about a main file.
      printf '#include "%s"\n#include "%s"\n' "$header" "$header" |
        "$compiler" "${flags[@]}" -fsyntax-only -x c - 2>&1
    done
  done
  # The public one is for C++ too.
  echo '#include "ext/colfam.h"' | clang -I. -Wall -Wextra -Werror -pedantic -fsyntax-only -x c++ - 2>&1
}

exported_symbols() {
  nm -D --defined-only "$SO" | awk '$3 !~ /^sqlite3_colfam(_readonly)?_init$/ { print $3 " is exported" }'
}

allocation() {
  grep -nE '(^|[^_.>[:alnum:]])(malloc|calloc|realloc|free|strdup|alloca)\(' engine/*.[ch] ext/*.[ch] |
    grep -v '^engine/mem.c:' | grep -vE ':[[:space:]]*(\*\*|/\*)'
}

sizes() {
  local file lines
  for file in engine/*.[ch] ext/*.[ch] tests/*.[ch]; do
    lines=$(wc -l <"$file")
    [ "$lines" -le 800 ] || echo "$file: $lines lines; 800 is the most"
  done
  # Code is held to 100 columns by clang-format; comments may run a little further.
  awk 'length > 110 { print FILENAME ":" FNR ": over 110 columns" }' engine/*.[ch] ext/*.[ch] tests/*.[ch]
}

# clang knows that a kv_status must be checked; gcc does not.
both_compilers() {
  local compiler
  for compiler in gcc clang; do
    printf '%s\n' engine/*.c ext/*.c |
      xargs -P "$(nproc)" -n 8 "$compiler" "${flags[@]}" -fsyntax-only 2>&1
    printf '%s\n' tests/*.c |
      xargs -P "$(nproc)" -n 8 "$compiler" "${flags[@]}" -Wno-string-concatenation -fsyntax-only \
        -DCOLFAM_SO='""' -DCOLFAM_TEST_SO='""' 2>&1
    printf '%s\n' ext/*.c |
      xargs -P "$(nproc)" -n 8 "$compiler" "${flags[@]}" -fsyntax-only \
        -DSQLITE_CORE -DCOLFAM_TEST 2>&1
  done
}

tidy() {
  local files=() file
  for file in engine/*.c ext/*.c; do
    case $file in
    engine/mem.c | engine/status.c | engine/buf.c | ext/error.c) ;; # what lint.h stands in for
    *) files+=("$file") ;;
    esac
  done
  tidy_files '' "${files[@]}" -- "${flags[@]}" -include tests/lint.h
  tidy_files '' engine/mem.c engine/status.c engine/buf.c ext/error.c -- "${flags[@]}"
  # Tests run under sanitizers instead of the analyzer, and may be blunt with text of their own.
  local blunt='-clang-analyzer-*,-cert-err34-c,-bugprone-not-null-terminated-result'
  blunt+=',-bugprone-branch-clone,-bugprone-suspicious-missing-comma'
  tidy_files "$blunt" tests/*.c -- "${flags[@]}" -Wno-string-concatenation
}
tidy_files() { # CHECKS FILE... -- FLAGS...
  local checks=$1 files=()
  shift
  while [ "$1" != -- ]; do
    files+=("$1")
    shift
  done
  shift
  printf '%s\0' "${files[@]}" |
    xargs -0 -P "$(nproc)" -I{} clang-tidy --quiet --checks="$checks" {} -- "$@" \
      -DCOLFAM_SO='""' -DCOLFAM_TEST_SO='""' 2>/dev/null
}

suspicious() {
  cppcheck --quiet -j "$(nproc)" --std=c11 --enable=warning,performance,portability \
    --inline-suppr --suppress=missingIncludeSystem --suppress=readdirCalled \
    --suppress=incorrectLogicOperator --suppress='memleak:ext/*' --suppress=deallocret:engine/env_posix.c \
    --suppress=invalidFunctionArg:engine/env_posix.c \
    --suppress=nullPointerRedundantCheck --suppress=uninitStructMember \
    --library=posix --library=sqlite3 -D_GNU_SOURCE -U__clang__ -I. -Iengine -Iext \
    engine/*.c ext/*.c tests/harness*.c 2>&1
}

scripts() {
  shellcheck tests/*.sh .ci/run 2>&1
}

machine_paths() {
  grep -rnIE '/(home|root|work)/' . --exclude-dir=.git --exclude-dir=build --exclude-dir=corpus --exclude=lint.sh
}

# Documents that the text names and that are not here.
documents() {
  local file name
  grep -roIE '[A-Za-z0-9_./-]*[A-Za-z0-9_-]\.md\b' . --exclude-dir=.git --exclude-dir=build --exclude-dir=corpus |
    while IFS=: read -r file name; do
      [ -e "$name" ] || [ -e "$(dirname "$file")/$name" ] || [ -e "engine/$name" ] ||
        echo "$file: names $name, which is not here"
    done
  grep -nE '\b(ARCHITECTURE|VTAB-FACTS|SYLLABUS|RELIABILITY)\b' engine/* ext/* tests/*.[ch] ./*.md
}

# Reads have one shape (ext/README.md): the engine is asked for keys in these files alone.
read_calls() {
  grep -nE '\bkv_(get|get_head|exists|may_exist|multi_get(_many|_heads|_into)?|(exists|may_exist)_many(_resume)?|scan_open)\(' ext/*.c |
    grep -vE '^ext/(api|api_probe|check_table|cursor|functions|spellings|update|walk)\.c:'
}

leftovers() {
  grep -nE 'TODO|FIXME|#if 0' engine/*.[ch] ext/*.[ch] tests/*.[ch]
}


report "files that include what stands above them" < <(layers)
report "sources that do not include their own header first" < <(own_header_first)
report "headers that do not compile alone" < <(stand_alone_headers)
report "symbols that leak out of the extension" < <(exported_symbols)
report "memory taken past mem.c or SQLite" < <(allocation)
report "files too long or too wide" < <(sizes)
report "unfinished work" < <(leftovers)
report "reads of another shape" < <(read_calls)
report "documents that are not here" < <(documents)
report "paths of one machine" < <(machine_paths)
report "shellcheck" < <(scripts)
report "warnings of gcc or clang" < <(both_compilers)
report "cppcheck" < <(suspicious)
report "clang-tidy" < <(tidy)
[ $failed -eq 0 ] && echo "lint: nothing found"
exit $failed
