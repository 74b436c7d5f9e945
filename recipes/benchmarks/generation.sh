#!/usr/bin/env bash
# Speed and memory of translating: stock fairseq-generate, ours, and CTranslate2 (float32, int8), on
# the same model, sentences, beam and processors; runs interleaved, medians, whole processes.
#
#   bash recipes/benchmarks/generation.sh --model CHECKPOINT --data-bin DIR --work DIR ...
#
# --help lists the options. The stock model is ours, exported (`vaswani export --to fairseq`).
# Expected in batch at beam 4: 1.7 to 2.4 times stock for vaswani_tiny, by the processor and the number
# of sentences, and 3 times for vaswani_base; one sentence at a time 2 times.
set -euo pipefail

# shellcheck source=recipes/lib/env.sh
source "$(dirname "$0")/../lib/env.sh"
exec python "$VASWANI_ROOT/recipes/benchmarks/generation.py" "$@"
