#!/usr/bin/env bash
# Runs docker-compose.standalone.yml with the compose that is there: `docker compose` 2 or docker-compose 1.
# Leaves nothing behind: no container, no image of its own, no folder.
set -euo pipefail
cd "$(dirname "$0")/.."
. standalone/engine.sh

binary=${FLOCK_BINARY:-${CARGO_TARGET_DIR:-target}/release/flock}
[ -x "$binary" ] || { echo "no binary at $binary: cargo build --release" >&2; exit 1; }

if docker compose version >/dev/null 2>&1; then
    compose=(docker compose)
else
    command -v docker-compose >/dev/null || ./standalone/prepare.sh docker-compose
    compose=(docker-compose)
fi

# The file has to work as it is, too: without one variable of this script.
said=$(env -i PATH="$PATH" HOME="$HOME" "${compose[@]}" -f docker-compose.standalone.yml config -q 2>&1) &&
    [[ $said != *"not set"* ]] || { echo "docker-compose.standalone.yml does not work by itself: $said" >&2; exit 1; }

# /tmp is often a tmpfs, and the engine may see another one.
FLOCK_E2E_DIR=$(mktemp -d /var/tmp/flock-e2e-XXXXXXXX)
FLOCK_E2E_RUN=$(basename "$FLOCK_E2E_DIR" | tail -c 9 | tr '[:upper:]' '[:lower:]')
FLOCK_E2E_CONTEXT=$FLOCK_E2E_DIR/context
FLOCK_E2E_DOCKERFILE=Dockerfile
FLOCK_E2E_BASE=flock-e2e-base:$FLOCK_E2E_RUN
FLOCK_E2E_MODEL=${FLOCK_MODEL:-}
if [ -z "$FLOCK_E2E_MODEL" ]; then
    if [ -n "${ANTHROPIC_API_KEY:-}" ]; then FLOCK_E2E_MODEL=anthropic/claude-opus-4-5
    elif [ -n "${OPENAI_API_KEY:-}" ]; then FLOCK_E2E_MODEL=openai/gpt-5
    elif [ -n "${OPENROUTER_API_KEY:-}" ]; then FLOCK_E2E_MODEL=openrouter/anthropic/claude-sonnet-4.5
    else FLOCK_E2E_MODEL=script/demo
    fi
fi
export FLOCK_E2E_DIR FLOCK_E2E_RUN FLOCK_E2E_CONTEXT FLOCK_E2E_DOCKERFILE FLOCK_E2E_BASE FLOCK_E2E_MODEL
project=flock-e2e-$FLOCK_E2E_RUN
run=("${compose[@]}" -p "$project" -f docker-compose.standalone.yml)

# What flock appends to the names of a home that is not the default one.
mark() { printf %s "$FLOCK_E2E_DIR/$1" | sha256sum | cut -c1-8; }

clean() {
    "${run[@]}" down --remove-orphans >/dev/null 2>&1 || true
    # Sandboxes are siblings on the host's engine: a harness that died half-way leaves them behind.
    docker rmi -f "flock-e2e:$FLOCK_E2E_RUN" "$FLOCK_E2E_BASE" >/dev/null 2>&1 || true
    clear_engine "$FLOCK_E2E_DIR/home"
    clear_engine "$FLOCK_E2E_DIR/images"
    # The container wrote as root.
    rm -rf "$FLOCK_E2E_DIR" 2>/dev/null || sudo -n rm -rf "$FLOCK_E2E_DIR" 2>/dev/null ||
        echo "note: $FLOCK_E2E_DIR holds files of root's; remove it with sudo" >&2
}
trap clean EXIT

# The base is flock's own sandbox image: a Debian of the host's suite with Python, so that the binary that
# the host built finds its C library. `init` makes it where it is not there yet.
"$binary" --home "$FLOCK_E2E_DIR/images" init --yes --model script/demo
base=$(docker images --format '{{.Repository}}:{{.Tag}}' flock-sandbox | grep -- "-$(mark images)\$" | head -n 1)
[ -n "$base" ] || { echo "init made no sandbox image for this home" >&2; exit 1; }
docker tag "$base" "$FLOCK_E2E_BASE"

mkdir -p "$FLOCK_E2E_CONTEXT"
cp "$binary" "$FLOCK_E2E_CONTEXT/flock"
cp -r standalone/Dockerfile standalone/entrypoint.sh standalone/harness.py standalone/checking.py standalone/scenario "$FLOCK_E2E_CONTEXT/"

# The library of the scenario is fetched here, because what reaches the index on the host may not in a container.
./standalone/scenario/library/fetch.sh "$FLOCK_E2E_CONTEXT/scenario/library/cachetools.tar.gz"

# The legacy builder: compose 1 knows no other, and it needs no plugin.
export DOCKER_BUILDKIT=0 COMPOSE_DOCKER_CLI_BUILD=0
"${run[@]}" build --quiet 2>/dev/null || "${run[@]}" build
set +e
"${run[@]}" up --abort-on-container-exit --exit-code-from flock-e2e --no-color 2>&1 | sed -u 's/^[^|]*| //'
status=${PIPESTATUS[0]}
set -e
[ "$status" = 0 ] || { echo "the compose run failed (exit $status)" >&2; exit 1; }

# The store's container stays for the next start, stopped, as the volume does; `clean` removes both.
left=$(docker ps -q --filter "label=flock.home=$FLOCK_E2E_DIR/home" | wc -l)
[ "$left" = 0 ] || { echo "$left containers of the home still run" >&2; exit 1; }
left=$(docker ps -aq --filter "label=flock.home=$FLOCK_E2E_DIR/home" --filter label=flock.agent | wc -l)
[ "$left" = 0 ] || { echo "$left sandboxes of the home were left behind" >&2; exit 1; }
