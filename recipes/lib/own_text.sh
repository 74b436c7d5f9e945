#!/usr/bin/env bash
# shellcheck disable=SC2034,SC2154  # what own_text.sh and the files that source this one set and read
#
# What own_text.sh does for translation (own_pairs.sh) and for language models (own_lines.sh) alike:
# its options, the stage corpus, the choices by the size of the text. Sourced by these after
# translation.sh or language_model.sh.

given='' # the options that the user set; no choice here changes them
pair=''
vocabulary=''
valid_size='' test_size='' max_length=1000 max_ratio=3 copies=drop mix_ratio=''
init_from=''
average=5
average_over=best
patience=8
layout=text

own_text_option() { # NAME VALUE
  given+=" ${1#--}"
  set_option "$@" task pair vocabulary valid_size test_size max_length max_ratio copies dropout \
    patience init_from mix_ratio
}

check_own_text_options() {
  case $task in
    translation | lm) ;;
    *) die "--task $task: must be translation or lm" ;;
  esac
  need_counts max_length patience
  need_number --max-ratio "$max_ratio"
  if [[ -n "$mix_ratio" ]]; then
    need_number --mix-ratio "$mix_ratio"
    [[ -n "$mixes_old" ]] || die "--mix-ratio $mix_ratio: goes with --mix-old"
  fi
  if [[ -n "$vocabulary" ]]; then need_counts vocabulary; fi
  if [[ -n "$valid_size" ]]; then
    need_counts valid_size
    ((${#valid_files[@]} == 0)) || die "--valid-size $valid_size: leave it out with --valid"
  fi
  if [[ -n "$test_size" ]]; then
    need_counts test_size
    ((${#test_files[@]} == 0)) || die "--test-size $test_size: leave it out with --test"
  fi
  if [[ -n "$dropout" ]]; then need_number --dropout "$dropout"; fi
  case $copies in
    drop | keep) ;;
    *) die "--copies $copies: must be drop or keep" ;;
  esac
  if ((${#train_files[@]} == 0)); then die "--train: give the training text (see --help)"; fi
  check_files --train "${train_files[@]}"
  check_files --valid ${valid_files[@]+"${valid_files[@]}"}
  check_files --test ${test_files[@]+"${test_files[@]}"}
}

need_bundle() {
  [[ -f "$init_from/preprocessing.json" && -f "$init_from/model.pt" ]] ||
    die "--init-from $init_from: no bundle (a folder WORK/model of a recipe)"
  inputs+=("$init_from")
}

check_files() { # OPTION FILE...: at most two files, which must exist
  local option=$1 file
  shift
  (($# <= 2)) || die "$option: takes one file or two, not $#: ${*:3}"
  for file in "$@"; do
    [[ "$file" != *$'\n'* ]] || die "$option: a file's name with a line break in it can't be used"
    [[ -e "$file" ]] || die "$option $file: no such file"
    inputs+=("$file")
  done
}

source_files() { # all input files, one a line
  local file
  for file in "${train_files[@]}" ${valid_files[@]+"${valid_files[@]}"} ${test_files[@]+"${test_files[@]}"} \
    ${old_files[@]+"${old_files[@]}"} ${old_test_files[@]+"${old_test_files[@]}"}; do
    absolute "$file"
  done
}

key_corpus() {
  source_files | listed_digests
  printf '%s ' "pair $pair task $task scale $scale length $max_length ratio $max_ratio copies $copies"
  printf 'valid %s test %s mix %s\n' "$valid_size" "$test_size" "${mix_ratio:-1}"
  printf 'files %s\n' "${#train_files[@]} ${#valid_files[@]} ${#test_files[@]} ${#old_files[@]} ${#old_test_files[@]}"
}

stage_corpus() {
  local command=(python "$prep/own_text.py" --train "${train_files[@]}")
  if [[ "$task" == translation ]]; then
    command+=(--pair "$pair" --max-length "$max_length" --max-ratio "$max_ratio" --copies "$copies")
  fi
  if ((${#valid_files[@]})); then command+=(--valid "${valid_files[@]}"); fi
  if ((${#test_files[@]})); then command+=(--test "${test_files[@]}"); fi
  if ((${#old_files[@]})); then command+=(--mix-old "${old_files[@]}" --mix-ratio "${mix_ratio:-1}"); fi
  if ((${#old_test_files[@]})); then command+=(--keep-out "${old_test_files[@]}"); fi
  if [[ -n "$valid_size" ]]; then command+=(--valid-size "$valid_size"); fi
  if [[ -n "$test_size" ]]; then command+=(--test-size "$test_size"); fi
  fresh_folder "$work/raw"
  remove_leftovers "$work/.corpus.json"
  run "${command[@]}" --output "$work/raw" --report "$work/corpus.json"
}

# The size of the text is known once it is clean.
after_corpus() {
  choose_table_row "$(table_size)"
  if [[ -n "$init_from" ]]; then choose_fine_tuning; fi
  if [[ "$scale" == tiny ]]; then
    choose arch "$debug_arch"
    if ((vocabulary > 400)); then vocabulary=400; fi
    use_tiny_scale
  fi
  use_choices
  say "$arch, vocabulary $vocabulary, dropout ${dropout:-of the architecture}, $max_tokens tokens x $update_freq, at most $max_update updates, patience $patience"
}

report_number() { # KEY: a number of corpus.json, the first of this name; 0 in a dry run before it is there
  local found=''
  if [[ -f "$work/corpus.json" ]]; then
    found=$(sed -n "s/^ *\"$1\": \([0-9]*\),\{0,1\}$/\1/p" "$work/corpus.json" | sed -n 1p)
  fi
  echo "${found:-0}"
}

report_word() { # KEY: a text of corpus.json; nothing before it is there
  if [[ -f "$work/corpus.json" ]]; then sed -n "s/^ *\"$1\": \"\([^\"]*\)\",\{0,1\}$/\1/p" "$work/corpus.json"; fi
}

training_size() { # pairs (or lines) to train on; in a dry run those of the files
  local lines
  lines=$(report_number train)
  if ((lines == 0)); then
    case ${train_files[0]} in
      *.gz) lines=$(gzip -dc -- "${train_files[0]}" | wc -l) ;;
      *) lines=$(wc -l <"${train_files[0]}") ;;
    esac
  fi
  echo $((lines))
}

choose() { # NAME VALUE: sets the option --NAME unless the user did
  [[ " $given " != *" $1 "* ]] || return 0
  case $1 in
    save-interval-updates) save_interval=$2 ;;
    *) printf -v "${1//-/_}" %s "$2" ;;
  esac
}

choose_row() { # VOCABULARY ARCH DROPOUT MAX-TOKENS UPDATE-FREQ WARMUP LR-FACTOR MAX-UPDATE INTERVAL
  choose vocabulary "$1"
  choose arch "$2"
  choose dropout "$3"
  choose max-tokens "$4"
  choose update-freq "$5"
  choose warmup-updates "$6"
  choose lr-factor "$7"
  choose max-update "$8"
  choose save-interval-updates "$9"
}

# PAIRS: the table of own_text.sh. The peak rate is lr-factor x d_model^-0.5 x warm-up^-0.5.
choose_table_row() {
  local factors=(0.5657 1.2649 2.5298)
  if [[ "$task" == lm ]]; then factors=(0.5657 0.8944 1.2649); fi
  if (($1 <= 10000)); then
    choose_row 1000 "$small_arch" 0.3 2048 1 400 "${factors[0]}" 5000 100
  elif (($1 <= 100000)); then
    choose_row 4000 "$small_arch" 0.3 4096 1 1000 "${factors[1]}" 20000 250
  elif (($1 <= 1000000)) && [[ "$device" == cpu || "$task" == lm ]]; then
    choose_row 8000 "$small_arch" 0.1 8192 1 2000 "${factors[2]}" 50000 1000
  elif (($1 <= 1000000)); then
    choose_row 8000 vaswani_c_d256 0.1 8192 1 4000 1.0 50000 1000
  else
    choose_row 32000 "$large_arch" 0.1 4096 "$(batches_to_an_update 8)" 4000 1.0 100000 1500
  fi
}

batches_to_an_update() { # GPUS that the batch is meant for
  local workers
  workers=$(all_workers)
  echo $((workers < $1 ? $1 / workers : 1))
}

# The training of --init-from: a low rate, validated often. 0.06 x 128^-0.5 x 100^-0.5 = 5e-4.
choose_fine_tuning() {
  choose warmup-updates 100
  choose lr-factor 0.06
  choose max-update 2000
  choose save-interval-updates 25
  choose patience 5
}

# The bundle's model, as flags of fairseq-train.
use_architecture() {
  local python=${VASWANI_VENV:-$VASWANI_ROOT/.venv}/bin/python words=()
  if [[ -n "$dry_run" && ! -x "$python" ]]; then return; fi
  while IFS= read -r word; do words+=("$word"); done < <("$python" "$lib/bundle_architecture.py" "$init_from")
  ((${#words[@]})) || die "--init-from $init_from: its model can't be fine-tuned; the reason is above"
  arch=${words[0]}
  model_options=("${words[@]:1}" --finetune-from-model "$init_from/model.pt")
}

# --continue: one more round if the last one has ended. The number of rounds is kept with the
# checkpoints.
count_rounds() {
  local file=$work/checkpoints/.continued updates=$max_update
  if [[ -f "$file" ]]; then continued=$(<"$file"); fi
  max_update=$((updates * (continued + 1)))
  if [[ -z "$continues" || -n "$dry_run" ]]; then return; fi
  [[ -f "$work/checkpoints/checkpoint_last.pt" && -f "$work/checkpoints/.key" ]] ||
    die "--continue: there is no training in $work to go on with; leave it out"
  if [[ "$(<"$work/checkpoints/.key")" != "$(training_key)" ]]; then
    die "--continue: the text or the options have changed since; start from the trained model with --init-from $work/model and another --work"
  fi
  if training_is_complete; then
    continued=$((continued + 1))
    max_update=$((updates * (continued + 1)))
    printf '%s\n' "$continued" >"$file.part"
    mv "$file.part" "$file"
  fi
}
