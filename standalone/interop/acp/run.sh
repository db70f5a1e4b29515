#!/usr/bin/env bash
# Other people's clients of the Agent Client Protocol against `flock acp`: the official SDKs for TypeScript and Python,
# and acpx. (The official crate for Rust drives tests/suite/acp.)
# Needs python3 3.10 or newer with venv, PyPI, node 20 or newer and npm's registry. FLOCK_BINARY is the program.
# FLOCK_INTEROP=FOLDER keeps the installed packages for the next time.
set -euo pipefail
cd "$(dirname "$0")"
. ../../python.sh

# The versions that are checked against.
python_sdk=agent-client-protocol==0.12.1
node_sdk=@agentclientprotocol/sdk@2.4.0
acpx=acpx@0.19.1

binary=${FLOCK_BINARY:-${CARGO_TARGET_DIR:-../../../target}/release/flock}
[ -x "$binary" ] || { echo "no binary at $binary: cargo build --release" >&2; exit 1; }
binary=$(realpath "$binary")
work=$(mktemp -d /var/tmp/flock-acp-XXXXXXXX)
export FLOCK_HOME=$work/home FLOCK_NO_PROGRESS=1 FLOCK_BINARY=$binary FLOCK_WORK=$work
trap '"$binary" stop >/dev/null 2>&1 || true; rm -rf "$work"' EXIT

kept=${FLOCK_INTEROP:-$work}/acp
mkdir -p "$kept"
if [ ! -d "$kept/venv" ]; then
    new_venv "$kept/venv" "$python_sdk"
fi
if [ ! -d "$kept/node/node_modules" ]; then
    npm install --silent --no-audit --no-fund --prefix "$kept/node" "$node_sdk" "$acpx"
fi

port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
"$binary" init --yes --no-images --model script/demo --port "$port" >/dev/null
sed "s|WORK|$work|g" script.json > "$work/home/scripts/acp"
"$binary" config set 'agents.list[sysadmin].model.primary' script/acp >/dev/null
"$binary" add coder --no-container --model script/acp
"$binary" start

passed=0 failed=0
part() {
    echo "$1"
    shift
    "$@" 2>&1 | tee "$work/part" || failed=$((failed + 1))
    passed=$((passed + $(grep -c '^  ok: ' "$work/part" || true)))
}
part "the Python SDK" "$kept/venv/bin/python" client.py
# A module's imports are looked for beside it.
cp client.mjs "$kept/node/"
part "the TypeScript SDK" node "$kept/node/client.mjs"
part "acpx" python3 acpx_checks.py "$kept/node/node_modules/.bin/acpx"
"$binary" stop
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
