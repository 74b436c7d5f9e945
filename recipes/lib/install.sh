#!/usr/bin/env bash
# Installs requirements.lock, fairseq and this plugin into an environment. Called by env.sh, which
# says when; takes its orders from VASWANI_VENV, PYTHON and VASWANI_TORCH_INDEX.
#
# The order matters. What builds packages comes first, then all of the lock but torch and fairseq,
# each with --no-deps, because fairseq's metadata asks for a torchaudio that nothing imports, and
# with the hashes of the lock. torch comes with its own dependencies and without hashes: its builds
# for CPU, CUDA and ROCm differ (the lock constrains the versions, and pip checks each file against
# the sum that the index tells). fairseq is built last against what is then installed
# (--no-build-isolation), in about 100 s.
set -euo pipefail

unset CDPATH # with it, cd may print the folder
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
# shellcheck source=recipes/lib/env.sh
VASWANI_ENV_FUNCTIONS_ONLY=1 source "$here/env.sh"
root=${VASWANI_ROOT:?run recipes/lib/env.sh instead}
venv=${VASWANI_VENV:?run recipes/lib/env.sh instead}
lock=$root/requirements.lock
log=$venv/install.log
busy=$venv/.vaswani.installing

say() { printf 'env: %s\n' "$*" >&2; }
die() {
  printf 'env: error: %s\n' "$*" >&2
  exit 1
}

python_version() { # INTERPRETER: prints "3 11"; fails where it does not run
  "$1" -c 'import sys; print(*sys.version_info[:2])' 2>/dev/null
}

pick_python() { # sets python, or ends with the remedy
  local candidate version found
  if [[ -n "${PYTHON:-}" ]]; then
    version=$(python_version "$PYTHON") || die "PYTHON=$PYTHON does not run: name an interpreter of Python 3.11 or newer"
    [[ "$version" == 3\ 1[1-9] ]] || die "PYTHON=$PYTHON is Python ${version/ /.}, but 3.11 or newer is needed: install one and set PYTHON to it"
    python=$PYTHON
    return
  fi
  # 3.11 is the tested one; `python3` comes last because it may be anything.
  for candidate in python3.11 python3.12 python3.13 python3; do
    version=$(python_version "$candidate") || continue
    if [[ "$version" == 3\ 1[1-9] ]]; then
      python=$candidate
      return
    fi
  done
  if version=$(python_version python3); then found="Python ${version/ /.}"; else found=missing; fi
  die "no Python 3.11 or newer found (python3 is $found): install python3.11 with its venv and dev packages, or set PYTHON=/path/to/python3.11"
}

check_python_parts() {
  local include
  "$python" -c 'import venv, ensurepip' 2>/dev/null ||
    die "$python has no venv module: install the package python3-venv (python3.11-venv), then start again"
  include=$("$python" -c 'import sysconfig; print(sysconfig.get_paths()["include"])')
  [[ -f "$include/Python.h" ]] ||
    die "the C headers of $python are missing ($include/Python.h): install python3-dev (python3.11-dev), then start again"
}

check_compiler() {
  local tool candidate found
  for tool in "${CC:-} cc gcc clang" "${CXX:-} c++ g++ clang++"; do
    found=
    for candidate in $tool; do
      if command -v "$candidate" >/dev/null 2>&1; then found=$candidate; fi
    done
    [[ -n "$found" ]] ||
      die "no compiler found (tried:$(printf ' %s' "$tool")), fairseq needs one: install gcc and g++ (Debian, Ubuntu: build-essential; macOS: xcode-select --install)"
  done
}

has_gpu() { command -v nvidia-smi >/dev/null 2>&1 && nvidia-smi -L 2>/dev/null | grep -q GPU; }

check_disk() {
  local need=3 free
  # The CUDA build of torch brings NVIDIA's libraries along.
  if has_gpu; then need=8; fi
  free=$(df -Pk "$venv" | awk 'NR == 2 { print int($4 / 1048576) }')
  ((free >= need)) ||
    die "$free GB free in $venv, but about $need GB are needed: free some, or set VASWANI_VENV to a folder on a larger disk"
}

