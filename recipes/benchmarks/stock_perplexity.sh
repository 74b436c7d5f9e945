#!/usr/bin/env bash
# Validation perplexity of vaswani_tiny beside fairseq's stock `transformer` of the same size,
# data, seed, batches and number of updates.
#
#   bash recipes/benchmarks/stock_perplexity.sh DATA_BIN WORK [UPDATES [SEED]]
#
# Batch: 2,048 tokens x 1 process x update-freq 1. Peak learning rate 2.5e-3 after 400 updates, by
# Eq. 3 (factor 0.5657) on our side and fairseq's inverse_sqrt on the other; no other difference.
# Expected: ours not above stock's by more than 2%. Both runs go side by side, a thread each.
set -euo pipefail

# shellcheck source=recipes/benchmarks/stock.sh
source "$(dirname "${BASH_SOURCE[0]}")/stock.sh" "$@"

train() {
  local name=$1
  shift
  fairseq-train "$data_bin" --user-dir "$root/vaswani_plugin" --cpu --seed "$seed" \
    --max-tokens 2048 --max-update "$updates" --dropout 0.3 --warmup-updates 400 \
    --label-smoothing 0.1 --no-save --save-dir "$work/$name" --no-progress-bar --log-interval 100 "$@" \
    >"$work/$name.log" 2>&1
}

train ours --arch vaswani_tiny --lr-factor 0.5657 &
ours=$!
train stock --arch transformer --share-all-embeddings \
  --encoder-layers 4 --encoder-embed-dim 128 --encoder-ffn-embed-dim 256 \
  --encoder-attention-heads 4 \
  --decoder-layers 4 --decoder-embed-dim 128 --decoder-ffn-embed-dim 256 \
  --decoder-attention-heads 4 \
  --criterion label_smoothed_cross_entropy --optimizer adam --adam-betas '(0.9, 0.98)' \
  --adam-eps 1e-9 --lr-scheduler inverse_sqrt --lr 2.5e-3 &
stock=$!
wait "$ours"
wait "$stock"

last_perplexity() {
  grep "'valid' subset" "$work/$1.log" | tail -n 1 | sed 's/.*| ppl \([0-9.]*\).*/\1/'
}
awk -v ours="$(last_perplexity ours)" -v stock="$(last_perplexity stock)" -v n="$updates" -v seed="$seed" 'BEGIN {
  printf "validation perplexity after %d updates, seed %d: ours %s, stock %s, ratio %.4f\n", n, seed, ours, stock, ours / stock
}'
