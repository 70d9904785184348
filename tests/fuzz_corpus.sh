#!/usr/bin/env bash
# Writes the corpora of fuzz targets anew: tests/fuzz_corpus.sh PROGRAM... (ordinary programs, whose libFuzzer
# twins are in $BUILD/fuzz). Of the seeds that this code makes, the corpus as it is and what fuzzing has found,
# the smallest inputs that reach every edge are kept. Inputs that failed once are named found-* and stay.
set -euo pipefail

export ASAN_OPTIONS=${ASAN_OPTIONS:-allocator_may_return_null=1}
new=$(mktemp -d)
trap 'rm -rf "$new"' EXIT
for program in "$@"; do
  name=$(basename "$program")
  corpus=tests/corpus/${name#fuzz_} found=$BUILD/fuzz/corpus/${name#fuzz_}
  mkdir -p "$new/$name" "$new/$name-seeds" "$corpus" "$found"
  "$program" --seeds "$new/$name-seeds"
  find "$corpus" -name 'found-*' -exec cp {} "$new/$name" \;
  "$BUILD/fuzz/tests/$name" -merge=1 -use_counters=0 "$new/$name" "$new/$name-seeds" "$corpus" "$found" \
    >"$BUILD/fuzz/$name-merge.log" 2>&1
  find "$corpus" -type f -delete
  for input in "$new/$name"/*; do
    short=$(basename "$input")
    case $short in found-*) ;; *) short=${short:0:10} ;; esac
    mv "$input" "$corpus/$short"
  done
  echo "$name: $(find "$corpus" -type f | wc -l) inputs, $(cat "$corpus"/* | wc -c) bytes"
done
