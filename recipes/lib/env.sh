#!/usr/bin/env bash
# The environment of every recipe and test: makes .venv when it is missing or out of date, then
# activates it. Source it (`source recipes/lib/env.sh`) or run it (`bash recipes/lib/env.sh`).
#
#   VASWANI_VENV         folder of the environment (default: .venv in the repository)
#   PYTHON               interpreter to make it with (default: python3.11, 3.12, 3.13, python3)
#   VASWANI_TORCH_INDEX  one more package index for torch, such as a CUDA or a ROCm one; an
#                        environment that was made without it has to be removed first
#
# A stamp in the environment holds what it was made from, so that a second start costs some
# milliseconds. All the installing is in install.sh, which runs as a process of its own: what
# fails there can't close the shell that sources this file.

vaswani_sha256() {
  if command -v sha256sum >/dev/null 2>&1; then sha256sum; else shasum -a 256; fi | cut -d' ' -f1
}

# The key of an environment: changes whenever the environment has to be updated.
vaswani_env_key() {
  local version=unknown line
  if [[ -f "$VASWANI_VENV/pyvenv.cfg" ]]; then
    while IFS= read -r line; do
      case $line in version\ =*) version=${line#version = } ;; esac
    done <"$VASWANI_VENV/pyvenv.cfg"
  fi
  printf 'files %s\npython %s\nroot %s\nvenv %s\n' \
    "$(cat "$VASWANI_ROOT/requirements.lock" "$VASWANI_ROOT/pyproject.toml" | vaswani_sha256)" \
    "$version" "$VASWANI_ROOT" "$VASWANI_VENV"
}

vaswani_env_is_current() {
  [[ -x "$VASWANI_VENV/bin/python" && -f "$VASWANI_VENV/.vaswani.stamp" ]] &&
    [[ "$(vaswani_env_key)" == "$(<"$VASWANI_VENV/.vaswani.stamp")" ]]
}

vaswani_env_activate() {
  export VIRTUAL_ENV=$VASWANI_VENV
  case ":$PATH:" in
    *":$VASWANI_VENV/bin:"*) ;;
    *) export PATH="$VASWANI_VENV/bin:$PATH" ;;
  esac
  unset PYTHONHOME
  # Tools keep their caches in the environment's folder, not in the home folder or the repository.
  local cache="$VASWANI_VENV/cache"
  export PYTHONDONTWRITEBYTECODE=1
  export MPLCONFIGDIR="$cache/matplotlib"
  export TORCHINDUCTOR_CACHE_DIR="$cache/inductor" TRITON_CACHE_DIR="$cache/triton"
  export RUFF_CACHE_DIR="$cache/ruff" HYPOTHESIS_STORAGE_DIRECTORY="$cache/hypothesis"
  mkdir -p "$MPLCONFIGDIR"
  # For how many shapes oneDNN and PyTorch cache kernels. With 1,024, the default, a training on
  # sentences reuses few of them and grows by 400 MB.
  export ONEDNN_PRIMITIVE_CACHE_CAPACITY="${ONEDNN_PRIMITIVE_CACHE_CAPACITY:-64}"
  export LRU_CACHE_CAPACITY="${LRU_CACHE_CAPACITY:-64}"
  # Large pages for glibc's malloc: a training's activations are cleared page by page.
  export GLIBC_TUNABLES="${GLIBC_TUNABLES:-glibc.malloc.hugetlb=1}"
}

vaswani_env() {
  VASWANI_ROOT=$(CDPATH='' cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd -P) || return 1
  VASWANI_VENV=${VASWANI_VENV:-$VASWANI_ROOT/.venv}
  case $VASWANI_VENV in
    /*) ;;
    *) VASWANI_VENV=$PWD/$VASWANI_VENV ;;
  esac
  export VASWANI_ROOT VASWANI_VENV
  if ! vaswani_env_is_current; then
    bash "$VASWANI_ROOT/recipes/lib/install.sh" || return 1
  fi
  vaswani_env_activate
}

if [[ "${VASWANI_ENV_FUNCTIONS_ONLY:-}" != 1 ]]; then
  if [[ "${BASH_SOURCE[0]}" == "$0" ]]; then
    set -euo pipefail
    vaswani_env
    echo "environment ready: $VASWANI_VENV ($("$VASWANI_VENV/bin/python" --version))"
  else
    vaswani_env || return 1
  fi
fi
