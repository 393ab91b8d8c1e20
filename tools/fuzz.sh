#!/usr/bin/env bash
# tools/fuzz.sh [SECONDS [TARGET...]]: builds the fuzz targets and runs each, from its seeds in tests/fuzz/seeds, for so long (60),
# as many at once as there are cores. Fails if one finds an input that breaks it, and says where that input is. What they learn
# is kept in build/fuzz/corpus for the next run. The last line counts targets.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:-60}
shift $(($# > 0))
targets=("$@")
((${#targets[@]})) || targets=(gguf http messages request stop template)

tools/setup.sh fuzz
tools/build.sh release llama-common
tools/build.sh fuzz "${targets[@]/%/_fuzz}"

# Of what an input may take: bytes, seconds. A template runs in a process of its own, which has limits of its own.
declare -A longest=([gguf]=20000 [http]=20000) patience=([template]=120)

fuzz() {
  local target=$1 place=build/fuzz/found/$1/
  mkdir -p "build/fuzz/corpus/$target" "$place"
  rm -f "$place"*
  if build/fuzz/tests/fuzz/"${target}_fuzz" -max_total_time="$seconds" -print_final_stats=1 -rss_limit_mb=4096 \
    -timeout="${patience[$target]:-10}" -max_len="${longest[$target]:-4000}" -artifact_prefix="$place" \
    "build/fuzz/corpus/$target" "tests/fuzz/seeds/$target" </dev/null >"build/fuzz/$target.log" 2>&1; then
    printf '%-9s %s inputs, nothing found\n' "$target" \
      "$(sed -n 's/^stat::number_of_executed_units: *//p' "build/fuzz/$target.log")"
  else
    printf '%-9s FAILED; the input is in %s, the report in build/fuzz/%s.log, which ends:\n' "$target" "$place" "$target"
    tail -n 40 "build/fuzz/$target.log"
    return 1
  fi
}

# One process a core takes targets off the list.
export ASAN_OPTIONS=allocator_may_return_null=1 UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1
failed=0 running=0
for target in "${targets[@]}"; do
  if ((running == $(nproc))); then
    wait -n || ((++failed))
    running=$((running - 1))
  fi
  fuzz "$target" &
  running=$((running + 1))
done
for ((; running > 0; --running)); do
  wait -n || ((++failed))
done
printf 'fuzzers: %d passed, %d failed\n' $((${#targets[@]} - failed)) "$failed"
exit $((failed > 0))
