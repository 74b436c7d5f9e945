#!/usr/bin/env bash
# Constituency parsing (section 6.3, Table 4): trains a Transformer to write the tree of a sentence,
# and scores it as EVALB does, beside a right-branching tree.
#
#   bash recipes/parsing.sh --data craft-treebank --arch vaswani_parser_guided
#   bash recipes/parsing.sh --data TREEBANK3 --arch vaswani_parser --gpus 8 --max-update 50000
#   bash recipes/parsing.sh --setting paper --data TREEBANK3 --gpus 8
#   bash recipes/parsing.sh --data gum-treebank --also parsed.trees --ratio 4
#
# Batch: 4,096 tokens of the longer side, the symbols, x 1 GPU (or the CPU) x update-freq 1; on
# CRAFT (16,827 trees) about 350 updates an epoch. Peak learning rate 1.86e-3 =
# lr-factor 1 x 192^-0.5 x 1500^-0.5. The last 5 states are averaged.
# The paper trains vaswani_parser (4 layers, d_model 1024). It chose dropout, learning rate and beam
# size on section 22, and took the rest from translation: beam 21, alpha 0.3, output length at most
# input length + 300. The vocabulary has 16,000 tokens for the Wall Street Journal alone (about
# 40,000 sentences), and 32,000 with 17M sentences that other parsers had parsed.
# Expected on section 23: F1 91.3 for the Journal alone, 92.7 with the parsed sentences.
# The paper does not print the number of updates, nor how it wrote trees as sequences. Here words are
# BPE subwords, the symbol of a word is its tag, and closing brackets have labels (--symbols,
# --closings). vaswani_parser_guided (ours, for small treebanks) also gives the decoder the next word.
#
# --data DIR holds the Penn Treebank (parsed/mrg/wsj: sections 02-21 train, 22 validates, 23 tests),
# or the files train, valid and test, each .mrg, .ptb, .trees or .clean, plain or .gz. Without --data
# the trees are those of data-prep/toy. The score ignores punctuation, by its gold tag, as usual.
#
# Options:
#   --setting paper      the setting of section 6.3: vaswani_parser, 16,000 BPE merges (32,000 with
#                        --also); warm-up, 8 x 4,096 tokens and averaging as for translation; both
#                        sets scored. Options after it override it; set --max-update, which the
#                        paper does not print
#   --scored test|both   the sets to parse and score: the test set, or the validation set, too
#                        (sections 22 and 23 of the Journal; default: test)
#   --also FILE          trees that a parser made, as additional training data
#   --ratio N            with --also: repeat each hand-made tree N times (default: 1)
#   --coding KIND        words as bpe subwords or as whole words (default: bpe)
#   --operations N       BPE merge operations (default: 8000)
#   --threshold N        with --coding words: rarer words become <unk> (default: 2)
#   --symbols tags|XX    write a word as its tag, or as XX (default: tags)
#   --closings labelled|plain   write a closing bracket as )NP, or as ) (default: labelled)
#   --train-trees N      train on the first N trees (default: all)
#   --scored-trees N     validate on the first N trees of that set, score the first N of the test set
#                        (default: all)

# shellcheck disable=SC2034,SC2154  # what translation.sh reads and sets
# shellcheck disable=SC2128  # `data` is a local array elsewhere
set -euo pipefail

recipe=parsing
# shellcheck source=recipes/lib/translation.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/translation.sh"
stages=(fetch clean code train average bundle parse evalb)
by_content=(code train)

default_arch=vaswani_parser_tiny
max_tokens=4096
max_update=10000
warmup_updates=1500
average=5
average_over=updates
beam=21
coding=bpe
operations=8000
threshold=2
symbols=tags
closings=labelled
also=''
ratio=1
scored='test'
train_trees=0 scored_trees=0 # 0: all
pairs=(2000 100 200)
data_layout="train, valid and test, each .mrg, .ptb, .trees or .clean, plain or .gz; or the Penn Treebank's sections"

# All but the sizes, the vocabulary and the search is as for translation.
use_papers_setting() {
  default_arch=vaswani_parser
  operations=0 # by --also, see recipe_defaults
  warmup_updates=4000
  batch_gpus=8
  save_interval=1500
  scored=both
}

recipe_option() {
  case $1 in
    --setting)
      [[ "$2" == paper ]] || die "--setting $2: must be paper"
      use_papers_setting
      ;;
    --train-trees) need_count "$1" "$2" && train_trees=$2 ;;
    --scored-trees) need_count "$1" "$2" && scored_trees=$2 ;;
    *)
      set_option "$@" also ratio coding operations threshold symbols closings scored ||
        training_option "$@"
      ;;
  esac
}

