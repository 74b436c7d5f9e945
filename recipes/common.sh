# shellcheck shell=bash disable=SC2034,SC2154  # sourced; some variables are the recipes' alone
#
# What the recipes share. A recipe names itself and its own options, begins, and does its steps:
#
#   recipe=multi30k pair=en-de options=pair later='' paths='' family=''  # later: may change in the same WORK; paths: files or folders; family: how its architectures begin; least: tokens of a batch (512)
#   source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
#   begin "$@"
#   step tokenize every raw tok python "$prep/normalize_tokenize.py" --language {}
#
# A step that is done leaves WORK/.steps/NAME with its command and is skipped from then on; one that
# was cut off runs again, and fairseq-train goes on from its last checkpoint by itself.
set -euo pipefail && unset CDPATH # with it, cd may print the folder
export LC_ALL=C PYTHONUTF8=1
# Threads that wait must not spin: beside other work two spinning ones train at a tenth of the speed.
export OMP_WAIT_POLICY="${OMP_WAIT_POLICY:-passive}"

usage() { # the comment on top of the recipe, and the options of all
  awk 'NR > 1 && !/^#/ || /^# shellcheck/ { exit } NR > 1 { sub(/^# ?/, ""); print }' "$0"
  cat <<'HELP'

Options of every recipe:
  --work DIR       everything that the recipe writes (default: work/RECIPE)
  --data DIR       a folder that has the corpus already
  --scale tiny     a few sentences and updates: does everything run? The scores mean nothing
  --from STEP, --until STEP   do STEP and all that follow again; end after STEP
  --continue N     a finished training goes on until N updates in all; what follows is done again
  --finish         no more training: average and score what a training that was stopped has saved
  --minutes N      a training ends after N minutes in all, also where it was stopped in between
  --dry-run        print the commands, run nothing
  --cpu | --gpus N     train on the CPU, or on N GPUs (default: one, where there is one)
  --float32        train base and big on a CPU in float32, also where it multiplies bfloat16 faster
  --nodes N --node-rank R --master HOST:PORT   of N machines that share WORK, this is number R;
                   number 0 does every step, the others only train
  -- FLAG...       more flags of fairseq-train; they win over the recipe's
HELP
}

say() { printf '%s: %s\n' "$recipe" "$*" >&2; }
die() { printf '%s: error: %s\n' "$recipe" "$*" >&2 && exit 1; }
is_tiny() { [[ $scale == tiny ]]; }
or_tiny() { if is_tiny; then echo "$2"; else echo "$1"; fi; } # FULL TINY: a value by --scale
is_training() { [[ $1 == train || $1 == train-* ]]; }
toy_pair() { if [[ $pair == *fr* ]]; then echo en-fr; else echo en-de; fi; }

share() { # N: sets `batches` to those of a worker, of the N of an update, `in_all`
  (($1 % workers == 0)) || die "--gpus, --nodes: the batch is meant for $1 GPUs; give 1, 2, 4$( (($1 == 8)) || echo ', 8') or $1 in all"
  in_all=$1 batches=$(($1 / workers))
}

languages() { # SRC-TGT: sets pair, source and target; names of BCP 47, whose case tells pt from PT
  local one='([a-z]{2,3}(-[A-Z][a-z]{3})?(-([A-Z]{2}|[0-9]{3}))?(-[a-z0-9]{5,8}|-[0-9][a-z0-9]{3})*)'
  [[ $1 =~ ^$one-$one$ && ${BASH_REMATCH[1]} != "${BASH_REMATCH[6]}" ]] ||
    die "--pair $1: give two different languages by their names of BCP 47, as in en-de, de-hsb, en-pt-BR"
  pair=$1 source=${BASH_REMATCH[1]} target=${BASH_REMATCH[6]}
}

