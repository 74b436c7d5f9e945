#!/usr/bin/env bash
# Constituency parsing (section 6.3, Table 4): a Transformer writes the tree of a sentence, and is
# scored as EVALB does, beside a right-branching tree.
#
#   bash recipes/parsing.sh --data craft-treebank --arch vaswani_parser_guided
#   bash recipes/parsing.sh --data TREEBANK3 --setting paper --gpus 8 -- --max-update 50000
#   bash recipes/parsing.sh --data gum-treebank --also parsed.trees
#
# Data: --data DIR has the Penn Treebank (parsed/mrg/wsj: sections 02-21 train, 22 validates, 23
# tests), or train, valid and test, each .mrg, .ptb, .trees or .clean, plain or .gz.
# Batch: 4,096 tokens of the longer side, the symbols; on CRAFT (16,827 trees) about 350 updates an
# epoch. Peak rate 1.86e-3 = lr-factor 1 x 192^-0.5 x 1500^-0.5. The last 5 states are averaged.
# The paper trains vaswani_parser with 16,000 tokens for the Journal alone, 32,000 with 17M sentences
# that other parsers parsed; beam 21, alpha 0.3, output at most input + 300. It does not print how many
# updates. vaswani_parser_guided (ours) also gives the decoder the next word.
# Expected on section 23, by the paper: F1 91.3 for the Journal alone, 92.7 with the parsed sentences. Not run here.
#
# Options of this recipe:
#   --setting paper     that of section 6.3; give the number of updates, such as -- --max-update 50000
#   --arch NAME         vaswani_parser_tiny (default), vaswani_parser_guided, vaswani_parser
#   --also FILE         trees that a parser made, as additional training data
recipe=parsing family=vaswani_parser least=1024 setting=small arch='' also='' options='setting arch also' paths=also
# shellcheck source=recipes/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
begin "$@"
if [[ $setting == paper ]]; then
  usual=vaswani_parser operations=$([[ -n $also ]] && echo 32000 || echo 16000) interval=1500
  is_tiny || [[ -n $minutes$continue$finish$until || -f $work/.steps/train || ${extra[*]-} == *--max-[ue]* ]] || die "--setting paper: it has no number of updates; give one, such as -- --max-update 50000"
  share 8 && training=(--update-freq "$batches" --warmup-updates 4000)
elif [[ $setting == small ]]; then
  usual=vaswani_parser_tiny operations=8000 interval=500 training=(--max-update 10000 --warmup-updates 1500)
else
  die "--setting $setting: must be paper, or left out"
fi

if [[ -n $data && -d $(find "$data" -type d -path '*/23' | sed -n 1p) ]]; then
  step trees python "$prep/trees.py" split "$data" --output "$work/raw"
else
  if [[ -z $data ]]; then is_tiny || die "--data DIR: give a treebank (see --help)"; data=$toy/trees; fi
  for split in train valid test; do
    for file in "$data/$split".{mrg,ptb,trees,clean}{.gz,}; do if [[ -f $file ]]; then break; fi; done
    [[ -f $file ]] || die "$data: no $split.mrg, .ptb, .trees or .clean in it, plain or .gz"
    step "clean-$split" python "$prep/trees.py" clean "$file" --output "$work/clean/$split.trees"
    step "trees-$split" to "$work/raw/$split.trees" text "$work/clean/$split.trees"
  done
fi
if [[ -n $also ]]; then step also python "$prep/trees.py" clean "$also" --output "$work/also.trees"; fi
step code python "$prep/code_trees.py" --coding bpe --operations "$(or_tiny "$operations" 400)" ${also:+--also "$work/also.trees"} \
  --train "$work/raw/train.trees" --valid "$work/raw/valid.trees" --test "$work/raw/test.trees" --output "$work/data-bin"
step train train --task vaswani_parsing --source-lang words --target-lang symbols \
  --arch "${arch:-$(or_tiny "$usual" vaswani_parser_debug)}" --max-tokens 4096 "${training[@]}" \
  --validate-interval 1000000 --no-epoch-checkpoints --save-interval-updates "$(or_tiny "$interval" 4)" --keep-interval-updates 5
step average average --last-updates 5
step bundle python "$prep/bundle.py" --model "$work/averaged.pt" --data-bin "$work/data-bin" \
  --output "$work/model" beam="$(or_tiny 21 4)"
step words python "$prep/trees.py" linearize "$work/raw/test.trees" --source "$work/test.words" --target "$work/test.symbols"
step parse vaswani parse --model "$work/model" ${cpu:+--cpu} --output "$work/test.parsed" "$work/test.words"
step parse-freely vaswani parse --model "$work/model" --unconstrained ${cpu:+--cpu} --output "$work/test.free" "$work/test.words"
step score to "$work/f1.json" python "$root/recipes/lib/parsing_scores.py" --train "$work/raw/train.trees" \
  --gold "$work/raw/test.trees" --parsed "$work/test.parsed" --unconstrained "$work/test.free" --tagged "$work/test.tagged"
finish "parsing, test" "f1=$work/f1.json"
