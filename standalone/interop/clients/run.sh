#!/usr/bin/env bash
# Clients of OpenAI's APIs with tools of their own: OpenAI's Python and JavaScript SDKs, LangChain, LiteLLM, pydantic-ai,
# `llm` and the Vercel AI SDK. Each brings a function, runs it when the model calls it, and gets the answer.
set -euo pipefail
cd "$(dirname "$0")/../../.."

# The versions that are checked against.
python_packages=(openai==3.57.0 langchain==1.5.2 langchain-openai==1.7.4 litellm==1.110.2
    'pydantic-ai-slim[openai]==2.68.0' llm==0.36)
node_packages=(openai@6.49.0 ai@6.0.326 @ai-sdk/openai@3.0.141 zod@4.6.7)

. standalone/bridge_stage.sh
stage interop-clients "${FLOCK_INTEROP:-}" "$@"
with_python "${python_packages[@]}"
with_node interop/clients/checks.mjs "${node_packages[@]}"

port=$("$python" -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
"$binary" init --yes --no-images --model script/demo --port "$port"
cp standalone/interop/clients/script.json "$FLOCK_HOME/scripts/clients"
"$binary" add coder --no-container --model script/clients
"$binary" start
token=$("$binary" token add interop --agents coder --rights chat --json | "$python" -c 'import json, sys; print(json.load(sys.stdin)["token"])')
export OPENAI_BASE_URL=http://127.0.0.1:$port/v1 OPENAI_API_KEY=$token
code=0
"${loopback[@]}" "$python" -u standalone/interop/clients/checks.py || code=$?
"${loopback[@]}" node "$work/node/checks.mjs" || code=$?
exit "$code"
