#!/usr/bin/env bash
# shellcheck disable=SC2034,SC2154  # what the recipes and translation.sh read and set
#
# Where the text of a translation recipe comes from: the stages fetch and unpack. Sourced by
# translation.sh. A recipe sets what differs from this:
archives=()       # the published files
corpora=()        # "SPLIT ARCHIVE MEMBER": % is the language, @ is src or ref; none: the files are the text
lines=(0 0 0)     # of train, valid and test that are used; 0: all
pairs=(300 30 30) # of the generated text that replaces it in tiny runs
splits=(train valid test)
data_layout='' # what --data DIR must hold, for messages; '': as needed_files says

# Functions that a recipe may define:
archive_urls() { :; }            # NAME: where it is published, one address a line, mirrors after the first
archive_sum() { :; }             # NAME: its published sha256, nothing where none is known
split_names() { echo "$1"; }     # SPLIT: how a folder of plain text may call it, the first is the published name
unpack_archives() { unpack_corpora; }

prep=$VASWANI_ROOT/data-prep
lib=$VASWANI_ROOT/recipes/lib

# Sets `layout`: made (here, from a grammar), archives (to be unpacked) or text (a file for each
# split and language), and `published`, the folder of the last two.
choose_layout() {
  local name
  published=${data:-$work/download}
  layout=text
  if ((${#corpora[@]})); then
    if [[ -z "$data" ]]; then layout=archives; fi
    for name in "${archives[@]}"; do
      if [[ -f "$published/$name" ]]; then layout=archives; fi
    done
  fi
  if [[ -z "$data" ]] && { [[ "$scale" == tiny ]] || ((${#archives[@]} == 0)); }; then layout=made; fi
}

text_file() { # SPLIT LANG: the file of a text folder; if there is none, its published name
  local folder name ending
  for folder in "$published" "$published/$source_lang-$target_lang" "$published/$target_lang-$source_lang"; do
    for name in $(split_names "$1"); do
      for ending in .gz ''; do
        if [[ -f "$folder/$name.$2$ending" ]]; then
          echo "$folder/$name.$2$ending"
          return
        fi
      done
    done
  done
  name=$(split_names "$1")
  echo "$published/${name%% *}.$2.gz"
}

toy_language() { if [[ "$target_lang" == en ]]; then echo "$source_lang"; else echo "$target_lang"; fi; }

source_files() { # the input files, one a line
  local name split language
  case $layout in
    made) printf '%s\n' "$toy/en-$(toy_language)"/* ;;
    archives) for name in "${archives[@]}"; do echo "$published/$name"; done ;;
    text)
      for split in train valid test; do
        for language in "$source_lang" "$target_lang"; do text_file "$split" "$language"; done
      done
      ;;
  esac
}

key_fetch() { printf 'pair %s layout %s data %s\n' "$pair" "$layout" "$data"; }

stage_fetch() {
  local name
  if [[ "$layout" == made ]]; then
    say "nothing to download: the text is in data-prep/toy"
  elif [[ -n "$data" ]]; then
    check_local_files
  else
    for name in "${archives[@]}"; do download "$name"; done
  fi
}

needed_files() {
  if ((${#corpora[@]})); then
    echo "all of ${archives[*]}; or plain or .gz text, train, valid and test, each .$source_lang and .$target_lang"
  else
    echo "train, valid and test for $source_lang and $target_lang, plain or .gz"
  fi
}

check_local_files() {
  local file sum
  while IFS= read -r file; do
    [[ -f "$file" ]] || die "--data $data: ${file##*/} is missing (needed: ${data_layout:-$(needed_files)})"
    sum=$(archive_sum "${file##*/}")
    if [[ -n "$sum" && "$(vaswani_sha256 <"$file")" != "$sum" ]]; then
      say "note: $file differs from the published file; results can't be compared"
    fi
  done < <(source_files)
}

# Without a published sum, the sum of the first download is kept in SHA256SUMS, and a later file
# with another sum is refused.
download() { # NAME
  local sum url command sums=$published/SHA256SUMS
  sum=$(archive_sum "$1")
  if [[ -z "$sum" && -f "$sums" ]]; then sum=$(awk -v name="$1" '$2 == name { print $1 }' "$sums"); fi
  command=(python "$prep/fetch.py" --output "$published/$1")
  while IFS= read -r url; do command+=(--url "$url"); done < <(archive_urls "$1")
  if [[ -n "$sum" ]]; then command+=(--sha256 "$sum"); else command+=(--no-checksum); fi
  run "${command[@]}"
  if [[ -n "$dry_run" ]] || grep -qs "  $1\$" "$sums"; then return; fi
  sum=$(vaswani_sha256 <"$published/$1")
  { if [[ -f "$sums" ]]; then cat "$sums"; fi && printf '%s  %s\n' "$sum" "$1"; } >"$sums.part"
  mv "$sums.part" "$sums"
  say "$1: sha256 $sum, kept in $sums"
}

key_unpack() {
  printf 'pair %s layout %s lines %s corpora %s\n' "$pair" "$layout" "${lines[*]}" "${corpora[*]-}"
  case $layout in
    made) printf 'pairs %s\n' "${pairs[*]}" ;;
    *) if [[ -z "$data" ]]; then cat "$published/SHA256SUMS" && return; fi ;;
  esac
  source_files | listed_digests
}

stage_unpack() {
  local index language
  fresh_folder "$work/raw"
  case $layout in
    made)
      unpack_toy "en-$(toy_language)" en "$(toy_language)" ;;
    archives) unpack_archives ;;
    text)
      for index in 0 1 2; do
        for language in "$source_lang" "$target_lang"; do
          run_to "$work/raw/${splits[index]}.$language" python "$lib/first_lines.py" \
            "${lines[index]}" "$(text_file "${splits[index]}" "$language")"
        done
      done
      ;;
  esac
}

unpack_corpora() { # all members of an archive in one pass, then the parts of each split together
  local archive number split name member language role options index
  fresh_folder "$work/parts"
  for archive in "${archives[@]}"; do
    options=(--archive "$published/$archive")
    for number in "${!corpora[@]}"; do
      read -r split name member <<<"${corpora[number]}"
      [[ "$name" == "$archive" ]] || continue
      if [[ "$member" == *.sgm ]]; then options+=(--same-segments); fi
      for role in src ref; do
        if [[ "$role" == src ]]; then language=$source_lang; else language=$target_lang; fi
        name=${member//%/$language}
        options+=(--member "${name//@/$role}")
        options+=(--output "$work/parts/$split.$(printf %02d "$number").$language")
      done
    done
    run python "$prep/unpack.py" "${options[@]}"
  done
  for index in 0 1 2; do
    for language in "$source_lang" "$target_lang"; do
      join_parts "${splits[index]}" "$language" "${lines[index]}"
    done
  done
  if [[ -z "$dry_run" ]]; then rm -r "$work/parts"; fi
}

join_parts() { # SPLIT LANG LINES: makes a published split from the unpacked members
  local number split rest files=()
  for number in "${!corpora[@]}"; do
    read -r split rest <<<"${corpora[number]}"
    if [[ "$split" == "$1" ]]; then files+=("$work/parts/$1.$(printf %02d "$number").$2"); fi
  done
  if ((${#files[@]})); then
    run_to "$work/raw/$1.$2" python "$lib/first_lines.py" "$3" "${files[@]}"
  fi
}
