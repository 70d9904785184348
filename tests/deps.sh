#!/usr/bin/env bash
# Installs what is missing on a Debian machine: tests/deps.sh [--check] GROUP...
#
# Groups: make, build, demo, test, lint, valgrind, cov, fuzz, newest, node, bench. Each needs a few things, looked for as
# things (a command, a header that compiles, a file), not as packages, so that other ways of installing them count. With
# --check nothing is installed: what is missing is named with the apt line, and the exit code is 1.
# Prints nothing when all is there.
set -euo pipefail

CC=${CC:-cc}
missing=()

need() { # PACKAGE PROBE...
  local package=$1
  shift
  "$@" >/dev/null 2>&1 || missing+=("$package")
}
has_command() { command -v "$1"; }
has_node_headers() { # beside the command, or where Debian has them
  test -r "$(dirname "$(command -v node)")/../include/node/node.h" || test -r /usr/include/node/node.h
}
has_fuzzer() {
  echo 'int LLVMFuzzerTestOneInput(void) { return 0; }' |
    clang -fsanitize=fuzzer,address,undefined -x c - -o /dev/null
}
has_header() { echo "#include <$1>" | "$CC" -E -x c -; }

compiler_package() {
  case $(basename "$CC") in
  clang*) basename "$CC" ;;
  *) echo gcc ;;
  esac
}

group() {
  case $1 in
  make) need make has_command make ;;
  build)
    need "$(compiler_package)" has_command "$CC"
    need libc6-dev has_header stdio.h
    need binutils has_command ar
    need libsqlite3-dev has_header sqlite3ext.h
    need libzstd-dev has_header zstd.h
    need libxxhash-dev has_header xxhash.h
    ;;
  demo)
    need sqlite3 has_command sqlite3
    need unicode-data test -r /usr/share/unicode/UnicodeData.txt
    ;;
  test)
    need check has_header check.h
    need libsubunit-dev has_header subunit/child.h
    need python3 /usr/bin/python3 -c 'import sqlite3'
    ;;
  lint)
    local command
    for command in gcc clang clang-tidy clang-format cppcheck shellcheck; do
      need "$command" has_command "$command"
    done
    group bench
    ;;
  valgrind) need valgrind has_command valgrind ;;
  cov) need gcc has_command gcov ;;
  fuzz)
    need clang has_command clang
    need libclang-rt-14-dev has_fuzzer
    ;;
  bench)
    need librocksdb-dev has_header rocksdb/c.h
    need libleveldb-dev has_header leveldb/c.h
    need liblmdb-dev has_header lmdb.h
    ;;
  newest) need npm has_command npm ;;
  node)
    need nodejs has_command node
    need npm has_command npm
    need libnode-dev has_node_headers
    need g++ has_command g++
    need python3 has_command python3
    ;;
  *)
    echo "deps.sh: no group '$1'" >&2
    exit 2
    ;;
  esac
}

look() {
  missing=()
  local name
  for name in "${groups[@]}"; do group "$name"; done
}

as_root() {
  if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo "$@"; fi
}
apt_install() {
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends \
    "${missing[@]}" >&2
}
apt_update() { as_root env DEBIAN_FRONTEND=noninteractive apt-get update >&2; }
lists_are_empty() { ! compgen -G '/var/lib/apt/lists/*_Packages*' >/dev/null; }

check_only=no
if [ "${1:-}" = --check ]; then
  check_only=yes
  shift
fi
groups=("$@")
look
[ ${#missing[@]} -gt 0 ] || exit 0

if [ $check_only = yes ] || ! command -v apt-get >/dev/null; then
  echo "missing: ${missing[*]}" >&2
  echo "install with: sudo apt-get install ${missing[*]}" >&2
  exit 1
fi
echo "installing what is missing, with apt-get: ${missing[*]}"
if lists_are_empty || ! apt_install; then
  apt_update
  apt_install
fi
look
if [ ${#missing[@]} -gt 0 ]; then
  echo "deps.sh: still missing after the installation: ${missing[*]}" >&2
  exit 1
fi
