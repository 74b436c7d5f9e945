#!/usr/bin/env bash
# Trains on text of your own: any two languages in any script. docs/tutorials/own-text.md explains it.
#
#   bash recipes/own_text.sh --train a.de a.hsb
#   bash recipes/own_text.sh --train pairs.tsv.gz --pair de-hsb --test test.tsv --work work/hsb
#   bash recipes/own_text.sh --train new.de new.hsb --init-from work/hsb/model --work work/hsb-law
#
# Trains until the BLEU of greedily translated validation text stops rising (the loss rises long before
# on small data); WORK/corpus.json says what was dropped and why.
# Batch and training by the number of training pairs; the 5 best states are averaged:
#   pairs        pieces   architecture     dropout  max-tokens  warm-up  peak rate  at most
#   to 10,000     8,000   vaswani_tiny     0.3        512 x 4     400    2.5e-3      5,000 updates
#   to 100,000    8,000   vaswani_tiny     0.3      1,024 x 4   1,000    3.5e-3     20,000
#   to 1 mill.    8,000   vaswani_tiny     0.1      2,048 x 4   2,000    5.0e-3     50,000
#   more         32,000   vaswani_base     0.1      4,096 x 8   4,000    7.0e-4    100,000
# Expected: nothing is published for your text; docs/results/own-text.md has 2,000 to 162,000 pairs of Tatoeba.
#
# Options of this recipe:
#   --train FILE [FILE]     a source and a target file, or one with source <tab> target; plain or .gz
#   --valid, --test FILE [FILE]   the same (default: a part of the training text)
#   --pair SRC-TGT          languages, named by BCP 47 (default: the endings of the file names)
#   --columns S,T           columns of a file that has more than two, such as 2,3
#   --init-from BUNDLE      fine-tune this model, with its pieces and a lower rate (peak 5e-4)
# shellcheck disable=SC2034 # read by their names
recipe=own_text train='' valid='' test='' pair='' columns='' init_from='' options='train valid test pair columns init_from' paths='train valid test init_from'
# shellcheck source=recipes/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
begin "$@"
[[ ! " ${extra[*]-} " =~ \ (--max-epoch|--disable-validation)[=\ ] ]] || die "${BASH_REMATCH[1]}: this recipe saves by updates: give --max-update"
best=(--maximize-best-checkpoint-metric)
if [[ " ${extra[*]-} " =~ --best-checkpoint-metric[=\ ](loss|nll_loss|ppl)\  ]]; then best=(); fi
[[ -n $train && -z $data ]] || die "give the training text by --train, not by --data (see --help)"
files=()
for name in train valid test; do
  if [[ -n ${!name} ]]; then files+=("--$name"); fi
  while IFS= read -r file; do
    if [[ -z $file ]]; then continue; fi
    [[ -f $file ]] || die "--$name $file: no such file"
    files+=("$file")
  done <<<"${!name}"
done
languages "${pair:-$(sed 's/\.gz$//; s/.*[./]//' <<<"$train" | grep -vxE 'src|tgt|trg|txt|tsv|csv' | paste -sd- - || true)}"
[[ -z $init_from || (-f $init_from/sentencepiece.model && -f $init_from/model.pt) ]] || die "--init-from $init_from: no bundle of this recipe (its WORK/model), with its model.pt"
[[ -z $init_from || $(grep -soE "\"(source_language\": \"$source|target_language\": \"$target)\"" "$init_from/preprocessing.json" | wc -l) -eq 2 ]] ||
  die "--init-from $init_from: no model of $pair: give --train the files in its order, or name its languages by --pair"
step clean python "$prep/own_text.py" --pair "$pair" "${files[@]}" ${columns:+--columns "$columns"} --output "$work/raw" --report "$work/corpus.json"
if [[ -n $dry_run ]]; then pairs=0; else pairs=$(wc -l <"$work/raw/train.$source"); fi
if ((pairs <= 10000)); then
  pieces=8000 tokens=512 batches=4 interval=250 training=(--arch vaswani_tiny --dropout .3 --warmup-updates 400 --lr-factor .5657 --max-update 5000 --num-workers 0) # workers would begin anew in each short epoch
elif ((pairs <= 100000)); then
  pieces=8000 tokens=1024 batches=4 interval=250 training=(--arch vaswani_tiny --dropout .3 --warmup-updates 1000 --lr-factor 1.2649 --max-update 20000)
elif ((pairs <= 1000000)); then
  pieces=8000 tokens=2048 batches=4 interval=1000 training=(--arch vaswani_tiny --dropout .1 --warmup-updates 2000 --lr-factor 2.5298 --max-update 50000)
else
  pieces=32000 tokens=4096 batches=8 interval=1500 training=(--arch vaswani_base --dropout .1 --max-update 100000)
fi
model=$work/pieces.model dictionary=$work/dictionary patience=8
if [[ -n $init_from ]]; then
  model=$init_from/sentencepiece.model dictionary=$init_from/dict.$source.txt patience=5 interval=50
  training+=(--warmup-updates 100 --lr-factor .06 --max-update 2000 --finetune-from-model "$init_from/model.pt" --arch)
  words=$([[ -n $dry_run ]] || python "$root/recipes/lib/steps.py" flags "$init_from") || exit
  while IFS= read -r word; do training+=("$word"); done <<<"$words"
else
  if is_tiny; then training+=(--arch vaswani_debug); fi
  step learn python "$prep/wordpiece.py" learn --at-most --size "$(or_tiny $pieces 400)" --output "$model" --input "$work/raw/train.$source" "$work/raw/train.$target"
  step dictionary python "$prep/wordpiece.py" dictionary --model "$model" --output "$dictionary"
fi
step pieces every raw pieces python "$prep/wordpiece.py" apply --model "$model"
step binarize binarize "$work/pieces" --dictionary "$dictionary"
# Several batches an update, each of another length, learn faster than one of as many tokens; every sentence has to fit.
if [[ -z $dry_run ]] && ((tokens == 512)) && { ((nodes > 1)) || ! awk 'NF > 510 { exit 1 }' "$work/pieces"/*.*; }; then tokens=1024 batches=2; fi
in_all=$batches batches=$((workers < batches ? batches / workers : 1))
((workers * batches == in_all)) || say "an update has $((workers * batches)) batches of $tokens tokens, not $in_all: --gpus 1, 2 or 4 keep them"
training+=(--max-tokens "$tokens" --update-freq "$batches" --update-epoch-batch-itr True) # other batches in each epoch
bleu=sentencepiece # undone for BLEU, but where text has no spaces between words
if [[ -z $dry_run ]] && (($(grep -c '[^ ] [^ ]' "$work/raw/train.$target") * 2 < pairs)); then bleu=--eval-tokenized-bleu; fi
step train train "${training[@]}" --eval-bleu-sentences 500 --eval-bleu-remove-bpe $bleu \
  --best-checkpoint-metric bleu ${best[@]+"${best[@]}"} \
  --patience $patience --keep-best-checkpoints 5 --no-epoch-checkpoints \
  --save-interval 1000000 --validate-interval 1000000 --keep-interval-updates 1 \
  --save-interval-updates "$(or_tiny $interval 5)" --validate-interval-updates "$(or_tiny $interval 5)"
step average average --best 5
step translate translate
step score score "$model" --language "$target"
step bundle bundle lowercase=false tokenizer=none normalize_punctuation=false subwords=sentencepiece "codes=$model" beam=4
finish "own text, $pair, test" "bleu=$work/bleu.json"
