#!/usr/bin/env bash
# Speed of several workers beside one with as many threads, on a CPU: interleaved processes.
#
#   bash recipes/benchmarks/workers.sh --data DATA_BIN                     tiny, 2 workers
#   bash recipes/benchmarks/workers.sh --data synthetic --sizes tiny base  37,000 rows
#
# --help lists the options. Both sides make the same updates of the same batches: N x 4,096 tokens,
# one to a worker (1 thread each, gloo), or N collected by the single worker (N threads). Expected on
# 2 CPU cores: a ratio above 1 where a batch is too small to keep two threads busy.
set -euo pipefail

# shellcheck source=recipes/lib/env.sh
source "$(dirname "$0")/../lib/env.sh"
exec python "$VASWANI_ROOT/recipes/benchmarks/workers.py" "$@"
