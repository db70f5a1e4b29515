#!/usr/bin/env bash
# Every test there is: format, lints, laws, unit and outside tests, real Docker, the compose run.
#
#   ./standalone/test.sh            everything
#   ./standalone/test.sh --quick    without Docker
set -euo pipefail
cd "$(dirname "$0")/.."

quick=
[ "${1:-}" = --quick ] && quick=1
step() { printf '\n== %s (%ss)\n' "$*" "$SECONDS"; }

if [ -z "$quick" ]; then
    step "Docker engine"
    needed=()
    python3 -c 'import venv, ensurepip' 2>/dev/null || needed+=(python3 python3-venv)
    ./standalone/prepare.sh "${needed[@]}"
    # From here on a Docker test that does not run is a failure.
    export FLOCK_TEST_REQUIRE_DOCKER=1
fi

for component in fmt clippy; do
    cargo "$component" --version >/dev/null 2>&1 || rustup component add "${component/fmt/rustfmt}"
done

step "Format"
cargo fmt --check

step "Clippy"
cargo clippy --locked --all-targets -- -D warnings

step "Unit tests"
cargo test --locked --lib --bins

step "Laws, command line, gateway, supervision and, with an engine, Docker"
if [ -n "$quick" ]; then
    cargo test --locked --test suite -- --skip docker::
else
    cargo test --locked --test suite
fi

step "Documentation"
RUSTDOCFLAGS="-D warnings" cargo doc --locked --no-deps --quiet

if [ -z "$quick" ]; then
    step "Release build"
    cargo build --locked --release

    step "The OpenAI client"
    ./standalone/openai.sh

    step "A real model, on llama.cpp's server"
    ./standalone/llama.sh

    step "The A2A clients"
    ./standalone/a2a.sh

    step "The MCP client"
    ./standalone/mcp.sh

    step "The real OpenClaw"
    ./standalone/openclaw.sh

    step "The real agent programs"
    ./standalone/programs.sh

    step "The whole life of a home, in a container with the host's engine"
    ./standalone/compose.sh
fi
step "All passed"
