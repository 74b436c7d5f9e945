#!/usr/bin/env bash
# Cost of a training step against sentence length, batch, layers and vocabulary: exponents measured
# and expected (Table 1), as JSON and as a plot.
#
#   bash recipes/benchmarks/scaling.sh                                          vaswani_tiny, 2 minutes
#   bash recipes/benchmarks/scaling.sh --arch vaswani_base --tokens 4096
#
# --help lists the options. Expected for a token's cost: Eq. 1 grows with the length's first power,
# the feed-forward network with none, the whole model in between, by its counted multiply-adds.
set -euo pipefail

# shellcheck source=recipes/lib/env.sh
source "$(dirname "$0")/../lib/env.sh"
exec python "$VASWANI_ROOT/recipes/benchmarks/scaling.py" "$@"
