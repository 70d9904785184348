#!/usr/bin/env bash
# Runs programs and scripts on the newest SQLite: tests/newest.sh PROGRAM...
#
# Its sources come out of npm packages, fetched by name once into $BUILD/newest: sqlite3.c of better-sqlite3
# for a library that is preloaded, and a whole SQLite of sqlite3 for the shell, which takes no library but
# its own. All of it runs twice:
#
#   debug   SQLite's own assertions on (SQLITE_DEBUG), calls checked (SQLITE_ENABLE_API_ARMOR)
#   plain   in defensive mode and without trust in the schema, as the shell has been since 3.42
#
# Scripts that drive the shell run once. With QUICK=1 the debug build is spared the crash and model tests and
# most of the differential one. Without npm, or out of reach of its packages, there is nothing to
# run: that is said, and the exit code is 0.
set -euo pipefail
cd "$(dirname "$0")/.."

folder=$(realpath -m "${BUILD:-build}/newest")
debug=$folder/debug/libsqlite3.so.0 plain=$folder/libsqlite3.so.0
common=(-w -fPIC -pthread -DSQLITE_ENABLE_COLUMN_METADATA -DSQLITE_ENABLE_DBSTAT_VTAB -DSQLITE_ENABLE_FTS5
  -DSQLITE_ENABLE_MATH_FUNCTIONS -DSQLITE_ENABLE_STAT4 -DSQLITE_ENABLE_UNLOCK_NOTIFY -DSQLITE_USE_URI)

skip() {
  echo "test-newest: skipped, $1"
  exit 0
}

fetch() { # PACKAGE@VERSION: leaves it in $folder/PACKAGE
  local package=${1%@*}
  [ -e "$folder/$package" ] && return
  rm -rf "$folder/fetched"
  mkdir -p "$folder/fetched"
  timeout 120 npm pack --silent --pack-destination "$folder/fetched" "$1" >/dev/null || return
  tar -xzf "$folder"/fetched/*.tgz -C "$folder/fetched"
  mv "$folder/fetched/package" "$folder/$package"
}

fetch_shell() {
  fetch sqlite3@6 || return
  [ -e "$folder/shell" ] && return
  mkdir -p "$folder/unpacked"
  tar -xzf "$folder"/sqlite3/deps/sqlite-autoconf-*.tar.gz -C "$folder/unpacked"
  mv "$folder"/unpacked/sqlite-autoconf-* "$folder/shell"
}

build() { # FILE, options and sources
  local file=$1
  shift
  mkdir -p "$(dirname "$file")"
  [ -e "$file" ] || { "$CC" "${common[@]}" -o "$file.made" "$@" -ldl -lm && mv "$file.made" "$file"; }
}

build_all() {
  local shared=(-shared "-Wl,-soname,libsqlite3.so.0" "$folder/better-sqlite3/deps/sqlite3/sqlite3.c")
  build "$debug" -O1 -g -DSQLITE_DEBUG -DSQLITE_ENABLE_API_ARMOR "${shared[@]}" &
  build "$folder/bin/sqlite3" -O1 "$folder/shell/shell.c" "$folder/shell/sqlite3.c"
  build "$plain" -O2 -DSQLITE_LIKE_DOESNT_MATCH_BLOBS "${shared[@]}"
  wait $!
}

# A program that finds another SQLite than this one fails.
run_on() { # LIBRARY, programs
  local library=$1 version
  shift
  version=$(LD_PRELOAD=$library /usr/bin/python3 -c 'import sqlite3; print(sqlite3.sqlite_version)')
  grep -q "^#define SQLITE_VERSION  *\"$version\"" "$folder/better-sqlite3/deps/sqlite3/sqlite3.h" || return
  echo "== SQLite $version, $library"
  COLFAM_SQLITE=$version COLFAM_WRAP="env LD_PRELOAD=$library" bash tests/run.sh "$@"
}

preloaded=() debugged=() shell=()
for program in "$@"; do
  case $program in
  *_check.*)
    shell+=("$program")
    continue
    ;;
  */crash_* | */model_*) [ -n "${QUICK:-}" ] || debugged+=("$program") ;;
  *) debugged+=("$program") ;;
  esac
  preloaded+=("$program")
done

bash tests/deps.sh newest || skip "npm is not here"
fetch better-sqlite3@12 || skip "npm cannot fetch better-sqlite3"
fetch_shell || skip "npm cannot fetch sqlite3"
build_all
failed=0
COLFAM_DEFENSIVE=1 run_on "$plain" "${preloaded[@]}" || failed=1
echo "== The shell of SQLite $("$folder/bin/sqlite3" --version | cut -d' ' -f1)"
PATH=$folder/bin:$PATH bash tests/run.sh "${shell[@]}" || failed=1
if [ -n "${QUICK:-}" ]; then export COLFAM_STEPS=50000; fi
run_on "$debug" "${debugged[@]}" || failed=1
exit $failed
