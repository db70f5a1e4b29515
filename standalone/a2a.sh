#!/usr/bin/env bash
# The official A2A clients, for Python and for JavaScript, against a running gateway: cards, messages, streams,
# questions, cancelling, errors, in both versions of the protocol.
# Needs python3 with venv and PyPI; node 20 or newer and npm's registry, else that client is left out and named.
set -euo pipefail
cd "$(dirname "$0")/.."
. standalone/bridge_stage.sh

# The versions that are checked against.
python_sdk=a2a-sdk==1.3.0
node_sdk=@a2a-js/sdk@1.3.0

binary=${FLOCK_BINARY:-${CARGO_TARGET_DIR:-target}/release/flock}
[ -x "$binary" ] || { echo "no binary at $binary: cargo build --release" >&2; exit 1; }
work=$(mktemp -d /var/tmp/flock-a2a-XXXXXXXX)
export FLOCK_HOME=$work/home FLOCK_NO_PROGRESS=1
trap '"$binary" stop >/dev/null 2>&1 || true; rm -rf "$work"' EXIT

new_venv "$work/venv" "$python_sdk"

port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
"$binary" init --yes --no-images --model script/a2a --port "$port"
cp standalone/a2a_script.json "$work/home/scripts/a2a"
"$binary" add coder --no-container
"$binary" start
# As other systems do: each client has a token of its own, which opens its agents and may look how things stand.
token() { "$binary" --json token add "$1" --agents orchestrator,coder --rights a2a,read | python3 -c 'import json, sys; print(json.load(sys.stdin)["token"])'; }
python_token=$(token python)
node_token=$(token javascript)
A2A_TOKEN=$python_token "$work/venv/bin/python" standalone/a2a_client.py "$port"

if has_node 20; then
    mkdir "$work/node"
    (cd "$work/node" && npm init --yes >/dev/null && npm install --silent --no-audit --no-fund "$node_sdk")
    # A module's imports are looked for beside it.
    cp standalone/a2a_client.mjs "$work/node/"
    A2A_TOKEN=$node_token node "$work/node/a2a_client.mjs" "$port"
else
    echo "the JavaScript client was left out: no node 20 or newer here" >&2
    [ -z "${FLOCK_TEST_REQUIRE_NODE:-}" ] || exit 1
fi
"$binary" stop
