#!/usr/bin/env bash
# What CI runs beside the tests. Without an argument all of it; else the named parts:
# layers, format, tidy, sanitizers, fuzz.
#   FUZZ_SECONDS=60     time for each fuzz target
#   TIDY_BASE=REV       tidy the files changed since REV (default: the parent of the last 20 commits)
set -euo pipefail
cd "$(dirname "$0")/.."
sources() { git ls-files '*.h' '*.cc'; }

layers() {
  python3 tools/check_layers.py
  # Listed, never failing: what grows past the house's sizes.
  sources | xargs wc -l | awk '$2 != "total" && (($2 ~ /\.h$/ && $1 > 300) || $1 > 600) {print "long: " $0}'
}

format() { sources | xargs clang-format-19 --dry-run -Werror; }

tidy() {
  cmake --preset tidy >/dev/null
  # Generated sources must exist before tidy reads the files that include them.
  local base=${TIDY_BASE:-$(git rev-list -n 20 HEAD | tail -1)}
  mapfile -t changed < <(git diff --name-only --diff-filter=d "$base" -- 'src/*.cc' | grep -v _fuzz.cc || true)
  [ "${#changed[@]}" = 0 ] && changed=(src/base/csv.cc)
  # CI's time is bounded: the newest 40.
  printf '%s\n' "${changed[@]:0:40}" |
    xargs -P "$(nproc)" -n 1 clang-tidy-19 -p build/tidy --quiet --extra-arg=-Wno-unknown-warning-option
}

sanitizer_environment() {
  export ASAN_OPTIONS=detect_leaks=1:allocator_may_return_null=1
  export LSAN_OPTIONS=suppressions=$PWD/tools/lsan.supp:print_suppressions=0
  export UBSAN_OPTIONS=print_stacktrace=1
}

sanitizers() {
  cmake --preset dev
  cmake --build --preset dev
  sanitizer_environment
  ctest --test-dir build/dev --output-on-failure -j "$(nproc)" -LE 'slow|timing'
}

# What a fuzz target starts from: files the tests have already.
seeds() {
  case "$1" in
    cluster_yaml_fuzz) ls tests/bad/cluster_*.yaml examples/*.yaml tests/data/inss/cluster_*.yaml ;;
    jobs_csv_fuzz) ls tests/bad/jobs_*.csv tests/bad/jobs_*.jsonl ;;
    kernels_json_fuzz) ls tests/bad/*.kernels.json data/zoo/vgg11.kernels.json ;;
    prometheus_fuzz) ls tests/telemetry/*.prom ;;
    services_yaml_fuzz) ls tests/bad/services_*.yaml tests/data/inss/services_*.yaml ;;
  esac
}

fuzz() {
  cmake --preset dev >/dev/null
  cmake --build --preset dev
  sanitizer_environment
  local seconds=${FUZZ_SECONDS:-60} found=0
  while IFS= read -r target; do
    found=$((found + 1))
    local name corpus
    name=$(basename "$target")
    corpus=$(mktemp -d)
    seeds "$name" | xargs -I{} cp {} "$corpus/"
    echo "-- $name: $seconds s from $(find "$corpus" -type f | wc -l) files"
    "$target" -max_total_time="$seconds" -timeout=25 -rss_limit_mb=4096 -print_final_stats=0 \
      -verbosity=0 -artifact_prefix="build/$name-" "$corpus"
    rm -rf "$corpus"
  done < <(find build/dev -type f -name '*_fuzz' -perm -u+x | sort)
  [ "$found" -gt 0 ] || { echo "no fuzz target was built" >&2; return 1; }
  if [ -f tools/fuzz_models.py ]; then
    python3 tools/fuzz_models.py build/release/hase --seconds "$seconds"
  fi
}

if [ $# = 0 ]; then set -- layers format tidy sanitizers fuzz; fi
for part in "$@"; do
  case "$part" in
    layers|format|tidy|sanitizers|fuzz) "$part" ;;
    *) echo "check.sh: unknown part '$part'" >&2; exit 2 ;;
  esac
done
