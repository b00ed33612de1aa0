#!/usr/bin/env bash
# Runs the checks against the Python peer: makes its environment (setup-env.sh), then the *.interop.test.ts files.
# Where the environment cannot be made it prints "interop skipped: <reason>" and exits 0.
# SPEEDTRONIC_INTEROP_NO_INSTALL=1  use the environment only if it is already there; never install
# Arguments go to vitest, for example a file name or -t "name of a test".
set -uo pipefail

here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
root="$(dirname "$here")"

skip() {
  echo "interop skipped: $*"
  exit 0
}

if [ "${SPEEDTRONIC_INTEROP_NO_INSTALL:-}" = 1 ]; then
  python="$(bash "$here/setup-env.sh" --check)" || skip "${python##*$'\n'}"
else
  messages="$(mktemp)" || skip "cannot make a temporary file"
  trap 'rm -f "$messages"' EXIT
  python="$(bash "$here/setup-env.sh" 2> >(tee "$messages" >&2))" || {
    reason="$(sed -n 's/^setup-env: //p' "$messages" | tail -n 1)"
    skip "${reason:-setup-env.sh failed without a reason}"
  }
fi
python="${python##*$'\n'}"

cd "$root" || exit 1
SPEEDTRONIC_PYTHON="$python" PYTHONDONTWRITEBYTECODE=1 npx vitest run --config vitest.interop.config.ts "$@"
