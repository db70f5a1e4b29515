#!/usr/bin/env bash
# What bridges have to reach, measured: how soon a post is on the platform, how soon an agent begins its turn after a
# message, what four connected bridges cost an idle gateway, and how long it takes from nothing to the first messages.
# The platforms are a real Synapse and the stand-ins for Discord, Slack and Telegram, all on this machine's loopback.
# It only measures, so it is no part of test.sh. Needs python3 with venv, PyPI, and about five minutes on a quiet machine.
#
#   ./standalone/bridge_figures.sh                       all of it
#   ./standalone/bridge_figures.sh --only first idle     parts: first idle posts turns
#   ./standalone/bridge_figures.sh --posts 2000 --turns 400
#   FLOCK_FIGURES=FOLDER keeps the installed programs there, for those who run this again and again.
#   FLOCK_KEEP=1 keeps the home.
set -euo pipefail
cd "$(dirname "$0")/.."

# Those of matrix.sh, and what the stand-ins need. They are together because one process drives all platforms.
programs=(matrix-synapse==1.163.2 matrix-nio==0.26.0 aiohttp==3.14.5 zstandard==0.25.0)

binary=$(realpath -m "${FLOCK_BINARY:-${CARGO_TARGET_DIR:-target}/release/flock}")
[ -x "$binary" ] || { echo "no binary at $binary: cargo build --release" >&2; exit 1; }
work=$(mktemp -d /var/tmp/flock-figures-XXXXXXXX)
export FLOCK_BINARY=$binary FLOCK_HOME=$work/home FLOCK_NO_PROGRESS=1 PYTHONDONTWRITEBYTECODE=1
leave() {
    [ ! -d "$FLOCK_HOME" ] || "$binary" stop >/dev/null 2>&1 || true
    # The measurement ends what it started. Only a run that was killed leaves a server.
    for file in "$work"/*/*/pid; do [ ! -f "$file" ] || kill -KILL "$(cat "$file")" 2>/dev/null || true; done
    if [ -n "${FLOCK_KEEP:-}" ]; then echo "kept: $work"; else rm -rf "$work"; fi
}
trap leave EXIT

venv=${FLOCK_FIGURES:-$work/venv}
if [ "$(cat "$venv/installed" 2>/dev/null)" != "${programs[*]}" ]; then
    python3 -m venv "$venv"
    # Wheels only: nothing is compiled.
    "$venv/bin/pip" install --quiet --disable-pip-version-check --only-binary :all: "${programs[@]}"
    echo "${programs[*]}" >"$venv/installed"
    echo "${programs[*]} from PyPI (${SECONDS} s)"
fi
# No proxy of this machine is to see loopback.
unset http_proxy https_proxy HTTP_PROXY HTTPS_PROXY all_proxy ALL_PROXY
HOME=$work "$venv/bin/python" -u standalone/bridge_figures.py "$work" "$@"
