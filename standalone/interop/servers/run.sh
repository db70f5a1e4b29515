#!/usr/bin/env bash
# Real MCP servers from npm and PyPI, each in its sandbox: fetched and pinned by flock, granted, called by an agent over the
# whole way, and the walls tried from inside each. Needs docker, python3 and both registries.
#
#   FLOCK_INTEROP_SHORT=1 tries one server of each kind. interop.sh --short sets it.
#   FLOCK_KEEP=1 keeps the home of a run.
set -euo pipefail
cd "$(dirname "$0")/../../.."
. standalone/engine.sh

binary=$(realpath -m "${FLOCK_BINARY:-${CARGO_TARGET_DIR:-target}/release/flock}")
[ -x "$binary" ] || { echo "no binary at $binary: cargo build --release" >&2; exit 1; }
work=$(mktemp -d /var/tmp/flock-mcp-servers-XXXXXXXX)
export FLOCK_BINARY=$binary FLOCK_HOME=$work/home FLOCK_NO_PROGRESS=1
leave() {
    "$binary" stop >/dev/null 2>&1 || true
    clear_engine "$FLOCK_HOME"
    if [ -n "${FLOCK_KEEP:-}" ]; then echo "kept: $work"; else rm -rf "$work"; fi
}
trap leave EXIT

port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
"$binary" init --yes --model script/servers.json --port "$port"
# Node, npm and pip are the same in each run, and known by their hashes.
tools=${FLOCK_INTEROP:-${CARGO_TARGET_DIR:-target}}/package-tools
if [ -d "$tools" ]; then cp -a "$tools" "$FLOCK_HOME/package-tools"; fi
PYTHONPATH=standalone PYTHONPYCACHEPREFIX=$work/pycache python3 standalone/interop/servers/checks.py
if [ ! -d "$tools" ]; then
    mkdir -p "$(dirname "$tools")"
    cp -a "$FLOCK_HOME/package-tools" "$tools.new" && mv "$tools.new" "$tools"
fi