recipe_usage() {
  cat <<HELP

Options of the training (in brackets: the default):
  --arch NAME              architecture (${default_arch}; --scale tiny: vaswani_parser_debug)
  --max-tokens N           tokens of the longer side in a batch, padding included, per GPU (${max_tokens})
$(schedule_usage)
  --save-interval-updates N   updates between checkpoints (a twentieth of --max-update); the last
                           ${average} checkpoints are averaged
HELP
}

recipe_defaults() {
  one_of --coding "$coding" bpe words
  one_of --symbols "$symbols" tags XX
  one_of --closings "$closings" labelled plain
  one_of --scored "$scored" test both
  if [[ "$operations" == 0 ]]; then
    operations=16000
    if [[ -n "$also" ]]; then operations=32000; fi
  fi
  need_counts operations threshold ratio
  if [[ -n "$also" ]]; then
    also=$(absolute "$also")
    [[ -f "$also" ]] || die "--also $also: no such file"
    inputs+=("$also")
  elif ((ratio > 1)); then
    die "--ratio $ratio: needs --also FILE"
  fi
  if [[ "$scale" == tiny ]]; then arch=${arch:-vaswani_parser_debug} beam=4; fi
  pair=words-symbols
  check_translation_options
  if ((train_trees)); then lines[0]=$train_trees; fi
  if ((scored_trees)); then lines[1]=$scored_trees lines[2]=$scored_trees; fi
  if ((save_interval == 0)); then save_interval=$(((max_update + 19) / 20)); fi
}

one_of() { # OPTION VALUE ALLOWED...
  local option=$1 value=$2 allowed
  shift 2
  for allowed in "$@"; do if [[ "$value" == "$allowed" ]]; then return; fi; done
  die "$option $value: must be one of: $*"
}

choose_layout() {
  layout=files
  title="parsing ${data##*/}, test"
  if [[ -z "$data" ]]; then
    layout=made title="parsing made-up sentences, test"
  elif [[ -d "$(wsj_folder)" ]]; then
    layout=wsj title="parsing WSJ, section 23"
  fi
  if ((scored_trees)); then title+=", first $scored_trees trees"; fi
  if ((train_trees)); then title+=", trained on the first $train_trees"; fi
}

wsj_folder() { # the folder of the sections, if there is one
  local folder
  for folder in "$data" "$data/wsj" "$data/mrg/wsj" "$data/parsed/mrg/wsj"; do
    if [[ -d "$folder/23" ]]; then echo "$folder" && return; fi
  done
}

tree_file() { # SPLIT: its file; if there is none, a possible name
  local ending
  for ending in mrg{,.gz} ptb{,.gz} trees{,.gz} clean{,.gz}; do
    if [[ -f "$data/$1.$ending" ]]; then echo "$data/$1.$ending" && return; fi
  done
  echo "$data/$1.mrg"
}