begin() { # ARGUMENT...: reads the options, makes the environment, takes the folder
  local _name _given _kept _path _words=("$@") _own=" work data scale from until continue minutes gpus nodes node_rank master ${options-} ${later-} "
  root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
  toy=$root/data-prep/toy prep=$root/data-prep plugin=$root/vaswani_plugin
  work=$root/work/$recipe data='' scale=full from='' until='' continue='' finish='' minutes='' dry_run='' float32='' gpus='' nodes=1 node_rank=0 master=''
  extra=() cpu='' current='' again='' passed='' goes_on='the same command' in_all=0 batches=0 child='' stopped=''
  while (($#)); do
    case $1 in
      --help | -h) usage && exit ;;
      --dry-run) dry_run=1 && shift && continue ;;
      --float32) float32=1 && shift && continue ;;
      --finish) finish=1 && shift && continue ;;
      --cpu) gpus=0 && shift && continue ;;
      --) shift && extra=("$@") && break ;;
    esac
    _name=${1#--} && _name=${_name//-/_}
    [[ $1 == --[a-z]* && $_own == *" $_name "* ]] || die "$1: no option of this recipe (see --help; flags of fairseq-train come after --)"
    (($# > 1)) || die "$1: needs a value"
    printf -v "$_name" %s "$2" && shift 2
    [[ -z ${1-} || $1 == --* || $_name =~ ^(train|valid|test|files)$ ]] || die "$1: --${_name//_/-} takes one value: quote what has blanks"
    while (($#)) && [[ $1 != --* ]]; do printf -v "$_name" '%s\n%s' "${!_name}" "$1" && shift; done # --train FILE FILE
  done
  [[ $scale == full || $scale == tiny ]] || die "--scale $scale: must be tiny or full"
  [[ -z $data || -d $data ]] || die "--data $data: no such folder"
  for _name in ${arch-} $(printf '%s\n' ${extra[@]+"${extra[@]}"} | awk 'arch { print } { arch = $0 == "--arch" }'); do
    grep -rqs "\"$_name\"" "$plugin/model" "$plugin/ancestors" || die "--arch $_name: no such architecture; \`vaswani archs\` lists them"
    [[ $_name == "${family-}"* && (-n ${family-} || ! $_name =~ ^vaswani_(lm|parser)) ]] || die "--arch $_name: of another task than this recipe's"
  done
  if [[ " ${extra[*]-} " =~ \ (--save-dir|--no-save)[=\ ] ]]; then die "${BASH_REMATCH[1]}: this recipe saves in --work"; fi
  if [[ -n ${pair+x} && " ${extra[*]-} " =~ \ (-[st]|--(source|target)-lang) ]]; then die "${BASH_REMATCH[1]}: this recipe's direction is that of --pair"; fi
  if [[ -n $data ]]; then data=$(cd -- "$data" && pwd -P); fi
  if [[ $work != /* ]]; then work=$PWD/$work; fi
  for _name in ${paths-}; do # in another folder the same name is another file
    _given=''
    while IFS= read -r _path; do
      if [[ -e $_path && $_path != /* ]]; then _path=$PWD/$_path; fi
      _given+=${_given:+$'\n'}$_path
    done <<<"${!_name-}"
    printf -v "$_name" %s "$_given"
  done
  [[ $work != *:* ]] || die "--work $work: fairseq takes a colon for the end of a path: give another folder"
  [[ $root$work${init_from-} != *{}* ]] || die "--work $work${init_from:+, --init-from $init_from}, $root: no path may hold {}, which stands for a language: give another folder"
  gpus=${gpus:-$({ nvidia-smi -L 2>/dev/null || true; } | awk '/^GPU/ { n = 1 } END { print n + 0 }')}
  [[ "$gpus $nodes $node_rank ${continue:-0} ${minutes:-1}" =~ ^(0|[1-9][0-9]*)( (0|[1-9][0-9]*))*$ && ${minutes:-1} != 0 && ${continue:-1} != 0 ]] ||
    die "--gpus, --nodes, --node-rank, --continue, --minutes: must be numbers"
  ((node_rank < nodes)) || die "--node-rank $node_rank: must be below --nodes $nodes; the first has number 0"
  if [[ -n $finish ]] && { [[ -n $continue ]] || is_training "$from"; }; then die "--finish ends a training, --continue and --from go on with it or begin anew: give one of them"; fi
  if [[ -n ${pair-} ]]; then languages "$pair"; fi
  ((nodes == 1)) || [[ $master == *:* ]] || die "--nodes $nodes: needs --master HOST:PORT, the address of node 0"
  if ((gpus == 0)); then cpu=1 workers=$nodes; else workers=$((nodes * gpus)); fi
  if ((workers == 1)) && [[ " ${extra[*]-} " =~ \ --distributed-world-size[=\ ]([1-9][0-9]*)\  ]]; then workers=${BASH_REMATCH[1]}; fi
  if [[ -n $dry_run ]]; then return; fi
  trap ended EXIT
  # shellcheck disable=SC2064
  for _name in INT TERM HUP USR1; do trap "pass_on $_name" "$_name"; done
  trap 'signaled=1; for _each in STOP CONT; do kill -s $_each -- ${child:+"-$child"} $$; done' TSTP # Ctrl-Z
  # shellcheck source=recipes/lib/env.sh
  source "$root/recipes/lib/env.sh"
  if [[ -n $from$until ]]; then "$BASH" "$0" --dry-run "${_words[@]}" >/dev/null || exit; fi # is there such a step?
  exec 3>&2
  { mkdir -p "$work/.steps" "$work/logs" && : >>"$work/.lock"; } || die "--work $work: cannot be written"
  if ((node_rank > 0)); then return; fi
  if command -v flock >/dev/null; then
    exec 8>>"$work/.lock"
    flock -w 5 8 || die "--work $work: another run is at work there; wait for it, or give another folder"
  fi
  _given="--data $data --scale $scale"
  for _name in ${options-}; do _given+=" --${_name//_/-} ${!_name}"; done
  _given+=" -- ${extra[*]-}" _kept=$(cat "$work/.options" 2>/dev/null || true)
  [[ -n $(find "$work"/{checkpoints,models,.steps} -name '*.pt' -o -name train -o -name 'train-*' ! -name '*.begun' 2>/dev/null) ]] || _kept="${_kept%% -- *} -- ${extra[*]-}" # none has trained
  [[ ! -f $work/.options || -z $(find "$work/.steps" -type f ! -name '*.inputs') || $_kept == "$_given" ]] ||
    die "--work $work was made with other options ($(tr '\n' ' ' <<<"$_kept")): give another folder"
  printf '%s\n' "$_given" >"$work/.options"
}

note() { # FILE: the step has read it, and will notice where it has changed
  printf '%s %s\n' "$(cksum <"$1")" "$1" >>"$stamp.inputs"
}

leave() { exit $((128 + $(kill -l "$stopped"))); }
pass_on() { # SIGNAL: to all processes of the step, which may save before they end
  local before=$stopped && stopped=$1 signaled=1
  if [[ -z $child ]]; then leave; fi
  [[ $1 == "$before" && $1 != INT ]] || kill -s "$1" -- "-$child" 2>/dev/null || true # `timeout` sends twice; a second Ctrl-C ends at once
}

ended() { # says where a step failed or was stopped, and why
  local status=$? && if [[ -z $current ]]; then return; fi
  if ((status == 75 || status == 130)) || [[ -n $stopped && $status -gt 128 ]]; then
    say "stopped in step $current; $goes_on goes on there$([[ $current != train ]] || echo ', with --finish it takes what is saved')" 2>&3 && return
  fi
  if [[ -s $log ]]; then tail -n 3 "$log" | cut -c 1-300 >&3; else df -P "$work" >&3; fi # the disk may be full
  say "error: step $current ended with exit code $status (all it said: $log); $goes_on, or a corrected one, goes on there" 2>&3
}

attempt() { # COMMAND...: in a process group of its own, so that a signal reaches each process once
  local status && set -m
  (
    trap 'exit $(($? ? $? : 143))' INT TERM HUP USR1 # when the program that runs has ended
    # kill -9 of the recipe ends the step, too; a signal to the step must not end this watch's sleep
    { trap '' INT TERM HUP USR1 && while kill -0 $$; do sleep 2; done && kill -s TERM 0; } >/dev/null 2>&1 3>&- 8>&- &
    watch=$! && trap 'kill -s KILL "$watch" 2>/dev/null || true' EXIT
    "$@"
  ) >>"$log" 2>&1 </dev/null &
  child=$! && set +m
  while signaled='' status=0 && { wait "$child" 2>/dev/null || status=$?; } && [[ -n $signaled ]]; do :; done
  child='' && return "$status"
}

anew() { # the step at hand and all after it are no longer done, also where --until ends before them
  local file name && again=1
  for file in "$work/.steps"/*; do
    name=${file##*/} && name=${name%.inputs} && [[ -n $dry_run || $node_rank -gt 0 || " $passed " == *" ${name%.begun} "* ]] || rm -f "$file"
  done
}

step() { # NAME COMMAND...: does it once
  local name=$1 stamp=$work/.steps/$1 key file sum size
  log=$work/logs/$name$(if ((node_rank)); then echo ".node$node_rank"; fi).log && shift
  if ((node_rank > 0)) && { [[ -n $finish ]] || ! is_training "$name"; }; then return; fi
  if [[ $from == "$name" ]] || { [[ -n $continue ]] && is_training "$name"; }; then goes_on="the same command${from:+ without --from}" from='' && anew; fi
  passed+=" $name"
  if [[ -n $dry_run ]]; then
    printf '%s' "$name:" && printf ' %q' "$@" && echo
    if [[ $name != "$until" ]]; then return 0; fi
    [[ -z $from ]] || die "--from $from: no such step up to --until $until"
    exit 0
  fi
  key=$(printf '%q ' "$@" && [[ $1 == train ]] || declare -f "$1" || true) # a training goes on by a newer recipe, too
  key=${key/"--update-freq $batches "/--update-freq $in_all/workers } # another number of them goes on
  for file in "$work WORK" "$root ROOT"; do key=${key//"$(printf %q "${file% *}")"/${file##* }}; done
  if [[ -n $again || ($name == bundle && ! -d $work/model) ]]; then rm -f "$stamp" "$stamp.begun"; fi
  for file in "$stamp" "$stamp.begun"; do
    [[ ! -f $file || "$(<"$file")" == "$key" ]] || die "step $name was done by another command in $work: give another --work, or --from $name"
  done
  if [[ -n $finish && ! -f $stamp ]] && is_training "$name"; then
    [[ $name == train && -f $stamp.begun && -n $(find "$work/checkpoints" -name '*.pt' 2>/dev/null) ]] || die "--finish: step $name has saved nothing yet, or is one of several trainings"
    say "$name: ends here, as asked" && mv "$stamp.begun" "$stamp" && anew
  fi
  [[ -f $stamp ]] || rm -f "$stamp.inputs"
  while read -r sum size file; do
    [[ ! -f $file || "$(cksum <"$file")" == "$sum $size" ]] || die "$file has changed since step $name read it: give another --work, or --from $name"
  done < <(cat "$stamp.inputs" 2>/dev/null || true)
  if [[ ! -f $stamp ]]; then
    say "$name"
    if [[ -f $stamp.begun || -n $continue ]]; then is_new=''; else is_new=1; fi
    current=$name
    if ((node_rank == 0)) && is_training "$name"; then printf '%s\n' "$key" >"$stamp.begun"; fi
    attempt "$@"
    for file in "$@"; do
      if [[ -f $file && $file == /* && $file != "$work"/* && $file != *.py ]]; then note "$file"; fi
    done
    if ((node_rank == 0)); then printf '%s\n' "$key" >"$stamp" && rm -f "$stamp.begun"; fi
    current='' && { [[ -n $again ]] || anew; } # the steps after it used what it has replaced
    if [[ -n $stopped ]]; then say "stopped after step $name; $goes_on goes on there" && leave; fi
  fi
  if [[ $name == "$until" ]]; then say "done until $name, in $work" && exit; fi
}

to() { # FILE COMMAND...: its output goes to FILE, which appears when it is whole
  mkdir -p "$(dirname "$1")"
  "${@:2}" >"$1.part"
  mv "$1.part" "$1"
}

text() { # FILE: plain or .gz; with --scale tiny its first 120 lines
  local file=$1
  if [[ ! -f $file ]]; then file=$file.gz; fi
  [[ -f $file ]] || die "$1: no such file, plain or .gz"
  if [[ $file == *.gz ]]; then gzip -dc -- "$file"; else cat -- "$file"; fi |
    awk -v most="$(or_tiny 0 120)" 'most == 0 || NR <= most'
  [[ $file == "$work"/* ]] || note "$file"
}

download() { # URL: into WORK/download; its sum must be that of SHA256SUMS, or of the first download
  local folder=$work/download file=$work/download/${1##*/} sum && mkdir -p "$folder"
  if [[ ! -f $file ]]; then
    curl -fL --retry 3 -C - -o "$file.part" "$1" || die "$1 can't be had: try a browser, then --data DIR"
    mv "$file.part" "$file"
  fi
  sum=$({ sha256sum -- "$file" 2>/dev/null || shasum -a 256 -- "$file"; } | cut -d' ' -f1)
  grep -qs "  ${1##*/}\$" "$root/recipes/SHA256SUMS" "$folder/SHA256SUMS" || echo "$sum  ${1##*/}" >>"$folder/SHA256SUMS"
  grep -qsx "$sum  ${1##*/}" "$root/recipes/SHA256SUMS" "$folder/SHA256SUMS" || die "$file is not the published file: delete it"
}

raw() { # FOLDER TRAIN VALID TEST: the text, as WORK/raw/{train,valid,test}.LANGUAGE
  local language
  for language in "$source" "$target"; do
    to "$work/raw/train.$language" text "$1/$2.$language"
    to "$work/raw/valid.$language" text "$1/$3.$language"
    to "$work/raw/test.$language" text "$1/$4.$language"
  done
}

every() { # FROM TO COMMAND...: WORK/FROM/* through the command to WORK/TO/*; {} is the language
  local from=$1 into=$2 file && shift 2
  for file in {train,valid,test}.{"$source","$target"}; do
    if [[ ! -f $work/$from/$file ]]; then continue; fi # IWSLT's validation set is cut off later
    to "$work/$into/$file" "${@//\{\}/${file##*.}}" --input "$work/$from/$file"
  done
}

clean() { # FOLDER LIMIT...: WORK/clean, FOLDER's text with only the training pairs within the limits
  mkdir -p "$work/clean" && cp "$work/$1"/*.* "$work/clean"
  python "$prep/check_corpus.py" "$work/$1/train".{"$source","$target"} --clean "$work/clean/train".{"$source","$target"} "${@:2}"
}

binarize() { # FOLDER FLAG...: FOLDER/{train,valid,test} as fairseq-preprocess binarizes them, sooner
  [[ $recipe == seq2seq || " ${extra[*]-} " == *-positions* ]] || awk 'NF > 1023 { print FILENAME ":" FNR ": more than 1,023 tokens: split the line"; exit 1 }' "$1"/{valid,test}.*
  rm -rf "$work/data-bin"
  python "$prep/binarize.py" --pair "$pair" --output "$work/data-bin" --train "$1/train" --valid "$1/valid" --test "$1/test" "${@:2}"
}

train() { # FLAG...: fairseq-train on WORK/data-bin, here or on all nodes; its log is WORK/logs/train.log
  local each=$((workers / nodes)) more=() shown=() command line cores size
  if [[ -n ${pair-} && " $* " != *" --task "* ]]; then # each validation translates some sentences, and shows three
    shown=(--eval-bleu --eval-bleu-sentences 200 --eval-bleu-print-samples --eval-bleu-remove-bpe)
    shown+=(--eval-bleu-args '{"beam": 1, "max_len_a": 2, "max_len_b": 10}') # at first a model ends no sentence
    [[ $* == *--eval-bleu-remove-bpe* ]] || shown+=(--eval-bleu-detok moses --eval-bleu-detok-args "{\"target_lang\": \"$target\"}")
  fi
  if is_tiny; then
    more=(--max-update 20 --max-tokens 2048 --update-freq 1)
    [[ $* == *--lr-scheduler* ]] || more+=(--warmup-updates 10)
  elif ((workers > 1)) && [[ " $* " != *" --update-freq "* && " $* " =~ \ --(max-tokens|batch-size)\ ([0-9]+)\  ]]; then
    size=$((BASH_REMATCH[2] / workers)) # the batch of an update is meant for one worker; a sentence has to fit
    if [[ ${BASH_REMATCH[1]} == max-tokens ]] && ((size < ${least-512})); then
      size=${least-512} && say "an update has $((workers * size)) tokens, not ${BASH_REMATCH[2]}: fewer --gpus keep them" 2>&3
    fi
    more=("--${BASH_REMATCH[1]}" "$size")
  fi
  more+=(${extra[@]+"${extra[@]}"})
  if [[ -n $continue ]]; then more+=(--max-update "$continue"); fi
  if [[ -n $minutes ]]; then more+=(--stop-time-hours "$(awk -v minutes="$minutes" 'BEGIN { print minutes / 60 }')"); fi
  if ((node_rank == 0)) && [[ -n $is_new && -d $work/checkpoints ]]; then mv "$work/checkpoints" "$work/checkpoints.$(date +%s)"; fi
  command=(fairseq-train "$work/data-bin" --user-dir "$plugin" --save-dir "$work/checkpoints"
    --no-progress-bar --log-format json --log-interval 10 ${cpu:+--cpu} ${shown[@]+"${shown[@]}"} "$@" ${more[@]+"${more[@]}"})
  line=" ${command[*]} "
  if ((gpus == 0)); then # processes share the cores; of a small model they are faster than threads
    if [[ -z $float32 && $line =~ \ vaswani_(base|big|big_en_fr)\  && ! $line =~ \ --(amp|bf16|fp16)\  ]] && grep -qszE ' amx_bf16|AuthenticAMD.* avx512_bf16' /proc/cpuinfo; then
      command+=(--amp) && say "products in bfloat16 (--amp), which is faster here; --float32 trains without" 2>&3
    fi
    # Freed memory stays the process's, since new pages are cleared: base is a tenth faster, in 1.03 times the memory (docs/results/speed.md).
    if [[ "${command[*]} " == *" --amp "* ]]; then GLIBC_TUNABLES+=:glibc.malloc.mmap_threshold=1073741824:glibc.malloc.trim_threshold=4294967296; fi
    cores=${OMP_NUM_THREADS:-$(vaswani_cores)}
    if [[ $line =~ \ --distributed-world-size[=\ ]([1-9][0-9]*) ]]; then
      export OMP_NUM_THREADS="${OMP_NUM_THREADS:-$(((cores - 1) / BASH_REMATCH[1] + 1))}"
    elif ((nodes == 1)) && [[ ${line##* --arch } == vaswani_tiny\ * && ${line##* --update-freq[= ]} =~ ^([1-9][0-9]*)\  ]]; then
      for ((each = cores; BASH_REMATCH[1] % each; each--)); do :; done
      ((each == 1)) || export OMP_NUM_THREADS=$(((cores - 1) / each + 1))
      command+=(--update-freq $((BASH_REMATCH[1] / each)))
    fi
  fi
  # Freed blocks of 4 MiB and more go back to the system at once; holes would take half as much again.
  [[ $line != *" --checkpoint-activations "* ]] || export GLIBC_TUNABLES=$GLIBC_TUNABLES:glibc.malloc.mmap_threshold=4194304
  if ((nodes > 1)); then
    command=(torchrun --nnodes "$nodes" --node-rank "$node_rank" --nproc-per-node "$each"
      --master-addr "${master%:*}" --master-port "${master##*:}" --rdzv-conf timeout=43200 --no-python "${command[@]}")
  elif ((each > 1)); then command+=(--distributed-world-size "$each"); fi
  "${command[@]}" | python "$root/recipes/lib/steps.py" progress "$log" 2>&3 3>&-
}

average() { # FLAG N: WORK/averaged.pt of N checkpoints, or of all that a short training has left
  to "$work/average.json" vaswani average --inputs "$work/checkpoints" "$@" --at-most --output "$work/averaged.pt" --format json
}

translate() { # FLAG...: the test set by WORK/averaged.pt, into WORK/test.tok, in its order
  to "$work/generate.txt" fairseq-generate "$work/data-bin" --user-dir "$plugin" --task vaswani_translation \
    --path "$work/averaged.pt" --max-tokens 8192 ${cpu:+--cpu} "$@"
  sed -n 's/^H-//p' "$work/generate.txt" | sort -n | cut -f3- >"$work/test.tok"
}

score() { # MODEL FLAG...: WORK/test.tok as running text, by Moses' rules or a model of word pieces
  local undo=(wordpiece.py undo --model "$1")
  if [[ $1 == moses ]]; then undo=(normalize_tokenize.py --language "$target" --detokenize); fi
  to "$work/test.out" python "$prep/${undo[0]}" "${undo[@]:1}" --input "$work/test.tok"
  to "$work/bleu.json" vaswani bleu --format json --hypothesis "$work/test.out" --reference "$work/raw/test.$target" "${@:2}"
}

bundle() { # KEY=VALUE...: WORK/model, all that inference needs; the keys are preprocessing.json's
  python "$prep/bundle.py" --model "$work/averaged.pt" --data-bin "$work/data-bin" --pair "$pair" \
    --output "$work/model" aggressive_dash_splits=false "$@"
}

finish() { # TITLE FILE...: WORK/result.json of the scores in these files, and a line for people
  [[ -z $from$until ]] || die "--from or --until $from$until: no such step; --dry-run lists them"
  if [[ -n $dry_run ]] || ((node_rank > 0)); then return; fi
  if [[ -f $work/average.json ]]; then set -- "$@" "averaged=$work/average.json"; fi
  python "$root/recipes/lib/steps.py" finish "$work" "$recipe" "$@"
  if [[ -d $work/model ]]; then vaswani card --model "$work/model" --result "$work/result.json" >/dev/null; fi
}
