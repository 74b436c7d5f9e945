#!/usr/bin/env bash
# Decoding alone: our search in float32 and, where the processor has it, bfloat16, and CTranslate2 in
# float32, on one model, the same sentences, beam and output length; in turn, medians.
#
#   bash recipes/benchmarks/decoding.sh --model BUNDLE --lines RAW_TEXT --work DIR
#
# --help lists the options. What loads the model and splits the text is not counted: generation.sh
# measures whole processes. Every output has the same length, so the model needs no training.
# Expected for base: at least CTranslate2's speed in batch, more in bfloat16.
set -euo pipefail

# shellcheck source=recipes/lib/env.sh
source "$(dirname "$0")/../lib/env.sh"
exec python "$VASWANI_ROOT/recipes/benchmarks/decoding.py" "$@"
