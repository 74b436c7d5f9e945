#!/usr/bin/env bash
# Sequence to sequence as published (Sutskever et al. 2014): words instead of subwords, plain SGD,
# and the n-best lists of another system, which the LSTMs rescore.
#
#   bash recipes/seq2seq.sh --gpus 1 --nbest LISTS      # WMT14 English-French, the published sizes
#   bash recipes/seq2seq.sh --corpus multi30k --max-words 12 --epochs 18 --seeds 1 --cpu
#   bash recipes/seq2seq.sh --scale tiny                # does everything run?
#
# Words: a dictionary of the most frequent ones for each language, 160,000 rows for the source and
# 80,000 for the target; all other words are <unk>.
# Model: vaswani_seq2seq_lstm, 4 layers of 1,000 units, the source read backwards, all parameters
# drawn from U(-0.08, 0.08), nothing shared, no dropout: 384M parameters.
# Batch: 128 sentences of similar length x 1 device x update-freq 1.
# Training: SGD without momentum, rate 0.7, halved every half epoch after 5 epochs, 7.5 epochs in
# all. The gradient of a batch is divided by its 128 sentences, then limited to norm 5. --epochs N
# stretches the schedule over N epochs: a small corpus has few updates in 7.5.
# Models: `forwards` reads the source forwards, with the first seed; `reversed` with each seed; an
# ensemble of the latter. The translations are those with the greatest log P, beam 12.
# Rescoring, with --nbest: the lists of the baseline, a statistical system that is not part of this
# project; the even average with its score, as published, and weights for the validation set.
# Expected, EN-FR, newstest2014: forwards 26.17, reversed 30.59, five reversed 34.81, baseline 33.30,
# rescored by one 35.85, by five 36.5. They train on 12M pairs, ten days on 8 GPUs; the recipe takes
# the corpus's 36M. One GPU of today holds the model. WORK/seq2seq.md puts the scores beside theirs.
#
# --data DIR is handed to the recipe of the corpus. What it unpacks lies in WORK/data, words in
# WORK/tok and WORK/words, each training in WORK/models/MODEL-SEED.
set -euo pipefail

recipe=seq2seq
# shellcheck source=recipes/lib/start.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/start.sh"
# shellcheck source=recipes/lib/prepared.sh
source "$VASWANI_ROOT/recipes/lib/prepared.sh"

stages=(prepare tokenize words train translate rescore score)
prepare_until=unpack # see prepared.sh
prep=$VASWANI_ROOT/data-prep
plugin=$VASWANI_ROOT/vaswani_plugin
splits=(train valid test)

arch=''
seed=1
seeds=''
source_rows='' target_rows=''
max_words=''
epochs=7.5
max_update=''
beam=12
nbest=''
rules=() # of the tokenizer
threads=1

recipe_usage() {
  cat <<'HELP'

Options of this recipe (defaults: wmt14_en_fr; other corpora; --scale tiny):
  --corpus wmt14_en_fr|multi30k|tatoeba|quickstart   the recipe that unpacks it (wmt14_en_fr; quickstart)
  --pair en-de           for multi30k and tatoeba
  --arch NAME            (vaswani_seq2seq_lstm; vaswani_seq2seq_lstm_tiny)
  --source-rows N, --target-rows N   of the dictionaries, with 4 special symbols
                         (160000 and 80000; 4000; 200)
  --max-words N          leave out longer sentences, in all three sets (none)
  --epochs N             of the whole schedule: the rate is halved after two thirds of them, and five
                         times in all (7.5)
  --max-update N         stop after so many updates (none; none; 30)
  --seeds S,S            of the models that read the source backwards (1,2,3,4,5; 1,2)
  --beam N               (12)
  --nbest DIR            lists to rescore: DIR/valid.nbest and DIR/test.nbest, in Moses' format, of the
                         sentences in WORK/words (none)
  --threads N            of a training on a CPU (1)
HELP
}

recipe_option() {
  case $1 in
    --data-bin | --operations) return 1 ;; # of the other recipes with prepared data
  esac
  set_option "$@" arch source_rows target_rows max_words epochs max_update seeds beam nbest \
    threads ||
    data_option "$@"
}

