#!/usr/bin/env bash
# shellcheck disable=SC2034,SC2154  # what the recipes read, and what they set
#
# What every recipe shares: options, stages, dry runs. Sourced by the recipes after env.sh.
#
# A recipe sets `recipe` (its name) and `stages` (an array of names), defines
#   recipe_option NAME VALUE   takes an option of its own, by `set_option` where the variable has its
#                              name; returns 1 where it knows no such option
#   recipe_defaults            fills in what no option set and checks it (may call `die`)
#   stage_NAME                 does a stage; prints its commands by going through `run`
#   key_NAME                   prints all on which the stage's result depends
#   after_NAME                 where it has one: runs once the stage is done, now or before, for what
#                              the later stages' options depend on
#   show_result                prints what people read at the end
#   training_command           where it makes one training: see launch.sh and translation.sh
# and calls `main_recipe "$@"`. A finished stage leaves WORK/.stages/NAME with its key and is
# skipped from then on. Where the key differs it runs again, and with it the stages that follow, up
# to one that is named in `by_content`: the key of such a stage holds the sums of the files that it
# reads, which tell by themselves whether it has to run again.

# In bash 4.4 and later, a command that fails inside $(...) ends the recipe as it does elsewhere.
shopt -s inherit_errexit 2>/dev/null || true

work=''
data=''
scale=full
dry_run=''
by_content=()
inputs=() # files and folders that the user named, which no stage may empty
first_stage=''
last_stage=''
recipe_file=$0

# shellcheck source=recipes/lib/launch.sh
source "$(dirname "${BASH_SOURCE[0]}")/launch.sh"

die() {
  printf '%s: error: %s\n' "${recipe:-recipe}" "$*" >&2
  exit 1
}
say() { printf '%s: %s\n' "$recipe" "$*" >&2; }

usage() { # the comment at the top of the recipe is its help
  awk 'NR == 1 { next } !/^#/ { exit } { sub(/^# ?/, ""); print }' "$recipe_file"
  if declare -F recipe_usage >/dev/null; then recipe_usage; fi
  cat <<'HELP'

Options of every recipe:
  --data DIR         folder of the raw data (default: download or generate it)
  --work DIR         folder of everything that the recipe writes (default: work/RECIPE)
  --stage S          first stage to run, by name or by number from 1 on (default: the first)
  --stop-stage S     last stage to run (default: the last)
  --scale tiny|full  tiny takes a few minutes and checks that everything runs; its scores mean
                     nothing, except those of table3.sh, an hour (default: full)
  --dry-run          print the commands without running them
  --help             print this text
HELP
  launch_usage
  cat <<'HELP'
A finished stage is skipped; delete WORK/.stages/STAGE to run it again. To resume a training that
was interrupted, give the same command again: it continues from the last checkpoint.
HELP
  printf 'Stages:'
  printf ' %s' "${stages[@]}"
  printf '\n'
}

is_count() { [[ "$1" =~ ^[1-9][0-9]{0,8}$ ]]; }

need_count() { is_count "$2" || die "$1 $2: must be a whole number from 1 on"; }

need_counts() { # VARIABLE...: those of the options --VARIABLE, with dashes
  local variable
  for variable in "$@"; do need_count "--${variable//_/-}" "${!variable}"; done
}

need_number() { [[ "$2" =~ ^([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?$ ]] || die "$1 $2: must be a number"; }

need_seeds() { # FLAG VALUE
  local seed before=,
  [[ "$2" =~ ^[1-9][0-9]{0,8}(,[1-9][0-9]{0,8})*$ ]] ||
    die "$1 $2: must be whole numbers from 1 on, such as 1,2"
  for seed in ${2//,/ }; do
    [[ "$before" != *",$seed,"* ]] || die "$1 $2: names $seed twice"
    before+=$seed,
  done
}

# set_option NAME VALUE VARIABLE...: where NAME is one of the options --VARIABLE, written with dashes,
# sets that variable; otherwise returns 1.
set_option() {
  local _name=$1 _value=$2 _variable
  [[ "$_name" =~ ^--[a-z-]+$ ]] || return 1
  shift 2
  for _variable in "$@"; do
    if [[ "$_name" == "--${_variable//_/-}" ]]; then
      printf -v "$_variable" %s "$_value"
      return
    fi
  done
  return 1
}

parse_options() {
  local name value
  while (($#)); do
    name=$1
    shift
    case $name in
      --help | -h) usage && exit 0 ;;
      --dry-run) dry_run=1 && continue ;;
      --cpu) device=cpu gpus=0 && continue ;;
      --*=*) value=${name#*=} && name=${name%%=*} ;;
      --*)
        (($#)) || die "$name: needs a value (see --help)"
        value=$1
        shift
        ;;
      *) die "$name: no option of this recipe (see --help)" ;;
    esac
    case $name in
      --data) data=$value ;;
      --work) work=$value ;;
      --stage) first_stage=$value ;;
      --stop-stage) last_stage=$value ;;
      --scale) scale=$value ;;
      *) launch_option "$name" "$value" || recipe_option "$name" "$value" || die "$name: no option of this recipe (see --help)" ;;
    esac
  done
}

