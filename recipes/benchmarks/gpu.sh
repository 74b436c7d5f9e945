#!/usr/bin/env bash
# Everything that wants a GPU, on one of them, in about ten minutes: training base and big in bf16 beside
# fairseq's stock `transformer`, decoding base beside stock and CTranslate2, and the tests of tests/gpu.
#
#   bash recipes/benchmarks/gpu.sh                              all of it
#   bash recipes/benchmarks/gpu.sh --parts training --sizes big
#   bash recipes/benchmarks/gpu.sh --device cpu                 a rehearsal with vaswani_debug
#
# Writes WORK/gpu-report.md (WORK: work/gpu). A part that fails is reported, and
# the others are done; the exit code is then 1. --help lists the options.
# Batch: --max-tokens (25,000 where the GPU has 60 GB, else 4,096) x 1 process x update-freq 1.
# Expected: base and big at least 1.5 times stock's target tokens/s in at most 0.6 of its memory, big at
# 45% of the printed peak, decoding at least 3 times stock. None of this has been measured yet.
set -euo pipefail

# shellcheck source=recipes/lib/env.sh
source "$(dirname "$0")/../lib/env.sh"
exec python "$VASWANI_ROOT/recipes/benchmarks/gpu.py" "$@"
