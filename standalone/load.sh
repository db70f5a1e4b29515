#!/usr/bin/env bash
# The gateway's memory under load, and clients of many kinds that all have to come to an end. Needs python3, a C compiler and a release
# build; everything is on this machine's loopback.
#
#   ./standalone/load.sh                 1,000 turns, 2,000 streamed chats, giant answers, a soak of 30 s
#   ./standalone/load.sh --full          16,110 streamed chats and a soak of ten minutes
#   ./standalone/load.sh --part soak     one part of it: turns, programs, relay, streams, giant, soak
#   FLOCK_KEEP=1 keeps the home.
set -euo pipefail
cd "$(dirname "$0")/.."

binary=$(realpath -m "${FLOCK_BINARY:-${CARGO_TARGET_DIR:-target}/release/flock}")
[ -x "$binary" ] || { echo "no binary at $binary: cargo build --release" >&2; exit 1; }
work=$(mktemp -d /var/tmp/flock-load-XXXXXXXX)
export FLOCK_BINARY=$binary FLOCK_HOME=$work/home FLOCK_NO_PROGRESS=1
model=
leave() {
    "$binary" stop >/dev/null 2>&1 || true
    [ -z "$model" ] || kill "$model" 2>/dev/null || true
    if [ -n "${FLOCK_KEEP:-}" ]; then echo "kept: $work"; else rm -rf "$work"; fi
}
trap leave EXIT

python3 standalone/load_model.py "$work" &
model=$!
until [ -e "$work/port" ]; do
    kill -0 "$model" 2>/dev/null || { echo "the model did not start" >&2; exit 1; }
    sleep 0.05
done
HOME=$work python3 -u standalone/load.py "$work/port" "$@"