stage_number() { # OPTION VALUE: prints the number (from 1 on) of a stage given by name or number
  local index
  for ((index = 0; index < ${#stages[@]}; index++)); do
    if [[ "$2" == "${stages[index]}" || "$2" == $((index + 1)) ]]; then
      echo $((index + 1))
      return
    fi
  done
  die "$1 $2: no such stage (stages: ${stages[*]})"
}

absolute() { # PATH: as seen from where the recipe was started
  case $1 in
    /*) echo "$1" ;;
    *) echo "$PWD/$1" ;;
  esac
}

check_common_options() {
  case $scale in
    tiny | full) ;;
    *) die "--scale $scale: must be tiny or full" ;;
  esac
  first_stage=$(stage_number --stage "${first_stage:-1}") || exit 1
  last_stage=$(stage_number --stop-stage "${last_stage:-${#stages[@]}}") || exit 1
  ((first_stage <= last_stage)) || die "--stop-stage ${stages[last_stage - 1]} lies before --stage ${stages[first_stage - 1]}"
  check_launch_options
  # Lists of files have one file a line.
  [[ "$work$data" != *$'\n'* ]] || die "--work, --data: a folder's name with a line break in it can't be used"
  work=$(absolute "${work:-$VASWANI_ROOT/work/$recipe}")
  if [[ -n "$data" ]]; then
    [[ -d "$data" ]] || die "--data $data: no such folder"
    data=$(cd -- "$data" && pwd -P)
    inputs+=("$data")
  fi
}

# run COMMAND...: prints the command; runs it unless this is a dry run.
run() {
  printf '+' >&2
  printf ' %q' "$@" >&2
  printf '\n' >&2
  [[ -n "$dry_run" ]] || "$@"
}

# run_to FILE COMMAND...: the output goes to FILE, which appears only when the command succeeded.
run_to() {
  local file=$1
  shift
  printf '+' >&2
  printf ' %q' "$@" >&2
  printf ' > %q\n' "$file" >&2
  [[ -z "$dry_run" ]] || return 0
  mkdir -p "$(dirname "$file")"
  "$@" >"$file.part"
  mv "$file.part" "$file"
}

# unpack_toy FOLDER EXTENSION...: the first `pairs` lines of data-prep/toy/FOLDER, in WORK/raw or $toy_folder.
toy=$VASWANI_ROOT/data-prep/toy
unpack_toy() {
  local index extension folder=$1 splits=(train valid test)
  shift
  for extension in "$@"; do
    for index in 0 1 2; do
      run_to "${toy_folder:-$work/raw}/${splits[index]}.$extension" \
        python "$VASWANI_ROOT/recipes/lib/first_lines.py" "${pairs[index]}" "$toy/$folder/${splits[index]}.$extension.gz"
    done
  done
}

# run_logged FILE COMMAND...: shows the output and adds it to FILE.
run_logged() {
  local file=$1
  shift
  printf '+' >&2
  printf ' %q' "$@" >&2
  printf ' 2>&1 | tee -a %q\n' "$file" >&2
  [[ -z "$dry_run" ]] || return 0
  mkdir -p "$(dirname "$file")"
  "$@" 2>&1 | tee -a "$file"
}

# fresh_folder DIR [KEY]: makes an empty folder. A folder that was begun under the same KEY stays
# as it is, so that a training finds its checkpoints.
fresh_folder() {
  local folder=$1 key=${2:-}
  if [[ -n "$key" && -f "$folder/.key" && "$(<"$folder/.key")" == "$key" ]]; then return; fi
  require_no_inputs "$folder"
  [[ -z "$dry_run" ]] || return 0
  rm -rf "$folder"
  mkdir -p "$folder"
  if [[ -n "$key" ]]; then printf '%s\n' "$key" >"$folder/.key"; fi
}

require_no_inputs() { # FOLDER: dies if a file of `inputs` lies in it
  local file place
  [[ -d "$1" ]] || return 0
  for file in ${inputs[@]+"${inputs[@]}"}; do
    place=$file
    [[ -d "$place" ]] || place=$(dirname -- "$place")
    place=$(cd -- "$place" && pwd -P)/
    [[ "$place" != "$(cd -- "$1" && pwd -P)"/* ]] ||
      die "$file lies in $1, which this recipe empties: move it, or give another --work"
  done
}

# set_aside FOLDER LOG REASON: a training that can't go on is kept beside the new one.
set_aside() {
  local number=1
  while [[ -e "$1.$number" ]]; do number=$((number + 1)); done
  mv "$1" "$1.$number"
  if [[ -f "$2" ]]; then mv "$2" "$1.$number/train.log"; fi
  say "the checkpoints here are $3: they are kept in $1.$number; training from the start"
}

# remove_leftovers PREFIX...: temporary files of an earlier try that was killed.
remove_leftovers() {
  local prefix
  [[ -z "$dry_run" ]] || return 0
  for prefix in "$@"; do rm -rf "$prefix".*; done
}

# complete_bundle: writes the bundle's model card and model.safetensors; needs result.json.
complete_bundle() {
  remove_leftovers "$work"/model/.{model.safetensors,config.json,README.md}
  run vaswani card --model "$work/model" --result "$work/result.json"
}

stage_stamp() { echo "$work/.stages/$1"; }

stage_is_done() { # NAME KEY: finished, and with this key
  [[ -f "$(stage_stamp "$1")" && "$(<"$(stage_stamp "$1")")" == "$2" ]]
}

# digests FILE...: name and sum of each, for keys; nothing in a dry run, which writes no cache.
digests() {
  [[ -z "$dry_run" ]] || return 0
  python "$VASWANI_ROOT/recipes/lib/digests.py" --cache "$work/.stages/digests.json" "$@"
}

listed_digests() { # digests of the files that standard input names, one a line
  local file files=()
  while IFS= read -r file; do files+=("$file"); done
  ((${#files[@]} == 0)) || digests "${files[@]}"
}

forget_stages_from() { # NUMBER: this stage and the following ones, up to the first in `by_content`
  local index
  rm -f "$(stage_stamp "${stages[$1 - 1]}")"
  for ((index = $1; index < ${#stages[@]}; index++)); do
    case " ${by_content[*]-} " in *" ${stages[index]} "*) return 0 ;; esac
    rm -f "$(stage_stamp "${stages[index]}")"
  done
}

report_break() {
  local status=$?
  if ((status != 0)) && [[ -n "${current_stage:-}" ]]; then
    printf '%s: error: stage %s ended with exit code %d; the reason is above. The same command begins again with this stage.\n' \
      "$recipe" "$current_stage" "$status" >&2
  fi
}

run_stages() {
  local number name key
  current_stage=''
  trap report_break EXIT
  for ((number = 1; number <= last_stage; number++)); do
    name=${stages[number - 1]}
    if [[ -n "$dry_run" ]]; then
      if ((number >= first_stage)); then
        say "stage $number, $name"
        "stage_$name"
      fi
      run_after "$name"
      continue
    fi
    key=$("key_$name")
    if stage_is_done "$name" "$key"; then
      ((number < first_stage)) || say "stage $number, $name: done before"
      run_after "$name"
      continue
    fi
    ((number >= first_stage)) ||
      die "--stage ${stages[first_stage - 1]}: the earlier stage $name is not done with these options; begin with --stage $name"
    forget_stages_from "$number"
    say "stage $number, $name"
    current_stage=$name
    # Not `if stage_x`: that would switch off `set -e` inside.
    "stage_$name"
    current_stage=''
    mkdir -p "$work/.stages"
    printf '%s\n' "$key" >"$(stage_stamp "$name").part"
    mv "$(stage_stamp "$name").part" "$(stage_stamp "$name")"
    run_after "$name"
  done
}

run_after() { # NAME of a stage
  if declare -F "after_$1" >/dev/null; then "after_$1"; fi
}

main_recipe() {
  parse_options "$@"
  check_common_options
  recipe_defaults
  if ((node_rank > 0)); then
    join_training
    return
  fi
  if [[ -z "$dry_run" ]]; then
    mkdir -p "$work" 2>/dev/null || die "--work $work: cannot be made"
    if command -v flock >/dev/null 2>&1; then
      exec 8>>"$work/.lock"
      # A run that was just killed may need a moment to end. A training that outlived its recipe
      # also holds the lock.
      flock -w 5 8 || die "--work $work: another run is at work there; wait for it or choose another folder"
    fi
  fi
  run_stages
  if [[ -z "$dry_run" ]] && ((last_stage == ${#stages[@]})); then show_result; fi
}
