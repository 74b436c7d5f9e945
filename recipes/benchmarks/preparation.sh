#!/usr/bin/env bash
# Speed and memory of data preparation, ours beside the plain pipeline of sacremoses, subword-nmt
# and fairseq-preprocess with the same number of workers; both must give the same files.
#
#   bash recipes/benchmarks/preparation.sh [--lines 1000000] [--data DIR] [--workers 2] ...
#
# --help lists the options. Expected: the whole at least 4 times as fast as the plain pipeline.
set -euo pipefail

# shellcheck source=recipes/lib/env.sh
source "$(dirname "$0")/../lib/env.sh"
export OMP_NUM_THREADS=1
exec python "$VASWANI_ROOT/recipes/benchmarks/preparation.py" "$@"
