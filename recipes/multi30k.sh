#!/usr/bin/env bash
# Multi30k (29,000 image captions): trains a Transformer from nothing and scores it on test2016.
#
#   bash recipes/multi30k.sh --pair en-de
#   bash recipes/multi30k.sh --pair en-fr --data /data/multi30k --work work/multi30k-fr
#
# Batch: 8,192 tokens x 1 GPU (or the CPU) x update-freq 1 = 8,192 tokens an update, with padding;
# about 60 updates an epoch. Peak learning rate 5e-3 = lr-factor 2.53 x 128^-0.5 x 2000^-0.5.
# Expected, en-de, --preprocessing paper: 41.02 tokenized BLEU after 8,000 updates, last 10 epochs
# averaged, beam 5 (Wu et al. 2021, "Good for Misconceived Reasons", Transformer-Tiny, 2.6M
# parameters). The text is that of the Multi30k authors (Elliott et al. 2016, 2017; Barrault et
# al. 2018), for non-commercial research.
#
# Options:
#   --pair en-de|en-fr         also de-en, fr-en
#   --preprocessing paper      lower-cased, punctuation normalized, tokenized, joint BPE of 10,000
#                              operations; tokenized BLEU (the published setting)
#   --preprocessing cased      cased text, tokenized, BPE; sacreBLEU of the running text
#   --arch NAME                default vaswani_tiny; `vaswani archs` lists them
#   --max-update N             default 8000        --max-tokens N       default 8192
#   --max-epoch N              default no limit    --warmup-updates N   default 2000
#   --lr-factor F              default: a peak of 5e-3 at d_model 128   --seed S   default 1
#   --save-interval-updates N  keep the state every N updates too (default: every epoch)
set -euo pipefail

recipe=multi30k
stages=(data prepare binarize train average translate score)
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
# Neither help nor a dry run needs the environment.
case " $* " in *" --help "* | *" -h "* | *" --dry-run "*) VASWANI_ENV_FUNCTIONS_ONLY=1 ;; esac
# shellcheck source=recipes/lib/env.sh
source "$root/recipes/lib/env.sh"
VASWANI_ROOT=$root
# shellcheck source=recipes/lib/common.sh
source "$root/recipes/lib/common.sh"
# shellcheck source=recipes/lib/translation.sh
source "$root/recipes/lib/translation.sh"

commit=a3d2e0d26b56f3846f66a952536ffed4e401d05a
base_url=https://raw.githubusercontent.com/multi30k/dataset/$commit/data/task1/raw
preprocessing=paper
lr_factor=2.5298
operations=10000
# Lines of train, valid and test that are used.
lines=(29000 1014 1000)

sha256_of() { # FILE: as published at that commit
  case $1 in
    test_2016_flickr.de.gz) echo 9204244e408ccb38d2a55cfcd344df15005fc42a07a6e55ca6c52b6ababb8cc8 ;;
    test_2016_flickr.en.gz) echo 611d361c6334bc7246101d48097c13cf5c4413c5befc793cc629934359d532d9 ;;
    test_2016_flickr.fr.gz) echo 6d326e188d259fb1d04ac19eae3af956559b3a0b93d7635e56c90987c40c8b90 ;;
    train.de.gz) echo 726e39b2fa9eb9ffb6dc763fb35a179f80fae06ffc5d28b6ace5faa883de28a6 ;;
    train.en.gz) echo d79cfa999dd4c51d2cb42499b6796d5a882c3a8a961923c25a898c90f8bbd56f ;;
    train.fr.gz) echo 622e75069e9f4c577425c4f277116ce66e63a2401c0a2312d90073cb12379a3c ;;
    val.de.gz) echo f0cba2f995189cf5770f29a8a9a537a3ad3f51657ad873405082ff6863a5e75a ;;
    val.en.gz) echo 14f7d25ddd868909a9213e361768460edcacdd6ab9d1e77b92560dc10c10dc28 ;;
    val.fr.gz) echo ca3106f1a72390591d25f6c45cb4cd39dec4cd3f123e099748a3ce5256c160e9 ;;
  esac
}

recipe_option() {
  case $1 in
    --pair) pair=$2 ;;
    --preprocessing) preprocessing=$2 ;;
    *) translation_option "$1" "$2" ;;
  esac
}