cpu_index() { # prints the index of torch's CPU builds if they are wanted and the index answers
  local url=https://download.pytorch.org/whl/cpu
  [[ "$(uname -s)" == Linux ]] && ! has_gpu || return 0
  if "$python" - "$url/torch/" <<'PY' 2>/dev/null; then echo "$url"; fi
import os, signal, sys, urllib.request
signal.signal(signal.SIGALRM, lambda *_: os._exit(1))  # also ends a name look-up that hangs
signal.alarm(3)
urllib.request.urlopen(urllib.request.Request(sys.argv[1], method="HEAD"), timeout=3)
PY
}

# Prints progress on long steps. It is a process of its own, so that pip stays in the foreground and
# gets Ctrl-C. It must not hold our output or the lock open when it outlives us by a few seconds.
heartbeat() {
  local start=$SECONDS
  while kill -0 "$$" 2>/dev/null; do
    sleep 20 >/dev/null 2>&1 9>&-
    say "  ... still at it, $((SECONDS - start)) s"
  done
}

run_pip() { # WHAT ARGUMENTS...
  local what=$1 beat status=0
  shift
  say "$what"
  printf '\n== %s: pip install %s\n' "$what" "$*" >>"$log"
  heartbeat 9>&- &
  beat=$!
  "$venv/bin/python" -m pip install --disable-pip-version-check --no-input "$@" >>"$log" 2>&1 9>&- || status=$?
  kill "$beat" 2>/dev/null || true
  wait "$beat" 2>/dev/null || true
  ((status == 0)) || explain_failure "$what"
}

explain_failure() { # WHAT: one line for the user, the rest stays in the log
  local tail last
  tail=$(tail -n 400 "$log" | awk '/^== /{ text = "" } { text = text $0 "\n" } END { printf "%s", text }')
  last=$(printf '%s' "$tail" | grep -i '^ *error' | tail -n 1 | cut -c1-200 || true)
  # pip removes its incomplete work when it fails by itself, so this is no interruption.
  rm -f "$busy"
  case $tail in
    *"No space left"*) die "the disk is full while installing $1: free some space and start again (log: $log)" ;;
    *"Failed to establish a new connection"* | *"Name or service not known"* | *"Temporary failure in name resolution"* | *"Connection"*"refused"* | *"ConnectTimeout"* | *"Network is unreachable"* | *"ProxyError"* | *"Read timed out"*)
      die "pip could not reach a package index while installing $1: check the network (or the proxy, or PIP_INDEX_URL) and start again (log: $log)" ;;
    *"DO NOT MATCH THE HASHES"*)
      die "a file for $1 is not the one that requirements.lock names, and nothing of it was installed: check the package index (PIP_INDEX_URL) or empty pip's cache (pip cache purge), and start again (log: $log)" ;;
    *"No matching distribution"*)
      die "no package for this machine and Python found for $1: check the network, or try PYTHON=python3.11 (log: $log)" ;;
    *) die "installing $1 failed: ${last:-see the log} (log: $log)" ;;
  esac
}

prepare_folder() {
  if [[ -e "$venv" && ! -d "$venv" ]]; then die "$venv is no folder: delete it or set VASWANI_VENV"; fi
  if [[ -d "$venv" && ! -f "$venv/pyvenv.cfg" && ! -e "$venv/.vaswani.lock" && -n "$(ls -A "$venv")" ]]; then
    die "$venv is not empty and no Python environment: set VASWANI_VENV to another folder"
  fi
  mkdir -p "$venv" 2>/dev/null || die "cannot make $venv: set VASWANI_VENV to a folder that can be written"
  { : >>"$venv/.vaswani.lock"; } 2>/dev/null || die "cannot write in $venv: set VASWANI_VENV to a folder that can be written"
}

