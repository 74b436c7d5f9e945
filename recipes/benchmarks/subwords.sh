#!/usr/bin/env bash
# Four ways to cut English-French (or any pair) into one joint vocabulary, side by side: word pieces
# from raw text, kept by likelihood (unigram) or merged by frequency (bpe), both by sentencepiece, or
# merged by likelihood as published (likelihood); and subword-nmt's BPE after the Moses tokenizer
# (moses-bpe).
#
#   bash recipes/benchmarks/subwords.sh DATA WORK [PAIR [SIZE [UPDATES [ARCH [SEED]]]]]
#   bash recipes/benchmarks/subwords.sh tatoeba-en-fr work/subwords en-fr 8000 1000 vaswani_tiny 1
#
# DATA holds train*.LANG.gz, val*.LANG.gz and test*.LANG.gz. SIZE (8000) is the vocabulary's size,
# for moses-bpe the number of merges. UPDATES 0 (the default) counts only: tokens a sentence, unseen
# tokens, vocabulary. With more, a model of each kind is trained (ARCH vaswani_debug) with equal settings
# and its bits a validation sentence and sacreBLEU of the running text stand beside.
# Batch: 4,096 tokens x 1 process x update-freq 1. A batch holds more sentences where a sentence
# has fewer tokens, so equal updates are not equal epochs.
# Expected on 136,000 short pairs at 8,000: bpe 2% fewer tokens than unigram, moses-bpe 5 to 11%.
set -euo pipefail

if [[ $# -lt 2 ]]; then
  sed -n '2,18s/^# \{0,1\}//p' "$0"
  [[ ${1:-} == --help ]]
  exit
fi
data=$1 work=$2 pair=${3:-en-fr} size=${4:-8000} updates=${5:-0} arch=${6:-vaswani_debug} seed=${7:-1}
source_lang=${pair%-*} target_lang=${pair#*-}
# shellcheck source=recipes/lib/env.sh
source "$(dirname "$0")/../lib/env.sh"
prep=$VASWANI_ROOT/data-prep
export OMP_NUM_THREADS=1

raw() { # SPLIT LANG: the file of DATA
  local prefix=$1 files
  [[ "$prefix" != valid ]] || prefix="val"
  files=("$data/$prefix"*."$2".gz)
  if [[ ${#files[@]} != 1 || ! -f "${files[0]}" ]]; then
    printf 'subwords.sh: error: %s: needs one file %s*.%s.gz\n' "$data" "$prefix" "$2" >&2
    exit 1
  fi
  printf '%s\n' "${files[0]}"
}

each_file() { # COMMAND...: runs it with SPLIT LANG for the six files
  local split language
  for split in train valid test; do
    for language in "$source_lang" "$target_lang"; do "$@" "$split" "$language"; done
  done
}

tokenize() { # SPLIT LANG
  python "$prep/normalize_tokenize.py" --no-normalize --language "$2" \
    --input "$(raw "$1" "$2")" --output "$work/moses-bpe/tok/$1.$2"
}

moses_bpe() { # SPLIT LANG
  python "$prep/bpe.py" apply --codes "$work/moses-bpe/codes" \
    --input "$work/moses-bpe/tok/$1.$2" --output "$work/moses-bpe/$1.$2"
}

pieces() { # KIND SPLIT LANG
  python "$prep/wordpiece.py" apply --model "$work/$1/pieces.model" \
    --input "$(raw "$2" "$3")" --output "$work/$1/$2.$3"
}

undo() { # KIND: WORK/KIND/test.hyp in pieces to WORK/KIND/test.out in running text
  if [[ "$1" == moses-bpe ]]; then
    sed -E 's/@@( |$)//g' "$work/$1/test.hyp" |
      python "$prep/normalize_tokenize.py" --detokenize --language "$target_lang" \
        --output "$work/$1/test.out"
  else
    python "$prep/wordpiece.py" undo --model "$work/$1/pieces.model" \
      --input "$work/$1/test.hyp" --output "$work/$1/test.out"
  fi
}

train_and_score() { # KIND
  local folder=$work/$1
  python "$prep/binarize.py" --pair "$pair" --output "$folder/data-bin" --train "$folder/train" \
    --valid "$folder/valid" --test "$folder/test"
  rm -rf "$folder/checkpoints"
  fairseq-train "$folder/data-bin" --user-dir "$VASWANI_ROOT/vaswani_plugin" --task vaswani_translation \
    --source-lang "$source_lang" --target-lang "$target_lang" --arch "$arch" --seed "$seed" \
    --max-tokens 4096 --max-update "$updates" --warmup-updates $((updates / 4 + 1)) \
    --save-dir "$folder/checkpoints" --no-epoch-checkpoints --no-progress-bar >"$folder/train.log" 2>&1
  fairseq-generate "$folder/data-bin" --user-dir "$VASWANI_ROOT/vaswani_plugin" --task vaswani_translation \
    --source-lang "$source_lang" --target-lang "$target_lang" --gen-subset test \
    --path "$folder/checkpoints/checkpoint_last.pt" --max-tokens 8192 \
    --no-progress-bar >"$folder/generate.txt" 2>"$folder/generate.log"
  python "$VASWANI_ROOT/recipes/lib/hypotheses.py" --generate-output "$folder/generate.txt" \
    --like "$folder/test.$source_lang" --output "$folder/test.hyp"
  undo "$1"
  gzip -dc "$(raw test "$target_lang")" >"$folder/test.ref"
  vaswani bleu --format json --hypothesis "$folder/test.out" --reference "$folder/test.ref" \
    >"$folder/bleu.json"
}

inputs=("$(raw train "$source_lang")" "$(raw train "$target_lang")")
for kind in unigram bpe likelihood; do
  python "$prep/wordpiece.py" learn --kind "$kind" --size "$size" --input "${inputs[@]}" \
    --output "$work/$kind/pieces.model"
  each_file pieces "$kind"
done
mkdir -p "$work/moses-bpe/tok"
each_file tokenize
python "$prep/bpe.py" learn --operations "$size" --output "$work/moses-bpe/codes" \
  --input "$work/moses-bpe/tok/train.$source_lang" "$work/moses-bpe/tok/train.$target_lang"
each_file moses_bpe

kinds=(unigram bpe likelihood moses-bpe)
for kind in "${kinds[@]}"; do
  rm -f "$work/$kind/bleu.json" "$work/$kind/train.log"
  if ((updates)); then train_and_score "$kind"; fi
done
python "$VASWANI_ROOT/recipes/benchmarks/subwords.py" --pair "$pair" "${kinds[@]/#/$work/}"
