#!/usr/bin/env bash
# Peak memory of training at several token budgets: ours beside fairseq's stock `transformer`.
#
#   bash recipes/benchmarks/memory.sh --data DATA_BIN                              tiny, 2 minutes
#   bash recipes/benchmarks/memory.sh --data synthetic --sizes base big --max-tokens 4096
#
# --help lists the options; a finished run is not repeated. Expected for base with 37,000 rows and
# 4,096 tokens a batch: at most 0.7 of stock's, 0.45 with --ours-flags=--checkpoint-activations.
set -euo pipefail

root=$(cd "$(dirname "$0")/../.." && pwd)
# shellcheck source=recipes/lib/env.sh
source "$root/recipes/lib/env.sh"
exec python "$root/recipes/benchmarks/memory.py" "$@"
