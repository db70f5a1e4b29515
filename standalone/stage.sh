# What the scripts share that run a whole flock with programs from npm. To be sourced in the project's folder, with the
# name of what is tried in `about`. Gives `binary`, and with `stage` a home in `work` that is cleared away in the end.
# shellcheck shell=bash
. standalone/engine.sh

# The Node that OpenClaw and the agent programs are checked with.
node=node@24.21.0

binary=$(realpath -m "${FLOCK_BINARY:-${CARGO_TARGET_DIR:-target}/release/flock}")
[ -x "$binary" ] || { echo "no binary at $binary: cargo build --release" >&2; exit 1; }
if ! command -v npm >/dev/null; then
    echo "${about:-This} was left out: no npm here" >&2
    [ -z "${FLOCK_TEST_REQUIRE_NODE:-}" ] || exit 1
    exit 0
fi

stage() {
    # /tmp may be too small for what engine and programs take.
    work=$(mktemp -d "/var/tmp/flock-$1-XXXXXXXX")
    export FLOCK_BINARY=$binary FLOCK_HOME=$work/home FLOCK_NO_PROGRESS=1
    model=
    mkdir "$work/model"
    trap leave EXIT
}

leave() {
    "$binary" stop >/dev/null 2>&1 || true
    [ -z "$model" ] || kill "$model" 2>/dev/null || true
    clear_engine "$FLOCK_HOME"
    if [ -n "${FLOCK_KEEP:-}" ]; then echo "kept: $work"; else rm -rf "$work"; fi
}

step() { printf -- '-- %s (%ss)\n' "$*" "$SECONDS"; }

from_npm() { npm install --silent --no-audit --no-fund --prefix "$@"; }

# Starts a model that does what it is told, with keys that nobody else knows.
serve() {
    python3 - "$work/model/keys.json" <<'END'
import json, os, secrets, sys
keys = {api: f"planted-{api}-{secrets.token_hex(16)}" for api in ("openai", "anthropic", "google")}
with os.fdopen(os.open(sys.argv[1], os.O_CREAT | os.O_WRONLY, 0o600), "w") as file:
    json.dump(keys, file)
END
    python3 "$1" "$work/model" &
    model=$!
}