recipe_defaults() {
  case $pair in
    en-de | de-en | en-fr | fr-en) ;;
    *) die "--pair $pair: must be en-de, en-fr, de-en or fr-en" ;;
  esac
  case $preprocessing in
    paper) beam=5 ;;
    cased) ;;
    *) die "--preprocessing $preprocessing: must be paper or cased" ;;
  esac
  if [[ "$scale" == tiny ]]; then
    lines=(600 60 60)
    operations=500
    if ((max_update > 30)); then max_update=30; fi
    if ((warmup_updates > 20)); then warmup_updates=20; fi
  fi
  check_translation_options
  published=${data:-$work/download}
}

published_name() { # SPLIT LANG
  case $1 in
    train) echo "train.$2.gz" ;;
    valid) echo "val.$2.gz" ;;
    test) echo "test_2016_flickr.$2.gz" ;;
  esac
}

published_files() { # prints them, one a line
  local split language
  for split in train valid test; do
    for language in "$source_lang" "$target_lang"; do
      echo "$published/$(published_name "$split" "$language")"
    done
  done
}

key_data() { printf 'pair %s data %s lines %s\n' "$pair" "$published" "${lines[*]}"; }

stage_data() {
  local file name index split language
  while IFS= read -r file; do
    name=${file##*/}
    if [[ -z "$data" ]]; then
      run python "$prep/fetch.py" --url "$base_url/$name" --sha256 "$(sha256_of "$name")" --output "$file"
    elif [[ ! -f "$file" ]]; then
      die "--data $data: $name is missing (needed: train, val and test_2016_flickr, each .$source_lang.gz and .$target_lang.gz)"
    elif [[ "$(vaswani_sha256 <"$file")" != "$(sha256_of "$name")" ]]; then
      say "note: $file differs from the published file; results can't be compared"
    fi
  done < <(published_files)
  fresh_folder "$work/raw"
  for index in 0 1 2; do
    split=$(printf 'train\nvalid\ntest' | sed -n "$((index + 1))p")
    for language in "$source_lang" "$target_lang"; do
      run_to "$work/raw/$split.$language" \
        python "$lib/first_lines.py" "${lines[index]}" "$published/$(published_name "$split" "$language")"
    done
    run python "$prep/check_corpus.py" "$work/raw/$split.$source_lang" "$work/raw/$split.$target_lang"
  done
}

key_prepare() {
  key_data
  printf 'preprocessing %s operations %s\n' "$preprocessing" "$operations"
}

stage_prepare() {
  local split language rules=(--no-normalize)
  if [[ "$preprocessing" == paper ]]; then rules=(--lowercase); fi
  fresh_folder "$work/tok"
  for split in train valid test; do
    for language in "$source_lang" "$target_lang"; do
      run python "$prep/normalize_tokenize.py" --language "$language" "${rules[@]}" \
        --input "$work/raw/$split.$language" --output "$work/tok/$split.$language"
    done
  done
  learn_and_apply_bpe "$operations"
}

key_binarize() { key_prepare; }

key_score() { key_translate; }

stage_score() {
  local output=$work/output case_rule=() lowercase=false normalize=false files=() file
  if [[ "$preprocessing" == paper ]]; then
    case_rule=(--lowercase) lowercase=true normalize=true
  fi
  run python "$prep/normalize_tokenize.py" --detokenize --language "$target_lang" \
    --input "$output/test.tok.$target_lang" --output "$output/test.$target_lang"
  run_to "$output/tokenized.json" vaswani bleu --tokenized --format json \
    --hypothesis "$output/test.tok.$target_lang" --reference "$work/tok/test.$target_lang"
  run_to "$output/sacrebleu.json" vaswani bleu ${case_rule[@]+"${case_rule[@]}"} --format json \
    --hypothesis "$output/test.$target_lang" --reference "$work/raw/test.$target_lang"
  write_bundle "lowercase=$lowercase" "normalize_punctuation=$normalize" "tokenizer=moses"
  while IFS= read -r file; do files+=("$file"); done < <(published_files)
  run python "$lib/result.py" result --work "$work" --recipe "$recipe" --arch "$arch" \
    --train-log "$work/logs/train.log" --data "${files[@]}" --path data_bin=data-bin \
    --path checkpoints=checkpoints --path bundle=model --tokenized "$output/tokenized.json" \
    --sacrebleu "$output/sacrebleu.json" --output "$work/result.json"
}

main_recipe "$@"
if [[ -z "$dry_run" && -f "$work/result.json" ]] && ((last_stage == ${#stages[@]})); then
  python "$lib/summary.py" "$work/result.json" --title "multi30k $pair, $preprocessing, test2016"
fi
