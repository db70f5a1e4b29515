#!/usr/bin/env bash
# The official OpenAI Python client against a running gateway: models, chat, streaming, errors.
# Needs python3 with venv, and PyPI.
set -euo pipefail
cd "$(dirname "$0")/.."
. standalone/python.sh

binary=${FLOCK_BINARY:-${CARGO_TARGET_DIR:-target}/release/flock}
[ -x "$binary" ] || { echo "no binary at $binary: cargo build --release" >&2; exit 1; }
work=$(mktemp -d /var/tmp/flock-openai-XXXXXXXX)
export FLOCK_HOME=$work/home FLOCK_NO_PROGRESS=1
trap '"$binary" stop >/dev/null 2>&1 || true; rm -rf "$work"' EXIT

new_venv "$work/venv" openai

port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
"$binary" init --yes --no-images --model script/demo --port "$port"
cp standalone/openai_script.json "$work/home/scripts/openai"
"$binary" add coder --no-container --model script/openai
"$binary" start
"$binary" channel create dev --topic work --member coder
"$work/venv/bin/python" standalone/openai_client.py "$port" "$work/home/config.json"
"$binary" stop
