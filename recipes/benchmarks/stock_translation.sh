#!/usr/bin/env bash
# Perplexity, BLEU and training time of vaswani_tiny beside fairseq's stock `transformer` of the same
# size, on the same data, with the same seed, batches and number of updates.
#
#   bash recipes/benchmarks/stock_translation.sh DATA_BIN WORK [UPDATES [SEED [MAX_TOKENS]]]
#
# DATA_BIN is that of a translation recipe (WORK/data-bin); UPDATES is 1000 where it is not given.
# Batch: MAX_TOKENS (2,048) x 1 process x update-freq 1. Peak learning rate 2.5e-3 after 400 updates,
# by Eq. 3 (factor 0.5657) on our side and fairseq's inverse_sqrt on the other; dropout 0.3, label
# smoothing 0.1. Stock trains without the plugin. Batches may have any number of sentences, because
# stock drops the last batch if its size is not a multiple of 8. Each side's last 5 checkpoints,
# UPDATES/20 apart, are averaged; the test set is translated by the plugin under fairseq's rules,
# beam 4, and its tokenized BLEU is fairseq's.
# Expected: neither perplexity nor BLEU differ by more than a seed makes, and ours needs at most 0.6
# of the time. Both train at once, a thread each, so that two cores should be free. The same command
# goes on with a comparison that was cut off, with more UPDATES with one that was finished.
set -euo pipefail

# shellcheck source=recipes/benchmarks/stock.sh
source "$(dirname "${BASH_SOURCE[0]}")/stock.sh" "$@"
max_tokens=${5:-2048}
interval=$(((updates + 19) / 20)) averaged=$((updates < 5 ? updates : 5))
plugin=(--user-dir "$VASWANI_ROOT/vaswani_plugin")

train() { # NAME FLAG...
  local name=$1
  shift
  begin_side "$name" "$data_bin seed $seed max-tokens $max_tokens"
  local translations=$name-$updates.txt
  if [[ -s "$work/$translations" ]]; then return; fi
  # Without the plugin fairseq adds an update to a complete training, and can't read its own
  # checkpoints unless PyTorch trusts all files.
  if [[ ! -f "$work/$name/trained-$updates" ]]; then
    TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD=1 fairseq-train "$data_bin" --cpu --seed "$seed" \
      --max-tokens "$max_tokens" --required-batch-size-multiple 1 --max-update "$updates" \
      --warmup-updates 400 --dropout 0.3 --label-smoothing 0.1 --save-interval-updates "$interval" \
      --keep-interval-updates "$averaged" --no-epoch-checkpoints --validate-interval 1000000 \
      --save-dir "$work/$name" --no-progress-bar --log-format json --log-interval 50 "$@" \
      >>"$work/$name.log" 2>&1
    touch "$work/$name/trained-$updates"
  fi
  vaswani average --inputs "$work/$name" --last-updates "$averaged" \
    --output "$work/$name/averaged.pt" >&2
  fairseq-generate "$data_bin" "${plugin[@]}" --task vaswani_translation --cpu \
    --path "$work/$name/averaged.pt" --length-penalty fairseq --beam 4 --post-process subword_nmt \
    >"$work/.$translations"
  mv "$work/.$translations" "$work/$translations"
}

set -m # each side is a process group, which ends with this script
train ours "${plugin[@]}" --task vaswani_translation --batch-order fairseq --arch vaswani_tiny \
  --lr-factor 0.5657 &
ours=$!
train stock --task translation --arch transformer --share-all-embeddings \
  --encoder-layers 4 --encoder-embed-dim 128 --encoder-ffn-embed-dim 256 \
  --encoder-attention-heads 4 \
  --decoder-layers 4 --decoder-embed-dim 128 --decoder-ffn-embed-dim 256 \
  --decoder-attention-heads 4 --criterion label_smoothed_cross_entropy "${stock_optimization[@]}" &
stock=$!
trap 'kill -- "-$ours" "-$stock" 2>/dev/null || true' EXIT
wait "$ours"
wait "$stock"

python - "$work" "$updates" "$seed" <<'EOF_PYTHON'
import re
import sys
from pathlib import Path

from vaswani_plugin.text.lines import read_lines
from vaswani_plugin.text.training_log import read_curves, read_training

work, updates, seed = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
rows = []
for name in ("ours", "stock"):
    lines = list(read_lines(work / f"{name}.log"))
    run = read_training(lines, f"{name}.log")
    if run.updates != updates:
        sys.exit(f"{work}/{name} has {run.updates} updates already: give another folder")
    perplexity = read_curves(lines, f"{name}.log")["valid"][-1]["ppl"]
    bleu = float(re.findall(r"BLEU4 = ([0-9.]+)", (work / f"{name}-{updates}.txt").read_text())[-1])
    seconds = updates * run.tokens / run.tokens_per_second  # validations left out
    rows.append((perplexity, bleu, seconds))
    print(
        f"{name}: validation perplexity {perplexity:.2f}, test BLEU {bleu:.2f}, "
        f"{seconds:,.0f} s of training, {run.tokens_per_second:,.0f} tokens/s, "
        f"{run.parameters:,} parameters"
    )
(perplexity, bleu, seconds), stock = rows
print(
    f"after {updates:,} updates, seed {seed}: perplexity ratio {perplexity / stock[0]:.4f}, "
    f"BLEU {bleu - stock[1]:+.2f}, time ratio {seconds / stock[2]:.2f}"
)
EOF_PYTHON
