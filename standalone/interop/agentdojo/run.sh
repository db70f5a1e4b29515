#!/usr/bin/env bash
# AgentDojo as a client with tools of its own: its task suites (workspace, travel, banking, slack) run in its own loop, with
# a flock agent in the place of the model. Behind the agent a stand-in for a model plays AgentDojo's ground truth, and does
# whatever a text in a result asks for. AgentDojo's own checks say whether each task was done.
#
#   ./standalone/interop/agentdojo/run.sh          some tasks of each suite
#   ./standalone/interop/agentdojo/run.sh --full   all tasks of all suites, and all injections that have calls
#   FLOCK_INTEROP=FOLDER keeps the installed packages for the next time.
set -euo pipefail
cd "$(dirname "$0")/../../.."

# The versions that are checked against.
python_packages=(agentdojo==0.1.35 openai==3.57.0)

. standalone/bridge_stage.sh
stage interop-agentdojo "${FLOCK_INTEROP:-}" "$@"
with_python "${python_packages[@]}"

port=$("$python" -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
"$binary" init --yes --no-images --model script/demo --port "$port"
export OPENAI_BASE_URL=http://127.0.0.1:$port/v1
"${loopback[@]}" "$python" -u standalone/interop/agentdojo/checks.py "$@"
