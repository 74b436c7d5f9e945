#!/usr/bin/env bash
# Speed of decoding, ours beside stock fairseq and CTranslate2: whole processes, then the search alone.
#
#   bash recipes/benchmarks/decoding.sh --model work/multi30k/averaged.pt --data-bin work/multi30k/data-bin \
#     --bundle work/multi30k/model --lines work/multi30k/raw/test.en
#
# Expected: `vaswani translate`, and the search alone in batches, at least 1.6 times stock's speed.
set -euo pipefail
# shellcheck source=recipes/lib/env.sh
source "$(dirname "$0")/../lib/env.sh"
exec python "$VASWANI_ROOT/recipes/benchmarks/decoding.py" "$@"
