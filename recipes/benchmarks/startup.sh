#!/usr/bin/env bash
# How long commands take to start, as multiples of what `import torch` takes on the same machine.
#
#   bash recipes/benchmarks/startup.sh                       medians of 5, a minute
#   bash recipes/benchmarks/startup.sh --model WORK/model --model EXPORT    also a sentence translated
#                                                            with a bundle, or with an export of it
#
# --help lists pyperf's options (-p N: processes, -o FILE: all values). Expected: `vaswani --help` at
# most 0.15; commands without a model, and the --help of one with a model, at most 0.3; a sentence
# translated with the quickstart's model at most 1.5, with its export to CTranslate2 at most 0.4.
set -euo pipefail
# shellcheck source=recipes/lib/env.sh
source "$(dirname "$0")/../lib/env.sh"
exec python "$VASWANI_ROOT/recipes/benchmarks/startup.py" "$@"
