#!/usr/bin/env bash
# Peak memory of training at several token budgets: ours beside fairseq's stock `transformer`.
#
#   bash recipes/benchmarks/memory.sh --data DATA_BIN                              tiny, 2 minutes
#   bash recipes/benchmarks/memory.sh --data synthetic --sizes base big --max-tokens 4096
#
# --help lists the options; a finished run is not repeated. Expected for base and big with 37,000
# rows and 4,096 tokens a batch: at most 0.5 of stock's on a CPU, 0.6 on a GPU.
set -euo pipefail

root=$(cd "$(dirname "$0")/../.." && pwd)
# shellcheck source=recipes/lib/env.sh
source "$root/recipes/lib/env.sh"
exec python "$root/recipes/benchmarks/memory.py" "$@"
