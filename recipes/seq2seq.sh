#!/usr/bin/env bash
# Sequence to sequence learning with LSTMs, as published (Sutskever et al. 2014): words, SGD, the source
# read backwards, an ensemble, and the rescoring of another system's n-best lists.
#
#   bash recipes/seq2seq.sh --data work/wmt14_en_fr/raw --pair en-fr
#   bash recipes/seq2seq.sh --data work/multi30k/raw --pair en-de --work work/seq2seq-multi30k \
#     --source-rows 4000 --target-rows 4000 --arch vaswani_seq2seq_lstm_tiny
#
# Data: --data DIR has {train,valid,test}.SRC and .TGT, such as the folder raw/ of another recipe.
# Batch: 128 sentences; SGD, rate 0.7, halved every half epoch after 5 of 7.5 epochs; gradients clipped
# to norm 5; 160,000 source and 80,000 target words, all others are <unk>; beam 12, no length penalty.
# Expected on WMT14 EN-FR, newstest2014: one LSTM 26.17 forwards, 30.59 backwards, ensemble of five
# 34.81; rescoring the baseline's (33.30) lists of 1,000: 35.61, 35.85, 36.5; oracle about 45. Not run here.
#
# Options of this recipe (--pair en-fr: languages):
#   --arch NAME             vaswani_seq2seq_lstm (default), vaswani_seq2seq_lstm_tiny
#   --source-rows, --target-rows N   words of the dictionaries (160,000 and 80,000)
#   --seeds "1 2"           of the models that read the source backwards (1 2 3 4 5)
#   --nbest DIR             DIR/valid.nbest and DIR/test.nbest in Moses' format, of WORK/tok's sentences
recipe=seq2seq family=vaswani_seq2seq pair=en-fr arch=vaswani_seq2seq_lstm source_rows=160000 target_rows=80000 seeds='' nbest=''
options='pair arch source_rows target_rows seeds' later=nbest paths=nbest
# shellcheck source=recipes/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
begin "$@"
is_tiny || ((128 % workers == 0)) || die "--gpus, --nodes: $workers GPUs can't share 128 sentences an update; give 1, 2, 4 or 8 in all"
seeds=${seeds:-$(or_tiny "1 2 3 4 5" "1 2")}
[[ "$seeds " =~ ^([0-9]+[[:space:]]+)+$ ]] || die "--seeds $seeds: must be numbers, such as \"1 2\""
for file in valid test; do [[ -z $nbest || -f $nbest/$file.nbest ]] || die "--nbest $nbest: no $file.nbest in it"; done
if [[ -z $data ]]; then
  is_tiny || die "--data DIR: give {train,valid,test}.$source and .$target, such as work/wmt14_en_fr/raw"
  data=$toy/$(toy_pair)
fi

step raw raw "$data" train valid test
step tokenize every raw tok python "$prep/normalize_tokenize.py" --language {}
step binarize binarize "$work/tok" --source-rows "$source_rows" --target-rows "$target_rows"
updates=0 # 7.5 epochs
if [[ -z $dry_run ]]; then updates=$((15 * (($(wc -l <"$work/raw/train.$source") + 127) / 128) / 2)); fi
lstm() { # NAME FLAG...: WORK/models/NAME; a training that begins anew leaves the old one aside
  if ((node_rank == 0)) && [[ -n $is_new && -d $work/models/$1 ]]; then mv "$work/models/$1" "$work/models/$1.$(date +%s)"; fi
  train --arch "$(or_tiny "$arch" vaswani_seq2seq_lstm_tiny)" --share-embeddings none --dropout 0 --batch-size 128 --sentence-avg \
    --clip-norm 5 --optimizer sgd --lr 0.7 --lr-scheduler vaswani_halving --constant-epochs 5 --halving-epochs .5 \
    --max-update "$updates" --no-epoch-checkpoints --save-dir "$work/models/$1" "${@:2}"
}
step train-forwards lstm forwards --no-reverse-source --seed 1
paths='' named=()
for seed in $seeds; do
  step "train-reversed-$seed" lstm "reversed-$seed" --seed "$seed"
  paths+=:$work/models/reversed-$seed/checkpoint_last.pt
done
systems=("forwards=$work/models/forwards/checkpoint_last.pt" "reversed=$work/models/reversed-${seeds%% *}/checkpoint_last.pt" "ensemble=${paths#:}")
translate_words() { # NAME PATHS
  translate --path "$2" --beam 12 --lenpen 0
  mv "$work/test.tok" "$work/$1.$target"
}
for system in "${systems[@]}"; do
  named+=(--system "$system") name=${system%%=*}
  step "translate-$name" translate_words "$name" "${system#*=}"
  step "score-$name" to "$work/$name.json" vaswani bleu --tokenized --format json \
    --hypothesis "$work/$name.$target" --reference "$work/tok/test.$target"
done
if [[ -n $nbest ]]; then
  step rescore to "$work/rescored.json" vaswani rescore --data "$work/data-bin" --format json "${named[@]}" \
    --nbest "$nbest/test.nbest" --source "$work/tok/test.$source" --reference "$work/tok/test.$target" \
    --dev-nbest "$nbest/valid.nbest" --dev-source "$work/tok/valid.$source" --dev-reference "$work/tok/valid.$target"
  if [[ -z $dry_run ]]; then cat "$work/rescored.json"; fi
fi
finish "LSTMs, $pair, test: the ensemble" "bleu=$work/ensemble.json"