make_venv() {
  local have want
  if [[ -e "$busy" ]]; then
    # Half-copied packages can look complete to pip: start from nothing.
    say "an earlier installation was interrupted: starting over"
    find "$venv" -mindepth 1 -maxdepth 1 ! -name .vaswani.lock -exec rm -rf {} +
  fi
  if [[ -f "$venv/pyvenv.cfg" ]]; then
    have=$(python_version "$venv/bin/python") || die "the Python of $venv is gone: delete that folder and start again"
    if [[ -n "${PYTHON:-}" ]]; then
      want=$(python_version "$python")
      [[ "$have" == "$want" ]] || die "$venv was made with Python ${have/ /.}, PYTHON=$PYTHON is ${want/ /.}: delete that folder or set VASWANI_VENV to another"
    fi
    : >"$busy"
    return
  fi
  : >"$busy"
  "$python" -m venv "$venv" >>"$log" 2>&1 9>&- || die "making the environment failed: $(tail -n 1 "$log") (log: $log)"
}

locked() { # [but] NAME...: prints the pins of these packages (of all but these), with their hashes
  awk -v names=" $* " '
    /^[^ #]/ {
      name = $1
      sub(/==.*/, "", name)
      chosen = (index(names, " " name " ") > 0) != (names ~ /^ but /)
    }
    /^[^#]/ && chosen' "$lock"
}

run_pip_locked() { # WHAT [but] NAME...
  local what=$1 part="$venv/.vaswani.part"
  shift
  locked "$@" >"$part"
  run_pip "$what" --require-hashes --no-deps --no-build-isolation -r "$part"
  rm -f "$part"
}

install_all() {
  local index=${VASWANI_TORCH_INDEX:-} versions="$venv/.vaswani.versions" torch fairseq
  [[ -n "$index" ]] || index=$(cpu_index)
  awk '/^[^ #]/ { print $1 }' "$lock" >"$versions"
  torch=$(grep '^torch==' "$versions")
  fairseq=$(grep '^fairseq-fixed==' "$versions")
  run_pip_locked "1/5 setuptools, wheel" setuptools wheel
  run_pip_locked "2/5 the packages of requirements.lock" but setuptools wheel torch fairseq-fixed
  run_pip "3/5 $torch${index:+ (index $index)}" -c "$versions" ${index:+--extra-index-url "$index"} "$torch"
  run_pip_locked "4/5 $fairseq (built here, about 100 s where pip has no wheel of it)" fairseq-fixed
  # setuptools would write an egg-info folder into the repository: send it into the environment.
  mkdir -p "$venv/build"
  printf '[egg_info]\negg_base = %s\n[build]\nbuild_base = %s\n' "$venv/build" "$venv/build" >"$venv/.vaswani.cfg"
  DIST_EXTRA_CONFIG="$venv/.vaswani.cfg" run_pip "5/5 this plugin" --no-deps --no-build-isolation -e "$root"
  rm -f "$versions"
  PYTHONDONTWRITEBYTECODE=1 "$venv/bin/python" -c 'import fairseq, sacrebleu, sacremoses, subword_nmt, torch' >>"$log" 2>&1 ||
    die "the installed packages do not import: $(tail -n 1 "$log") (log: $log)"
}

prepare_folder
if command -v flock >/dev/null 2>&1; then
  exec 9>"$venv/.vaswani.lock"
  if ! flock -n 9; then
    say "another process is installing into $venv: waiting for it"
    flock 9
  fi
  if vaswani_env_is_current; then exit 0; fi
fi
pick_python
check_python_parts
check_compiler
check_disk
say "installing into $venv with $("$python" --version 2>&1) (once, a few minutes)"
make_venv
install_all
# Written last, under another name first: a stamp means a complete environment.
vaswani_env_key >"$venv/.vaswani.stamp.new"
mv "$venv/.vaswani.stamp.new" "$venv/.vaswani.stamp"
rm -f "$busy"
say "installed in $SECONDS s"
