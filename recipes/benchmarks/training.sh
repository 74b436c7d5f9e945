#!/usr/bin/env bash
# Speed and memory of training: ours beside fairseq's stock `transformer`, and beside other toolkits.
#
#   bash recipes/benchmarks/training.sh --data DATA_BIN                            tiny, 5 minutes
#   bash recipes/benchmarks/training.sh --sizes base big                           37,000 random words
#   bash recipes/benchmarks/training.sh --sizes base --device gpu --precision bf16
#   bash recipes/benchmarks/training.sh --data work/multi30k/data-bin --sides ours stock transformers eole joeynmt
#
# Batch: 4,096 tokens x 1 process x update-freq 1. Expected on a CPU: tiny and base at least 1.3 times
# stock's target tokens/s; base with --sides ours-amp about 1.9 times ours on AMX and on AMD's AVX512_BF16.
set -euo pipefail
# shellcheck source=recipes/lib/env.sh
source "$(dirname "$0")/../lib/env.sh"
exec python "$VASWANI_ROOT/recipes/benchmarks/training.py" "$@"
