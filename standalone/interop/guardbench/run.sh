#!/usr/bin/env bash
# The hostile servers of MCP-GuardBench, each in its sandbox and granted through flock, with an agent that does all that a
# text of theirs asks for. What happened is read from the servers' own records. Needs docker, python3 with venv, and PyPI.
#
#   FLOCK_INTEROP=FOLDER keeps the installed packages for the next time. FLOCK_KEEP=1 keeps the home of a run.
set -euo pipefail
cd "$(dirname "$0")/../../.."
. standalone/engine.sh
. standalone/python.sh

# The versions that are checked against.
guardbench=mcp-guardbench==0.1.0
needed=('mcp==2.3.0' 'pydantic==2.14.4' 'jsonschema==4.26.0')

binary=$(realpath -m "${FLOCK_BINARY:-${CARGO_TARGET_DIR:-target}/release/flock}")
[ -x "$binary" ] || { echo "no binary at $binary: cargo build --release" >&2; exit 1; }
work=$(mktemp -d /var/tmp/flock-guardbench-XXXXXXXX)
export FLOCK_BINARY=$binary FLOCK_HOME=$work/home FLOCK_NO_PROGRESS=1 PYTHONPYCACHEPREFIX=$work/pycache
leave() {
    "$binary" stop >/dev/null 2>&1 || true
    clear_engine "$FLOCK_HOME"
    if [ -n "${FLOCK_KEEP:-}" ]; then echo "kept: $work"; else rm -rf "$work"; fi
}
trap leave EXIT

packages=${FLOCK_INTEROP:-$work}/guardbench
if [ ! -d "$packages" ]; then
    get_uv
    # For the Python of the sandbox. Wheels only, so that nothing of a package runs on this machine.
    options=(--quiet --only-binary :all: --target "$work/packages")
    "$uv" pip install "${options[@]}" --python-version 3.11 "${needed[@]}"
    # uv has no way to install what asks for a newer Python.
    "${uv%/uv}/python" -m pip install "${options[@]}" --no-compile --ignore-requires-python --no-deps --upgrade "$guardbench"
    # The sandbox has Python 3.11, and this is the only place of its servers that needs 3.12.
    sed -i 's/^class Page\[T\](BaseModel):/class Page(BaseModel):/; s/^    items: list\[T\]$/    items: list/' \
        "$work/packages/guardbench/domain/schemas.py"
    mkdir -p "$(dirname "$packages")"
    mv -T "$work/packages" "$packages" 2>/dev/null || [ -d "$packages" ]
fi

port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
"$binary" init --yes --model script/guardbench.json --port "$port"
PYTHONPATH=standalone python3 standalone/interop/guardbench/checks.py "$packages"
