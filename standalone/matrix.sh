#!/usr/bin/env bash
# A bridge to the real Synapse, with people who use the client library matrix-nio: links, messages both ways, who is
# heard, mentions, long messages, archiving, pauses. Then gateway and homeserver are killed and restarted while people
# write on both sides, and what was acknowledged is compared with what is there. All on this machine's loopback.
# Needs python3 with venv, PyPI, 300 MB of disk and 200 MB of memory while it runs. No Docker engine is needed.
#
#   ./standalone/matrix.sh                               300 messages each way, 5 kills, 1 restart of the homeserver
#   ./standalone/matrix.sh --messages 10000 --kills 50 --restarts 10
#   ./standalone/matrix.sh --seed 7                      the same choices again
#   ./standalone/matrix.sh --alone                no flock: the homeserver and the people on their own
#   FLOCK_MATRIX=FOLDER keeps the installed programs there, for those who run this again and again.
#   FLOCK_KEEP=1 keeps the home of a run that failed.
set -euo pipefail
cd "$(dirname "$0")/.."

# The versions that are checked against.
programs=(matrix-synapse==1.163.2 matrix-nio==0.26.0)

binary=$(realpath -m "${FLOCK_BINARY:-${CARGO_TARGET_DIR:-target}/release/flock}")
if [[ " $* " != *" --alone "* ]] && [ ! -x "$binary" ]; then
    echo "no binary at $binary: cargo build --release" >&2
    exit 1
fi
work=$(mktemp -d /var/tmp/flock-matrix-XXXXXXXX)
export FLOCK_BINARY=$binary FLOCK_HOME=$work/home FLOCK_NO_PROGRESS=1
leave() {
    [ ! -x "$binary" ] || [ ! -d "$FLOCK_HOME" ] || "$binary" stop >/dev/null 2>&1 || true
    # Only a run that was killed has left it.
    [ ! -f "$work/synapse/pid" ] || kill -KILL "$(cat "$work/synapse/pid")" 2>/dev/null || true
    if [ -n "${FLOCK_KEEP:-}" ]; then echo "kept: $work"; else rm -rf "$work"; fi
}
trap leave EXIT

venv=${FLOCK_MATRIX:-$work/venv}
if [ "$(cat "$venv/installed" 2>/dev/null)" != "${programs[*]}" ]; then
    python3 -m venv "$venv"
    # Wheels only: nothing is compiled.
    "$venv/bin/pip" install --quiet --disable-pip-version-check --only-binary :all: "${programs[@]}"
    echo "${programs[*]}" >"$venv/installed"
    echo "${programs[*]} from PyPI (${SECONDS} s)"
fi
HOME=$work "$venv/bin/python" -u standalone/matrix_checks.py "$work" "$@"
