#!/usr/bin/env bash
# Perplexity and speed of vaswani_lm_tiny beside fairseq's stock `transformer_lm` of the same
# sizes, on the same data, with the same seed, batches and number of updates.
#
#   bash recipes/benchmarks/stock_lm.sh DATA_BIN WORK [UPDATES [SEED]]
#
# DATA_BIN is that of recipes/lm.sh (WORK/data-bin); UPDATES is 1000 where it is not given.
# Batch: 4,096 tokens (16 samples of 256) x 1 process x update-freq 1. Peak learning rate 2.5e-3
# after 400 updates (or a quarter of fewer than 1,600), by Eq. 3 on our side and fairseq's
# inverse_sqrt on the other; dropout 0.1, no label smoothing. One difference is stock's own:
# transformer_lm always normalizes before the sub-layers, the paper after them.
# Expected: ours not above stock's perplexity by more than a seed makes, and faster. The runs come
# one after the other, on one thread each; the test set is scored with 128 tokens of context. The same
# command goes on with a comparison that was cut off, from the last 250 updates.
set -euo pipefail

# shellcheck source=recipes/benchmarks/stock.sh
source "$(dirname "${BASH_SOURCE[0]}")/stock.sh" "$@"
warmup=$((updates < 1600 ? (updates + 3) / 4 : 400))
# Eq. 3 peaks at factor x 128^-0.5 x warmup^-0.5.
factor=$(awk -v warmup="$warmup" 'BEGIN { printf "%.6f", 2.5e-3 * sqrt(128 * warmup) }')

train() { # NAME FLAG...
  local name=$1
  shift
  begin_side "$name" "$data_bin updates $updates seed $seed"
  if [[ -s "$work/$name.json" ]]; then return; fi
  fairseq-train "$data_bin" --user-dir "$VASWANI_ROOT/vaswani_plugin" --cpu --seed "$seed" \
    --tokens-per-sample 256 --max-tokens 4096 --max-update "$updates" --dropout 0.1 \
    --warmup-updates "$warmup" --disable-validation --no-epoch-checkpoints \
    --save-interval-updates 250 --keep-interval-updates 1 \
    --save-dir "$work/$name" --no-progress-bar --log-format json --log-interval 50 "$@" \
    >>"$work/$name.log" 2>&1
  vaswani lm --model "$work/$name/checkpoint_last.pt" --data-bin "$data_bin" --split test \
    --tokens-per-sample 256 --context-window 128 --cpu --format json >"$work/.$name.json"
  mv "$work/.$name.json" "$work/$name.json"
}

train ours --task vaswani_language_modeling --arch vaswani_lm_tiny --lr-factor "$factor"
train stock --task language_modeling --arch transformer_lm --share-decoder-input-output-embed \
  --decoder-layers 4 --decoder-embed-dim 128 --decoder-input-dim 128 --decoder-output-dim 128 \
  --decoder-ffn-embed-dim 256 --decoder-attention-heads 4 \
  --criterion cross_entropy "${stock_optimization[@]}"

python - "$work" "$updates" "$seed" <<'EOF_PYTHON'
import json
import sys
from pathlib import Path

from vaswani_plugin.text.lines import read_lines
from vaswani_plugin.text.training_log import read_training

work, updates, seed = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
rows = {}
for name in ("ours", "stock"):
    (row,) = json.loads((work / f"{name}.json").read_text())["results"]
    run = read_training(read_lines(work / f"{name}.log"), f"{name}.log")
    rows[name] = row["perplexity"], run.tokens_per_second
    print(
        f"{name}: test perplexity {row['perplexity']:.2f} a token, "
        f"{run.tokens_per_second:,.0f} tokens/s, {run.parameters:,} parameters"
    )
(ours, fast), (stock, slow) = rows["ours"], rows["stock"]
print(
    f"after {updates:,} updates, seed {seed}: perplexity ratio {ours / stock:.4f}, "
    f"speed ratio {fast / slow:.2f}"
)
EOF_PYTHON
