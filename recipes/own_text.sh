#!/usr/bin/env bash
# Trains on text of your own: any pair of languages in any script, or one language's text.
#
#   bash recipes/own_text.sh --train a.de a.hsb
#   bash recipes/own_text.sh --train pairs.tsv.gz --pair de-hsb --test test.tsv --work work/hsb
#   bash recipes/own_text.sh --train new.de new.hsb --init-from work/hsb/model --mix-old --work work/hsb-law
#   bash recipes/own_text.sh --task lm --train book.txt --work work/book
#
# The recipe checks and cleans the text, splits it into training, validation and test set, learns
# subwords, and trains until the validation loss stops falling. WORK/corpus.json and the log say what
# was dropped and why. docs/how-to/own-text.md explains every step.
#
# Batch: --max-tokens x 1 (CPU, or each GPU) x update-freq. The number of training pairs chooses these
# defaults:
#   pairs        vocabulary  architecture     dropout  max-tokens  warm-up  peak rate  max-update
#   to 10,000    1,000       vaswani_tiny     0.3      2,048       400      2.5e-3     5,000
#   to 100,000   4,000       vaswani_tiny     0.3      4,096       1,000    3.5e-3     20,000
#   to 1 mill.   8,000       vaswani_tiny     0.1      8,192       2,000    5.0e-3     50,000
#                            (on GPUs vaswani_c_d256, warm-up 4,000, peak rate 9.9e-4)
#   more         32,000      vaswani_base     0.1      4,096 x 8   4,000    7.0e-4     100,000
# Where the table chooses, the defaults that are printed further below don't hold.
# A language model takes the row of one pair for each 100 characters. Its architectures are
# vaswani_lm_tiny and vaswani_lm_base, its peak rates 2.5e-3 up to 1 million.
# Expected: nothing is published for your text. 2,000 pairs take about 5 minutes on 2 cores.
#
# Options:
#   --train FILE [FILE]     a source file and a target file, or one file with source <tab> target on
#                           each line; plain or .gz
#   --valid, --test FILE [FILE]   the same (default: a part of the training text)
#   --pair SRC-TGT          languages (default: the file names' endings, a.de a.hsb or x.de-hsb.tsv)
#   --data DIR              instead of --train: files train, valid and test, each .SRC and .TGT (or .txt)
#   --task translation|lm   translation, or a language model of one language's text (translation)
#   --valid-size, --test-size N   without --valid, --test: pairs to hold out (a twentieth, 50 to 2,000, at most a tenth)
#   --max-length N          drop pairs with a longer side, in bytes of UTF-8 (1000)
#   --max-ratio F           drop pairs in which one side is F times longer than the corpus' average
#                           ratio predicts (3)
#   --copies drop|keep      drop or keep pairs with the same text on both sides (drop)
#   --tokenizer none|moses  none: word pieces of the raw text, for any language; moses: Moses'
#                           tokenizer and BPE, for languages with spaces between words (none)
#   --vocabulary N          subwords, in addition to the characters of the text and to bytes
#   --patience N            stop after N validations without a better loss (8; fine-tuning 5)
#   --init-from BUNDLE      fine-tune this model, with its vocabulary and a lower learning rate
#   --mix-old [FILE [FILE]] with --init-from: add pairs of the old training text (default: that of
#                           BUNDLE, if its recipe's work folder has it)
#   --mix-ratio F           with --mix-old: old pairs for each new pair (1)
#   --old-test [FILE [FILE]]   with --init-from: also score the old test set (default: as --mix-old)
#   --continue              raise the limits of a finished training, --max-update and --patience,
#                           by as much again
set -euo pipefail

recipe=own_text
task=translation
train_files=() valid_files=() test_files=() old_files=() old_test_files=()
mixes_old='' continues='' fine_tunes='' arguments=()

add_file() { # OPTION FILE
  case $1 in
    --train) train_files+=("$2") ;;
    --valid) valid_files+=("$2") ;;
    --test) test_files+=("$2") ;;
    --mix-old) old_files+=("$2") ;;
    --old-test) old_test_files+=("$2") ;;
  esac
}

# The options with one or two files, or without a value; the others go to `arguments`.
sort_arguments() {
  local option='' word previous=''
  for word in "$@"; do
    case $word in
      --train=* | --valid=* | --test=* | --mix-old=* | --old-test=*) option=${word%%=*} && add_file "$option" "${word#*=}" ;;
      --train | --valid | --test | --mix-old | --old-test) option=$word ;;
      --continue) continues=1 option='' ;;
      --*) arguments+=("$word") && option='' ;;
      *) if [[ -n "$option" ]]; then add_file "$option" "$word"; else arguments+=("$word"); fi ;;
    esac
    if [[ "$option" == --mix-old ]]; then mixes_old=1; fi
    if [[ "$word" == --task=* ]]; then task=${word#*=}; fi
    if [[ "$previous" == --task ]]; then task=$word; fi
    if [[ "$word" == --init-from || "$word" == --init-from=* ]]; then fine_tunes=1; fi
    previous=$word
  done
}
sort_arguments "$@"

case $task in
  lm)
    # shellcheck source=recipes/lib/own_lines.sh
    source "$(dirname "${BASH_SOURCE[0]}")/lib/own_lines.sh"
    ;;
  *)
    # shellcheck source=recipes/lib/own_pairs.sh
    source "$(dirname "${BASH_SOURCE[0]}")/lib/own_pairs.sh"
    ;;
esac

main_recipe ${arguments[@]+"${arguments[@]}"}
