#!/usr/bin/env bash
# Writes data/zoo/*.kernels.json anew: exports each zoo model, lowers it, deletes it (together they
# would be 3.5 GB). Run it after a change of the zoo, of lowering, or of ONNX Runtime, and review
# the diff.
#
#   tools/update_zoo.sh [HASE_BINARY] [MODEL…]
set -euo pipefail
cd "$(dirname "$0")/.."
hase=${1:-build/release/hase}
shift || true
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
models=("$@")
if [ "${#models[@]}" -eq 0 ]; then
  mapfile -t models < <(sed -n 's/^    {"\([a-z0-9_]*\)", "[a-z]*",.*/\1/p' src/model/zoo/zoo.cc)
fi
for model in "${models[@]}"; do
  "$hase" zoo export "$model" -o "$work/$model.onnx"
  "$hase" inspect "$work/$model.onnx" -o "data/zoo/$model.kernels.json" >/dev/null
  rm "$work/$model.onnx"
  echo "$model"
done
