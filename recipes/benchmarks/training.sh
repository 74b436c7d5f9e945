#!/usr/bin/env bash
# Speed and memory of training: ours beside fairseq's stock `transformer`, interleaved processes.
#
#   bash recipes/benchmarks/training.sh --data DATA_BIN                            tiny, 4 minutes
#   bash recipes/benchmarks/training.sh --data synthetic --sizes base big          37,000 rows
#   bash recipes/benchmarks/training.sh --data synthetic --sizes base --device gpu --precision bf16
#   bash recipes/benchmarks/training.sh --data synthetic --sizes base --ours-flags=--amp
#
# --help lists the options; a finished run is not repeated. Batch: 4,096 tokens x 1 process x
# update-freq 1. Expected on a CPU: tiny at least 1.6 times stock's target tokens/s; base with 37,000
# rows at least 2 times on AMD with AVX-512, no less than stock elsewhere, at most 0.7 of its memory.
set -euo pipefail

# shellcheck source=recipes/lib/env.sh
source "$(dirname "$0")/../lib/env.sh"
exec python "$VASWANI_ROOT/recipes/benchmarks/training.py" "$@"
