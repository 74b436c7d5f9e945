#!/usr/bin/env bash
# From nothing to translated text: a small Transformer learns to translate English into German, on a
# made-up corpus, scores itself, and shows what it looks at.
#
#   bash recipes/quickstart.sh
#   bash recipes/quickstart.sh --work /tmp/quickstart -- --seed 2
#
# Data: data-prep/toy/en-de, 6,000 pairs; no sentence of the test set occurs in training. --data DIR
# takes {train,valid,test}.{en,de} from DIR, plain or .gz.
# Model: 2+2 layers of width 128 (0.8M parameters), one joint BPE of 1,500 operations.
# Batch: 1,024 tokens with padding, about 16 epochs; peak learning rate 4.1e-3 =
# lr-factor 0.8 x 128^-0.5 x 300^-0.5; each layer's own initial weights; all else is the paper's.
# Expected: 93 to 95 tokenized BLEU (docs/results.md); of made-up text, it says nothing of real text.
recipe=quickstart pair=en-de
# shellcheck source=recipes/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
begin "$@"
say "learns subwords of 6,000 pairs, trains for 1,200 updates (the line below tells how long it takes here), translates, scores"

step raw raw "${data:-$toy/en-de}" train valid test
step tokenize every raw tok python "$prep/normalize_tokenize.py" --language {} --no-normalize
step learn-bpe python "$prep/bpe.py" learn --operations 1500 \
  --input "$work/tok/train.en" "$work/tok/train.de" --output "$work/codes"
step bpe every tok bpe python "$prep/bpe.py" apply --codes "$work/codes"
step binarize binarize "$work/bpe"
step train train --arch "$(or_tiny vaswani_tiny vaswani_debug)" --encoder-layers 2 --decoder-layers 2 \
  --max-tokens 1024 --max-update 1200 --warmup-updates 300 --lr-factor 0.8 --initial-weights own --validate-interval 4 --keep-last-epochs 5
step average average --last 5
step translate translate --remove-bpe
step score score moses --language de
step bundle bundle lowercase=false tokenizer=moses normalize_punctuation=false subwords=subword-nmt "codes=$work/codes" beam=4
step look vaswani attention --model "$work/model" --source "The good doctor will visit the old garden." \
  --output "$work/attention.png"
finish "quickstart, held-out test" "bleu=$work/bleu.json"

if [[ -n $dry_run ]]; then exit; fi
paste -d '\n' "$work"/{raw/test.en,test.out,raw/test.de} /dev/null | awk 'NR <= 40 {
  print (NR % 4 == 1 ? "  source       " : NR % 4 == 2 ? "  translation  " : NR % 4 == 3 ? "  reference    " : "") $0 }'
cat <<NEXT
What the model looks at: $work/attention.png. Next, after \`source recipes/lib/env.sh\`:
  echo "The good doctor will visit the old garden." | vaswani translate --model $work/model
  bash recipes/own_text.sh --train YOURS.en YOURS.de
NEXT