recipe_defaults() {
  if [[ "$scale" == tiny ]]; then
    corpus=${corpus:-quickstart} seeds=${seeds:-1,2} max_update=${max_update:-30}
    source_rows=${source_rows:-200} target_rows=${target_rows:-200}
  fi
  corpus=${corpus:-wmt14_en_fr}
  if [[ "$corpus" == wmt14_en_fr && "$scale" == full ]]; then
    pair=en-fr arch=${arch:-vaswani_seq2seq_lstm}
    source_rows=${source_rows:-160000} target_rows=${target_rows:-80000}
  fi
  if [[ "$corpus" == wmt14_en_fr ]]; then pair=en-fr; fi
  arch=${arch:-vaswani_seq2seq_lstm_tiny} seeds=${seeds:-1,2,3,4,5}
  source_rows=${source_rows:-4000} target_rows=${target_rows:-4000}
  need_counts source_rows target_rows beam threads
  if [[ -n "$max_words" ]]; then need_counts max_words; fi
  if [[ -n "$max_update" ]]; then need_counts max_update; fi
  need_number --epochs "$epochs"
  awk "BEGIN { exit !($epochs >= 1.5) }" || die "--epochs $epochs: must be at least 1.5: the first epoch has a constant rate"
  [[ "$arch" =~ ^vaswani_seq2seq_lstm ]] || die "--arch $arch: must be a vaswani_seq2seq_lstm (see \`vaswani archs\`)"
  need_seeds --seeds "$seeds"
  ((gpus <= 1)) || die "--gpus $gpus: a batch of 128 sentences is one GPU's; run other seeds on other GPUs"
  choose_data wmt14_en_fr multi30k tatoeba quickstart
  if [[ -n "$nbest" ]]; then
    [[ -f "$nbest/valid.nbest" && -f "$nbest/test.nbest" ]] ||
      die "--nbest $nbest: needs valid.nbest and test.nbest in it"
    nbest=$(cd -- "$nbest" && pwd -P)
    inputs+=("$nbest")
  fi
  if [[ "$corpus" == multi30k ]]; then rules=(--lowercase); fi
  if [[ "$scale" == tiny ]] && ((${#prepare_options[@]})); then prepare_options+=(--scale tiny); fi
  if [[ "$scale" == tiny && "$corpus" == wmt14_en_fr ]]; then prepare_options=(--scale tiny); fi
  source_lang=${pair%-*} target_lang=${pair#*-}
}

text_files() { # FOLDER: all of them
  local split
  for split in "${splits[@]}"; do echo "$1/$split.$source_lang" "$1/$split.$target_lang"; done
}

key_tokenize() {
  key_prepare
  printf 'rules %s\n' "${rules[*]-}"
}

stage_tokenize() {
  local split language
  fresh_folder "$work/tok"
  for split in "${splits[@]}"; do
    for language in "$source_lang" "$target_lang"; do
      run python "$prep/normalize_tokenize.py" --language "$language" ${rules[@]+"${rules[@]}"} \
        --input "$work/data/raw/$split.$language" --output "$work/tok/$split.$language"
    done
  done
}

key_words() {
  key_tokenize
  printf 'rows %s %s max-words %s\n' "$source_rows" "$target_rows" "$max_words"
}

# Without --max-words the validation and test sets stay whole.
stage_words() {
  local split language
  fresh_folder "$work/words"
  for split in "${splits[@]}"; do
    if [[ -z "$max_words" && "$split" != train ]]; then
      for language in "$source_lang" "$target_lang"; do
        run_to "$work/words/$split.$language" cat "$work/tok/$split.$language"
      done
      continue
    fi
    run python "$prep/check_corpus.py" "$work/tok/$split.$source_lang" "$work/tok/$split.$target_lang" \
      --clean "$work/words/$split.$source_lang" "$work/words/$split.$target_lang" \
      --max-length "${max_words:-250}" --max-ratio inf
  done
  remove_leftovers "$work/.data-bin"
  run python "$prep/binarize.py" --pair "$pair" --output "$work/data-bin" \
    --source-rows "$source_rows" --target-rows "$target_rows" \
    --train "$work/words/train" --valid "$work/words/valid" --test "$work/words/test"
}

model_names() { # forwards-1 reversed-1 reversed-2 ...
  local one
  echo "forwards-${seeds%%,*}"
  for one in ${seeds//,/ }; do echo "reversed-$one"; done
}

key_train() {
  key_words
  printf 'arch %s epochs %s updates %s seeds %s device %s\n' \
    "$arch" "$epochs" "$max_update" "$seeds" "$(device_key)"
}

scaled() { awk "BEGIN { printf \"%g\", $epochs / $1 }"; }

# An epoch has a batch for every 128 sentences. A whole number of epochs needs no number of updates.
updates_wanted() {
  local pairs
  if [[ -n "$max_update" ]]; then
    echo "$max_update"
  elif [[ "$epochs" =~ ^[0-9]+$ ]]; then
    echo 0
  elif [[ -n "$dry_run" ]]; then
    echo "$epochs-EPOCHS"
  else
    pairs=$(wc -l <"$work/words/train.$source_lang")
    awk "BEGIN { printf \"%d\", $epochs * int(($pairs + 127) / 128) }"
  fi
}

train_command() { # MODEL-SEED: sets `command`
  command=(env "OMP_NUM_THREADS=$threads" fairseq-train "$work/data-bin" --user-dir "$plugin"
    --task vaswani_translation --source-lang "$source_lang" --target-lang "$target_lang"
    --arch "$arch" --share-embeddings none --dropout 0
    --batch-size 128 --sentence-avg --clip-norm 5 --optimizer sgd --lr 0.7
    --lr-scheduler vaswani_halving --constant-epochs "$(scaled 1.5)" --halving-epochs "$(scaled 15)"
    --max-epoch "$(awk "BEGIN { e = int($epochs); print e + ($epochs > e) }")"
    --max-update "$(updates_wanted)" --seed "${1#*-}" --save-dir "$work/models/$1"
    --no-epoch-checkpoints --no-progress-bar --log-format simple --log-interval 50)
  if [[ "$1" == forwards-* ]]; then command+=(--no-reverse-source); fi
  add_launcher
}

stage_train() {
  local command model key folder log
  for model in $(model_names); do
    train_command "$model"
    key=$(
      key_words
      printf '%s\n' "${command[*]}"
    )
    folder=$work/models/$model log=$work/logs/$model.log
    if [[ -z "$dry_run" && -f "$folder/checkpoint_last.pt" && "$(<"$folder/.key")" != "$key" ]]; then
      set_aside "$folder" "$log" "of a training with other options or data"
    fi
    fresh_folder "$folder" "$key"
    if [[ -f "$folder/.finished" ]]; then
      say "$model: the training was complete"
      continue
    fi
    run_logged "$log" "${command[@]}"
    run touch "$folder/.finished"
  done
}

checkpoint() { echo "$work/models/$1/checkpoint_last.pt"; }

ensemble() { # the paths of all models that read the source backwards
  local one paths=''
  for one in ${seeds//,/ }; do paths+=":$(checkpoint "reversed-$one")"; done
  echo "${paths:1}"
}

systems() { # NAME=CHECKPOINTS, one a line
  echo "forwards=$(checkpoint "forwards-${seeds%%,*}")"
  echo "reversed=$(checkpoint "reversed-${seeds%%,*}")"
  if [[ "$seeds" == *,* ]]; then echo "ensemble=$(ensemble)"; fi
}

key_translate() {
  key_train
  printf 'beam %s\n' "$beam"
}

stage_translate() {
  local system name command
  fresh_folder "$work/output"
  while IFS= read -r system; do
    name=${system%%=*}
    command=(fairseq-generate "$work/data-bin" --user-dir "$plugin" --task vaswani_translation
      --source-lang "$source_lang" --target-lang "$target_lang" --path "${system#*=}"
      --gen-subset test --max-tokens 8192 --beam "$beam" --lenpen 0 --no-progress-bar)
    if [[ "$device" == cpu ]]; then command+=(--cpu); fi
    run_to "$work/logs/$name.txt" "${command[@]}"
    run python "$lib/hypotheses.py" --generate-output "$work/logs/$name.txt" \
      --like "$work/words/test.$source_lang" --output "$work/output/$name.$target_lang"
    run_to "$work/output/$name.json" vaswani bleu --tokenized --format json \
      --hypothesis "$work/output/$name.$target_lang" --reference "$work/words/test.$target_lang"
  done < <(systems)
}

key_rescore() {
  key_train
  printf 'nbest %s\n' "$nbest"
  if [[ -n "$nbest" ]]; then digests "$nbest"/{valid,test}.nbest; fi
}

stage_rescore() {
  local system command=() words=$work/words
  if [[ -z "$nbest" ]]; then
    say "nothing to rescore: give the lists of another system by --nbest DIR"
    return
  fi
  command=(vaswani rescore --data "$work/data-bin" --format json --nbest "$nbest/test.nbest"
    --source "$words/test.$source_lang" --reference "$words/test.$target_lang")
  while IFS= read -r system; do command+=(--system "$system"); done < <(systems)
  if [[ "$device" == cpu ]]; then command+=(--cpu); fi
  run_to "$work/rescored/average.json" "${command[@]}" --average
  run_to "$work/rescored/tuned.json" "${command[@]}" --dev-nbest "$nbest/valid.nbest" \
    --dev-source "$words/valid.$source_lang" --dev-reference "$words/valid.$target_lang" \
    --output "$work/rescored/test.$target_lang"
}

key_score() {
  key_translate
  key_rescore
}

stage_score() {
  local file data=() rescored=() also=()
  if [[ -n "$nbest" ]]; then
    rescored=(--rescored)
    also=(--also "rescoring=$work/rescored/tuned.json" --also "even_average=$work/rescored/average.json")
  fi
  run python "$lib/seq2seq_report.py" --work "$work" --title "$title" --seeds "$seeds" --beam "$beam" \
    ${rescored[@]+"${rescored[@]}"} --output "$work/seq2seq.md"
  for file in $(text_files "data/raw"); do data+=("$work/$file"); done
  remove_leftovers "$work/.result.json"
  run python "$lib/result.py" --work "$work" --recipe "$recipe" --arch "$arch" \
    --train-log "$work/logs/reversed-${seeds%%,*}.log" --data "${data[@]}" --path data_bin=data-bin \
    --path models=models --tokenized "$work/output/reversed.json" \
    ${also[@]+"${also[@]}"} \
    --output "$work/result.json"
}

show_result() {
  cat "$work/seq2seq.md"
  python "$lib/summary.py" "$work/result.json" --title "$title, one LSTM, source reversed"
}

main_recipe "$@"
