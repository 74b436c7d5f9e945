#!/usr/bin/env bash
# shellcheck disable=SC2034,SC2154  # what the recipes read and set
#
# For recipes that train several models on one data set, which the recipe of a corpus prepares in
# WORK/data. Sourced after start.sh; the recipe calls `choose_data` in its defaults.
lib=$VASWANI_ROOT/recipes/lib
corpus=''
pair=en-de
data_bin=''
train_pairs='' # of multi30k; none: all
operations=''  # of multi30k and tatoeba: BPE merges; none: the recipe's own number
splits_used=(train valid) # splits that the key of the data covers, in addition to the dictionaries
parallel=''
prepare_options=()
prepare_until=binarize   # the last stage of the recipe of the corpus

data_option() { set_option "$@" corpus pair data_bin train_pairs operations; } # NAME VALUE

choose_data() { # CORPUS...: those that the recipe takes; sets `title`, and data_bin if it is to be made
  local known corpus_pair
  known=$(printf ', %s' "$@")
  [[ "$known," == *", $corpus,"* ]] || die "--corpus $corpus: must be ${known:2}"
  case $corpus in
    wmt14_en_fr) corpus_pair=en-fr ;;
    wmt14_en_de | quickstart) corpus_pair=en-de ;;
    *) corpus_pair=$pair ;;
  esac
  [[ "$pair" == "$corpus_pair" ]] || die "--pair $pair: --corpus $corpus is $corpus_pair"
  case $corpus in
    multi30k | tatoeba) prepare_options=(--pair "$pair") ;;
    wmt14_en_de) prepare_options=(--padding-factor 8192) ;; # the 40,960 rows of the printed counts
    quickstart) prepare_options=(--seed "$seed") ;;
  esac
  title="$corpus $pair"
  if [[ -n "$train_pairs" ]]; then
    need_counts train_pairs
    [[ -z "$data_bin" && "$corpus" == multi30k ]] ||
      die "--train-pairs $train_pairs: only for --corpus multi30k"
    prepare_options+=(--train-pairs "$train_pairs")
    title+=", the first $train_pairs pairs"
  fi
  if [[ -n "$operations" ]]; then
    need_counts operations
    [[ -z "$data_bin" && "$corpus" =~ ^(multi30k|tatoeba)$ ]] ||
      die "--operations $operations: only for --corpus multi30k and tatoeba"
    prepare_options+=(--operations "$operations")
    title+=", $operations BPE merges"
  fi
  if [[ -n "$data_bin" ]]; then
    [[ -z "$data" ]] || die "--data-bin: binarized data take no --data $data"
    [[ -n "$(find "$(absolute "$data_bin")" -maxdepth 1 -name 'dict.*.txt' 2>/dev/null)" ]] ||
      die "--data-bin $data_bin: no binarized data (dict.*.txt) there"
    data_bin=$(absolute "$data_bin")
    title=$(basename "$(dirname "$data_bin")")
    prepare_options=()
  else
    data_bin=$work/data/data-bin
  fi
}

key_prepare() {
  printf 'corpus %s options %s data %s bin %s\n' "$corpus" "${prepare_options[*]-}" "$data" "$data_bin"
  if [[ -n "$data" ]]; then find "$data" -maxdepth 2 -type f | LC_ALL=C sort | listed_digests; fi
}

stage_prepare() {
  local command=(bash "$VASWANI_ROOT/recipes/$corpus.sh" ${prepare_options[@]+"${prepare_options[@]}"} --work "$work/data"
    --stop-stage "$prepare_until")
  if [[ "$data_bin" != "$work/data/data-bin" ]]; then
    say "nothing to do: the data are binarized"
    return
  fi
  if [[ -n "$data" ]]; then command+=(--data "$data"); fi
  run "${command[@]}"
}

choose_parallel() { # sets `parallel`: as many trainings at a time as asked for, or one on each GPU
  if [[ "$device" == gpu ]]; then parallel=${parallel:-$gpus}; fi
  parallel=${parallel:-1}
  need_counts parallel
  ((gpus % parallel == 0)) || die "--parallel $parallel: --gpus $gpus can't be shared out evenly"
}

data_digests() {
  local name file files=()
  for name in "${splits_used[@]}" dict; do
    for file in "$data_bin/$name".*; do files+=("$file"); done
  done
  digests "${files[@]}"
}

data_key() { # changes with the data
  if [[ -z "$dry_run" ]]; then data_digests | vaswani_sha256; else echo DATA; fi
}

# run_models SCRIPT ARGUMENT...: in a dry run also the commands of each training, where there is an
# environment already.
run_models() {
  local python=${VASWANI_VENV:-$VASWANI_ROOT/.venv}/bin/python
  run python "$@"
  if [[ -n "$dry_run" && -x "$python" ]]; then "$python" "$@" --dry-run; fi
}

show_result() { # the table, and its summary as the last line
  cat "$work/$recipe.md"
  python -c 'import json, sys; print(json.load(open(sys.argv[1]))["summary"] + ": " + sys.argv[2])' \
    "$work/result.json" "$work/$recipe.md"
}
