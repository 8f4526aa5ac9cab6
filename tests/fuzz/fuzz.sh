#!/bin/sh
# fuzz.sh FUZZER CORPUS: fuzzes for $FUZZ_SECONDS (60). New inputs stay in the build folder; a crash
# is written to the working directory and named in the output: add it to the corpus with the fix.
set -eu
found=$(basename "$1").found
mkdir -p "$found"
exec "$1" -max_total_time="${FUZZ_SECONDS:-60}" -timeout=10 -rss_limit_mb=1024 -print_final_stats=1 \
  "$found" "$2"
