#!/usr/bin/env bash
# Speed and memory of training: ours beside fairseq's stock `transformer`, interleaved processes.
#
#   bash recipes/benchmarks/training.sh --data DATA_BIN                            tiny, 4 minutes
#   bash recipes/benchmarks/training.sh --data synthetic --sizes base big          37,000 rows
#   bash recipes/benchmarks/training.sh --data synthetic --sizes base --device gpu --precision bf16
#
# --help lists the options; a finished run is not repeated. Batch: 4,096 tokens x 1 process x
# update-freq 1. Expected on 2 CPU cores: tiny at least 1.8, base with 37,000 rows at least 1.5 times
# stock's target tokens/s, at most 0.5 of its memory; on a GPU, in bf16, 1.5 times and 0.6.
set -euo pipefail

root=$(cd "$(dirname "$0")/../.." && pwd)
# shellcheck source=recipes/lib/env.sh
source "$root/recipes/lib/env.sh"
exec python "$root/recipes/benchmarks/training.py" "$@"