source_files() { # the input files, one a line
  local split
  case $layout in
    made) printf '%s\n' "$toy"/trees/* ;;
    wsj) find "$(wsj_folder)" -name '*.mrg*' | LC_ALL=C sort ;;
    files) for split in train valid test; do tree_file "$split"; done ;;
  esac
  if [[ -n "$also" ]]; then echo "$also"; fi
}

key_fetch() { printf 'layout %s data %s\n' "$layout" "$data"; }

key_clean() {
  printf 'layout %s lines %s pairs %s seed %s\n' "$layout" "${lines[*]}" "${pairs[*]}" "$seed"
  source_files | listed_digests
}

stage_clean() {
  local index split
  fresh_folder "$work/trees"
  case $layout in
    made) toy_folder=$work/trees unpack_toy trees trees ;;
    wsj) run python "$prep/trees.py" split "$data" --output "$work/trees" ;;
    files)
      for split in "${splits[@]}"; do
        run python "$prep/trees.py" clean "$(tree_file "$split")" --output "$work/trees/$split.trees"
      done
      ;;
  esac
  for index in 0 1 2; do
    split=${splits[index]}
    if ((lines[index])); then
      run_to "$work/trees/$split.first" python "$lib/first_lines.py" "${lines[index]}" "$work/trees/$split.trees"
      run mv "$work/trees/$split.first" "$work/trees/$split.trees"
    fi
  done
  if [[ -n "$also" ]]; then run python "$prep/trees.py" clean "$also" --output "$work/trees/also.trees"; fi
}

tree_files() { # the cleaned files
  printf '%s\n' "$work"/trees/{train,valid,test}.trees
  if [[ -n "$also" ]]; then echo "$work/trees/also.trees"; fi
}

key_code() {
  tree_files | listed_digests
  printf 'coding %s operations %s threshold %s symbols %s closings %s\n' \
    "$coding" "$operations" "$threshold" "$symbols" "$closings"
}

stage_code() {
  local options=(--coding "$coding")
  if [[ "$coding" == bpe ]]; then options+=(--operations "$operations"); else options+=(--threshold "$threshold"); fi
  if [[ "$symbols" == XX ]]; then options+=(--one-placeholder); fi
  if [[ "$closings" == plain ]]; then options+=(--plain-closings); fi
  if [[ -n "$also" ]]; then options+=(--also "$work/trees/also.trees"); fi
  remove_leftovers "$work/.data-bin"
  run python "$prep/code_trees.py" "${options[@]}" --output "$work/data-bin" \
    --train "$work/trees/train.trees" --valid "$work/trees/valid.trees" --test "$work/trees/test.trees"
}

training_key() {
  work_digests 'data-bin/train*' 'data-bin/valid.*' 'data-bin/dict.*'
  printf 'arch %s seed %s max-tokens %s update-freq %s warmup %s factor %s dropout %s ratio %s device %s\n' \
    "$arch" "$seed" "$max_tokens" "$update_freq" "$warmup_updates" "$lr_factor" "$dropout" \
    "$ratio" "$(device_key)"
}

set_task_options() {
  task_options=(--task vaswani_parsing --source-lang words --target-lang symbols
    --upsample-primary "$ratio" --validate-interval 1000000)
}

key_bundle() {
  key_average
  digests "$work/averaged.pt" "$work/data-bin/preprocessing.json"
  printf 'beam %s\n' "$beam"
}

stage_bundle() {
  fresh_folder "$work/model"
  run python "$prep/bundle.py" --model "$work/averaged.pt" --data-bin "$work/data-bin" \
    --output "$work/model" "beam=$beam"
}

key_parse() {
  key_bundle
  printf 'scored %s\n' "$scored"
  if [[ "$scored" == both ]]; then digests "$work/trees/valid.trees"; fi
  digests "$work/trees/test.trees"
}

# Once with the constraint, and once without it to see how often the output is no tree.
stage_parse() {
  local command=(vaswani parse --model "$work/model") split splits=(test)
  if [[ "$scored" == both ]]; then splits+=(valid); fi
  if [[ "$device" == cpu ]]; then command+=(--cpu); fi
  fresh_folder "$work/output"
  for split in "${splits[@]}"; do
    run python "$prep/trees.py" linearize "$work/trees/$split.trees" \
      --source "$work/output/$split.words" --target "$work/output/$split.symbols"
    run "${command[@]}" --output "$work/output/$split.trees" "$work/output/$split.words"
  done
  run "${command[@]}" --unconstrained --output "$work/output/unconstrained.trees" "$work/output/test.words"
}

key_evalb() {
  key_parse
  digests "$work/trees/train.trees"
}

stage_evalb() {
  local file files=() valid=()
  while IFS= read -r file; do files+=("$file"); done < <(tree_files)
  if [[ "$scored" == both ]]; then
    valid=(--valid-gold "$work/trees/valid.trees" --valid-parsed "$work/output/valid.trees")
  fi
  run_to "$work/output/f1.json" python "$lib/parsing_scores.py" --train "$work/trees/train.trees" \
    --gold "$work/trees/test.trees" --parsed "$work/output/test.trees" \
    --unconstrained "$work/output/unconstrained.trees" \
    --tagged "$work/output/tagged.trees" ${valid[@]+"${valid[@]}"}
  remove_leftovers "$work/.result.json"
  run python "$lib/result.py" --work "$work" --recipe "$recipe" --arch "$arch" \
    --train-log "$work/logs/train.log" --data "${files[@]}" --path data_bin=data-bin \
    --path checkpoints=checkpoints --path bundle=model --scores "f1=$work/output/f1.json" \
    --output "$work/result.json"
  complete_bundle
}

show_result() {
  python "$lib/report_table.py" f1 "$work/output/f1.json"
  python "$lib/summary.py" "$work/result.json" --title "$title"
}

main_recipe "$@"
