#!/usr/bin/env bash
# The official MCP client, by HTTP and by the standard streams of `flock mcp`, against a gateway in which a turn runs:
# tools, calls, resources, prompts, refusals. Needs python3 with venv and PyPI.
set -euo pipefail
cd "$(dirname "$0")/.."
. standalone/python.sh

# The version that is checked against.
python_sdk=mcp==2.3.0

work=$(mktemp -d /var/tmp/flock-mcp-XXXXXXXX)
trap 'rm -rf "$work"' EXIT

new_venv "$work/venv" "$python_sdk"

# A token is worth one turn, and only a turn has one: the test runs one and has the client work in it.
FLOCK_TEST_MCP_PYTHON="$work/venv/bin/python" \
    cargo test --locked --test suite -- --exact gateway::mcp::the_official_client_uses_the_tools --nocapture
