#!/usr/bin/env bash
# Speed and memory of training: ours beside fairseq's stock `transformer`, and beside other toolkits.
#
#   bash recipes/benchmarks/training.sh --data DATA_BIN                            tiny, 4 minutes
#   bash recipes/benchmarks/training.sh --sizes base big                           37,000 random words
#   bash recipes/benchmarks/training.sh --sizes base --device gpu --precision bf16
#   bash recipes/benchmarks/training.sh --data work/multi30k/data-bin --sides ours stock transformers eole joeynmt sockeye
#
# --help lists the options. Batch: 4,096 tokens x 1 process x update-freq 1. The drivers of the other
# toolkits are peers/train_*.py; their pinned packages go into environments in WORK/envs.
# Expected on a CPU: tiny at least 1.6 times stock's target tokens/s; base with 37,000 rows at least
# 2 times on AMD with AVX-512, no less than stock elsewhere, at most 0.7 of its memory.
set -euo pipefail
# shellcheck source=recipes/lib/env.sh
source "$(dirname "$0")/../lib/env.sh"
exec python "$VASWANI_ROOT/recipes/benchmarks/training.py" "$@"
