#!/usr/bin/env bash
# The four agent programs, from npm, run by flock in sandboxes of a real Docker engine, with models that do what they
# are told.
# Needs python3, Docker, npm's registry, 3 GB of disk and 3 GB of memory while it runs. npm's own cache makes the second
# time faster.
#
#   ./standalone/programs.sh             all four
#   ./standalone/programs.sh claude      one or more of them
set -euo pipefail
cd "$(dirname "$0")/.."

# The versions that are checked against. With an older Node npm would choose an older Claude Code without a word.
node=node@24.21.0
declare -A packages=(
    [claude]=@anthropic-ai/claude-code@2.1.330
    [codex]=@openai/codex@0.169.0
    [gemini]=@google/gemini-cli@0.61.0
    [opencode]=opencode-ai@1.18.33
)
[ $# -gt 0 ] || set -- claude codex gemini opencode

binary=$(realpath -m "${FLOCK_BINARY:-${CARGO_TARGET_DIR:-target}/release/flock}")
[ -x "$binary" ] || { echo "no binary at $binary: cargo build --release" >&2; exit 1; }
if ! command -v npm >/dev/null; then
    echo "The agent programs were left out: no npm here" >&2
    [ -z "${FLOCK_TEST_REQUIRE_NODE:-}" ] || exit 1
    exit 0
fi

work=$(mktemp -d /var/tmp/flock-programs-XXXXXXXX)
export FLOCK_HOME=$work/home FLOCK_NO_PROGRESS=1
model=
end() {
    local mark
    "$binary" stop >/dev/null 2>&1 || true
    [ -z "$model" ] || kill "$model" 2>/dev/null || true
    mark=$(printf %s "$FLOCK_HOME" | sha256sum | cut -c1-8)
    docker ps -aq --filter "label=flock.home=$FLOCK_HOME" 2>/dev/null | xargs -r docker rm -f >/dev/null 2>&1 || true
    docker volume rm "flock-nix-$mark" >/dev/null 2>&1 || true
    docker images --format '{{.Repository}}:{{.Tag}}' 2>/dev/null | grep -- "^flock-.*-$mark\$" |
        xargs -r docker rmi >/dev/null 2>&1 || true
    if [ -n "${FLOCK_KEEP:-}" ]; then echo "kept: $work"; else rm -rf "$work"; fi
}
trap end EXIT
step() { printf -- '-- %s (%ss)\n' "$*" "$SECONDS"; }

# A folder with installed programs, for those who run this again and again.
programs=${FLOCK_PROGRAMS:-$work/programs}
if [ ! -d "$programs/node_modules" ]; then
    wanted=()
    for name in "$@"; do wanted+=("${packages[$name]}"); done
    step "$node ${wanted[*]} from npm"
    npm install --silent --no-audit --no-fund --prefix "$programs" "$node"
    PATH=$programs/node_modules/node/bin:$PATH npm install --silent --no-audit --no-fund --prefix "$programs" \
        "${wanted[@]}"
fi
mkdir "$work/bin" "$work/model"
ln -s "$programs/node_modules/node/bin/node" "$work/bin/node"
for name in "$@"; do ln -s "$(realpath "$programs/node_modules/.bin/$name")" "$work/bin/$name"; done
export PATH=$work/bin:$PATH

step "checks"
python3 - "$work/model/keys.json" <<'END'
import json, os, secrets, sys
keys = {api: f"planted-{api}-{secrets.token_hex(16)}" for api in ("openai", "anthropic", "google")}
with os.fdopen(os.open(sys.argv[1], os.O_CREAT | os.O_WRONLY, 0o600), "w") as file:
    json.dump(keys, file)
END
python3 standalone/programs_model.py "$work/model" &
model=$!
FLOCK_BINARY=$binary python3 -u standalone/programs_checks.py "$work" "$@"
step "done"
