#!/usr/bin/env bash
# What each kernel of vaswani_plugin/kernels gains: everything on, each one alone off, all off, in turn.
#
#   bash recipes/benchmarks/kernels.sh --data DATA_BIN                      tiny: some 10 minutes
#   bash recipes/benchmarks/kernels.sh --sizes base --threads 1             37,000 random words
set -euo pipefail
# shellcheck source=recipes/lib/env.sh
source "$(dirname "$0")/../lib/env.sh"
exec python "$VASWANI_ROOT/recipes/benchmarks/kernels.py" "$@"
