#!/usr/bin/env bash
# The environment of every recipe and test: makes .venv by uv, as uv.lock says, when it is missing or
# out of date, then activates it. Source it (`source recipes/lib/env.sh`) or run it.
#   VASWANI_VENV         folder of the environment (default: .venv in the repository)
#   VASWANI_GROUPS       dependency groups of pyproject.toml beside "recipes": test, docs, ...
#   PYTHON               interpreter to make it with (default: python3.11, 3.12, 3.13, python3)
#   VASWANI_TORCH_INDEX  index for torch, such as a CUDA or a ROCm one, where torch is not installed yet
vaswani_env() {
  VASWANI_ROOT=$(CDPATH='' cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd -P) || return 1
  [[ "${VASWANI_VENV:=$VASWANI_ROOT/.venv}" == /* ]] || VASWANI_VENV=$PWD/$VASWANI_VENV
  export VASWANI_ROOT VASWANI_VENV VIRTUAL_ENV=$VASWANI_VENV
  vaswani_env_is_current || (vaswani_env_install) || return 1
  [[ ":$PATH:" == *":$VASWANI_VENV/bin:"* ]] || export PATH="$VASWANI_VENV/bin:$PATH"
  # Tools keep their caches in the environment's folder, not in the home folder or the repository.
  export MPLCONFIGDIR="$VASWANI_VENV/cache/matplotlib" TORCHINDUCTOR_CACHE_DIR="$VASWANI_VENV/cache/inductor"
  export RUFF_CACHE_DIR="$VASWANI_VENV/cache/ruff" TRITON_CACHE_DIR="$VASWANI_VENV/cache/triton"
  export HYPOTHESIS_STORAGE_DIRECTORY="$VASWANI_VENV/cache/hypothesis" PYTHONDONTWRITEBYTECODE=1
  mkdir -p "$MPLCONFIGDIR" && unset PYTHONHOME
  # For how many shapes oneDNN and PyTorch cache kernels: with 1,024, the default, a training grows by 400 MB.
  export ONEDNN_PRIMITIVE_CACHE_CAPACITY="${ONEDNN_PRIMITIVE_CACHE_CAPACITY:-64}" LRU_CACHE_CAPACITY="${LRU_CACHE_CAPACITY:-64}"
  # Large pages for glibc's malloc: a training's activations are cleared page by page.
  export GLIBC_TUNABLES="${GLIBC_TUNABLES:-glibc.malloc.hugetlb=1}"
}
vaswani_cores() { python -c 'import os; print(len(getattr(os, "sched_getaffinity", lambda _: range(os.cpu_count()))(0)))'; } # that it may use
vaswani_env_version() { "$1" -c 'import sys; print(sys.version)' 2>/dev/null; }
vaswani_env_is_current() { # a stamp for each group, written last, says what it was installed from
  [[ -z "${PYTHON:-}" || "$(vaswani_env_version "$PYTHON")" == "$(vaswani_env_version "$VASWANI_VENV/bin/python")" ]] || return 1
  local group && vaswani_env_key="$(cat "$VASWANI_ROOT"/{uv.lock,pyproject.toml} | cksum) $VASWANI_ROOT $VASWANI_VENV"
  for group in recipes ${VASWANI_GROUPS:-}; do
    [[ -x "$VASWANI_VENV/bin/python" && -f "$VASWANI_VENV/.ready-$group" ]] || return 1
    [[ "$(<"$VASWANI_VENV/.ready-$group")" == "$vaswani_env_key" ]] || return 1
  done
}
vaswani_env_install() { # what fails is said in one line; what the tools say is in the log
  local venv=$VASWANI_VENV log=$VASWANI_VENV/install.log python old uv name value index again groups=() renew=() start=$SECONDS
  say() { printf 'env: %s\n' "$*" >&2; } && die() { say "error: $*" && exit 1; }
  run() { # WHAT COMMAND...
    say "$1" && printf '\n== %s\n' "$*" >>"$log" && "${@:2}" >>"$log" 2>&1 9>&- && return
    value=$(awk '/^== / { text = "" } /rror|cause:|ismatch/ { text = $0 } END { print text }' "$log" | cut -c1-250)
    die "$1: $value: check network and disk, and start again (log: $log)"
  }
  [[ ! -e "$venv" || -e "$venv/pyvenv.cfg" || -e "$venv/.vaswani.lock" || (-d "$venv" && -z "$(ls -A "$venv")") ]] ||
    die "$venv is not empty and no Python environment: set VASWANI_VENV to another folder"
  { mkdir -p "$venv" && exec 9>>"$venv/.vaswani.lock"; } 2>/dev/null || die "cannot write in $venv: set VASWANI_VENV to another folder"
  ! command -v flock >/dev/null || flock -n 9 || { say "another process is installing into $venv: waiting for it" && flock 9; }
  ! vaswani_env_is_current || exit 0
  value=$(sed -n 's|.*"file://\([^"]*\)".*|\1|p' "$venv"/lib/python3*/site-packages/vaswani_plugin-*.dist-info/direct_url.json 2>/dev/null)
  printf -v value %b "${value//%/\\x}" # the checkout that it runs
  [[ "$(cd "$venv" && pwd -P)" == "$VASWANI_ROOT"/* || ! -d "$value" || "$value" -ef "$VASWANI_ROOT" ]] ||
    die "$venv is the environment of $value: remove the link, or set VASWANI_VENV to another folder"
  old=$venv/bin/python # what was never complete is made anew
  [[ -e "$venv/.ready-recipes" || ! -e "$venv/.installing" ]] && "$old" -c '' 2>/dev/null || old=
  for python in "${PYTHON:-${old:-python3.11}}" ${PYTHON:+""} python3.12 python3.13 python3 ''; do
    [[ -n "$python" ]] || die "${PYTHON:-python3} is missing or older than Python 3.11: install python3.11, or set PYTHON to a newer one"
    ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || break
  done
  [[ -z "$old" || "$(vaswani_env_version "$old")" == "$(vaswani_env_version "$python")" ]] ||
    die "PYTHON=$python is $("$python" --version), $venv has $("$old" --version): delete it, set VASWANI_VENV to another folder, or leave PYTHON out"
  [[ -n "$old" ]] || find "$venv" -mindepth 1 -maxdepth 1 ! -name .vaswani.lock -exec rm -rf {} +
  [[ ! -e "$venv/.installing" ]] || again=1
  : >"$venv/.installing" && say "installing into $venv with $("$python" --version) (once, about a minute)"
  uv=$(command -v uv) || uv=$venv/bin/uv
  [[ -x "$venv/bin/python" || -x "$uv" ]] || run "Python with venv (Debian: python3-venv)" "$python" -m venv "$venv"
  [[ -x "$uv" ]] || run "uv" "$venv/bin/python" -m pip install --disable-pip-version-check --no-input uv==0.13.9
  [[ -x "$venv/bin/python" ]] || run "Python" "$uv" venv --allow-existing --python "$python" "$venv"
  while IFS=\' read -r name value _; do case $name in # uv doesn't read pip's configuration
      *.index-url=) export UV_DEFAULT_INDEX="${UV_DEFAULT_INDEX:-${UV_INDEX_URL:-$value}}" ;;
      *.find-links=) value=${value//\\n/,} && export UV_FIND_LINKS="${UV_FIND_LINKS:-${value// /,}}" ;;
      *.cert=) export SSL_CERT_FILE="${SSL_CERT_FILE:-$value}" ;;
  esac; done < <("$python" -m pip config list 2>/dev/null)
  for name in recipes ${VASWANI_GROUPS:-}; do groups+=(--group "$name"); done
  cd "$VASWANI_ROOT" && run "uv.lock" "$uv" export -q --frozen --no-default-groups "${groups[@]}" --no-emit-project --no-annotate -o "$venv/lock.txt"
  [[ -z "${again:-}" ]] || while read -r name; do renew+=("--reinstall-package=$name"); done < <(
    awk -v old="$venv/complete.txt" 'BEGIN { while ((getline line <old) > 0) seen[line] }
      /^[^ #-]/ && !($0 in seen) { sub(/==.*/, ""); print }' "$venv/lock.txt") # half-copied ones look complete to uv
  # torch's builds for CPU, CUDA and ROCm have other sums and needs: only its version is locked.
  awk -v to="$venv" '/^[^ ]/ { file = /^(torch|triton|nvidia-.*|cuda-.*)==/ ? "/dev/null" : to (/^fairseq-/ ? "/fairseq.txt" : "/packages.txt") }
    { print >file }' "$venv/lock.txt" || die "cannot write in $venv"
  run "packages" "$uv" pip install ${renew[@]+"${renew[@]}"} --no-deps --require-hashes -r "$venv/packages.txt"
  index=${VASWANI_TORCH_INDEX:-https://download.pytorch.org/whl/cpu}
  [[ -n "${VASWANI_TORCH_INDEX:-}" ]] || { [[ "$(uname -s)" == Linux ]] && ! nvidia-smi -L 2>/dev/null | grep -q GPU &&
    timeout 3 "$python" -c 'import sys, urllib.request as u; u.urlopen(sys.argv[1])' "$index/torch/" 2>/dev/null; } || index=
  run "torch from ${index:-find-links or PyPI (there, on Linux, it is for CUDA: several GB)}" \
    "$uv" pip install ${renew[@]+"${renew[@]}"} ${index:+--index "$index"} "$(grep -o '^torch==[0-9.]*' "$venv/lock.txt")"
  run "fairseq" "$uv" pip install ${renew[@]+"${renew[@]}"} --no-deps --require-hashes -r "$venv/fairseq.txt"
  mkdir -p "$venv/build" && printf '[egg_info]\negg_base = %s\n[build]\nbuild_base = %s\n' "$venv/build" "$venv/build" >"$venv/build/setup.cfg"
  DIST_EXTRA_CONFIG=$venv/build/setup.cfg run "this plugin" "$uv" pip install --no-deps --no-build-isolation -e . # no egg-info here
  "$venv/bin/python" -m compileall -qq -j 0 -x '/(tests?|testing)/' "$venv/lib" >>"$log" 2>&1 9>&- || true
  for name in recipes ${VASWANI_GROUPS:-}; do printf '%s\n' "$vaswani_env_key" >"$venv/.ready-$name"; done
  cp "$venv/lock.txt" "$venv/complete.txt" && rm "$venv/.installing" && say "installed in $((SECONDS - start)) s"
}
[[ "${VASWANI_ENV_FUNCTIONS_ONLY:-}" == 1 ]] || vaswani_env || { [[ "${BASH_SOURCE[0]}" != "$0" ]] || exit 1 && return 1; }
[[ "${BASH_SOURCE[0]}" != "$0" ]] || echo "environment ready: $VASWANI_VENV ($("$VASWANI_VENV/bin/python" --version))"
