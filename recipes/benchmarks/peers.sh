#!/usr/bin/env bash
# Ours beside the toolkits that people choose: JoeyNMT, eole (OpenNMT-py's successor), Hugging Face
# transformers, Sockeye, stock fairseq, CTranslate2. Same text, subwords, sizes, token budget, threads.
#
#   bash recipes/multi30k.sh --pair en-de --until binarize --work work/multi30k
#   bash recipes/benchmarks/peers.sh --data work/multi30k --quick      about 15 minutes
#   bash recipes/benchmarks/peers.sh --data work/multi30k              some four hours
#
# --rounds N, --target-tokens N, --threads N, --sizes and --peers change the extent: see --help. It
# makes an environment for each peer from the package registry, pinned, in WORK/envs (1 GB, linked to
# ours for PyTorch). Then it measures in interleaved processes: training tokens/s and memory (tiny,
# base), perplexity and BLEU after the same number of target tokens, decoding in batch and one at a
# time, start-up. It writes WORK/peers.md and WORK/peers.json. The same command goes on where it was
# cut off. A peer that can't be installed or run is named with the reason.
# Batch: 4,096 tokens x 1 process x update-freq 1 (base: 1,024).
set -euo pipefail

# shellcheck source=recipes/lib/env.sh
source "$(dirname "$0")/../lib/env.sh"
exec python "$VASWANI_ROOT/recipes/benchmarks/peers.py" "$@"
