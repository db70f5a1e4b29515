#!/usr/bin/env bash
# flock's traces and metrics, read with OpenTelemetry's own message definitions (PyPI's opentelemetry-proto) by a collector
# that is nobody's code of flock: spans of each way in, below the caller's span, and what must not be in them.
set -euo pipefail
cd "$(dirname "$0")/../../.."

. standalone/bridge_stage.sh
stage interop-telemetry "${FLOCK_INTEROP:-}" "$@"
# The version that is checked against.
with_python opentelemetry-proto==1.45.2

port=$("$python" -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
"$binary" init --yes --no-images --model script/demo --port "$port"
cp standalone/interop/telemetry/script.json "$FLOCK_HOME/scripts/traced"
"$binary" add coder --no-container --model script/traced
PYTHONPATH=standalone "${loopback[@]}" "$python" -u standalone/interop/telemetry/checks.py
