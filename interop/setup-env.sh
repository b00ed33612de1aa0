#!/usr/bin/env bash
# Makes the Python peer's virtual environment once, outside the repository, and reuses it.
#   setup-env.sh          install what is missing; the last line on stdout is the python path
#   setup-env.sh --check  only say whether it is ready (exit 0: ready, path printed; 1: not), never install
# A failure prints one line "setup-env: <reason>" on stderr and exits 1.
# SPEEDTRONIC_INTEROP_ENV  folder that holds the environments (default: user cache)
# SPEEDTRONIC_INTEROP_BASE_PYTHON  interpreter to build with (default: first of python3, python3.13 … python3.10)
set -euo pipefail

here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
requirements="$here/requirements.txt"
root="${SPEEDTRONIC_INTEROP_ENV:-${XDG_CACHE_HOME:-${HOME:?set HOME or SPEEDTRONIC_INTEROP_ENV}/.cache}/speedtronic-interop}"

fail() {
  echo "setup-env: $*" >&2
  exit 1
}

file_hash() {
  if command -v sha256sum >/dev/null 2>&1; then sha256sum "$1"; else shasum -a 256 "$1"; fi | cut -c1-16
}

hash="$(file_hash "$requirements")"
env_dir="$root/$hash"
python="$env_dir/bin/python"
stamp="$env_dir/.complete"

# The stamp is written last, so its presence means that every package was installed.
is_ready() { [ -f "$stamp" ] && [ -x "$python" ]; }

case "${1:-}" in
  "") ;;
  --check)
    if is_ready; then
      echo "$python"
      exit 0
    fi
    echo "not ready: no complete environment at $env_dir"
    exit 1
    ;;
  *) fail "unknown argument '$1' (usage: setup-env.sh [--check])" ;;
esac

if is_ready; then
  echo "$python"
  exit 0
fi

find_base_python() {
  local candidate
  for candidate in "${SPEEDTRONIC_INTEROP_BASE_PYTHON:-python3}" python3.13 python3.12 python3.11 python3.10; do
    if "$candidate" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 10))' >/dev/null 2>&1; then
      echo "$candidate"
      return 0
    fi
  done
  return 1
}
base="$(find_base_python)" || fail "needs python3 >= 3.10 with the venv module; found none"

mkdir -p "$root" 2>/dev/null || fail "cannot create $root"

# One builder at a time. The lock is the open descriptor 9, so it ends with its processes: a killed build leaves
# no stale lock, and an orphaned pip, which inherits it, holds it until it is done. Python's fcntl, since macOS
# has no flock command.
exec 9>"$root/$hash.lock" || fail "cannot open the lock $root/$hash.lock"
"$base" -c 'import fcntl; fcntl.flock(9, fcntl.LOCK_EX)' || fail "cannot lock $root/$hash.lock"
if is_ready; then
  echo "$python"
  exit 0
fi

# A folder without stamp is the rest of an interrupted build.
rm -rf "$env_dir"

torch_version="$(sed -n 's/^torch==//p' "$requirements")"
has_local_torch() {
  local links dir
  links="${PIP_FIND_LINKS:-} $("$base" -m pip config get global.find-links 2>/dev/null || true)"
  for dir in $links; do
    compgen -G "${dir#file://}/torch-${torch_version}*.whl" >/dev/null && return 0
  done
  return 1
}
# The wheel from the package index brings CUDA libraries: about 5 GB installed, plus the unpacking.
needed_gb=8
if has_local_torch; then needed_gb=3; fi
free_kb="$(df -Pk "$root" | awk 'NR == 2 { print $4 }')"
if [ "$free_kb" -lt $((needed_gb * 1024 * 1024)) ]; then
  fail "needs $needed_gb GB free at $root, has $((free_kb / 1024 / 1024)) GB; set SPEEDTRONIC_INTEROP_ENV to a folder on a larger disk"
fi

echo "installing the Python peer into $env_dir (several GB at the first time)" >&2
"$base" -m venv "$env_dir" >&2 || fail "could not make a virtual environment at $env_dir"
log="$env_dir/install.log"
# TMPDIR inside the environment: the several GB are unpacked on the disk that was checked above.
mkdir -p "$env_dir/tmp"
if ! TMPDIR="$env_dir/tmp" "$python" -m pip install --no-cache-dir --disable-pip-version-check --no-input \
  -r "$requirements" >"$log" 2>&1; then
  reason="$(grep -iE '^ *error' "$log" | tail -n 1 || true)"
  tail -n 20 "$log" >&2
  fail "pip install failed: ${reason:-see $log}"
fi
rm -rf "$env_dir/tmp"

"$python" -c 'import speedtronic, torch, safetensors, numpy, huggingface_hub, hf_xet, transformers' 2>>"$log" ||
  fail "the installed packages do not import: $(tail -n 1 "$log")"

"$python" -m pip freeze --disable-pip-version-check >"$stamp.tmp" 2>/dev/null
mv "$stamp.tmp" "$stamp"
echo "$python"
