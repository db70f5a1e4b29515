#!/usr/bin/env bash
# Every test there is: format, lints, laws, unit and outside tests, real Docker, real clients and programs.
#
#   ./standalone/test.sh                 everything
#   ./standalone/test.sh --quick         without Docker
#   ./standalone/test.sh --only PART…    these parts and what they need, in their usual order
#   ./standalone/test.sh --parts         the names of the parts
set -euo pipefail
cd "$(dirname "$0")/.."

# In their order. Those after `build` use its release build.
parts=(fmt clippy audit unit suite docs build openai llama a2a mcp matrix discord slack telegram browser openclaw programs kills load compose)
quick=(fmt clippy audit unit suite docs)

usage() { sed -n '2,/^set/s/^# \{0,1\}//p' "$0"; }
listed() { [[ " $1 " == *" $2 "* ]]; }

chosen=("${parts[@]}")
docker=1
case "${1:-}" in
'') ;;
--quick)
    chosen=("${quick[@]}")
    docker=
    ;;
--parts)
    printf '%s\n' "${parts[@]}"
    exit
    ;;
--only)
    shift
    [ $# -gt 0 ] || { usage >&2; exit 2; }
    chosen=("$@")
    for part in "${chosen[@]}"; do
        listed "${parts[*]}" "$part" || { echo "test.sh: no part '$part'; there are: ${parts[*]}" >&2; exit 2; }
    done
    ;;
-h | --help)
    usage
    exit
    ;;
*)
    usage >&2
    exit 2
    ;;
esac

wanted() { listed "${chosen[*]}" "$1"; }
after_build() {
    local part
    for part in openai llama a2a mcp matrix discord slack telegram browser openclaw programs kills load compose; do
        wanted "$part" && return
    done
    return 1
}
# What hangs is ended while there is still time to say so.
limited() { timeout --kill-after=1m 30m "$@"; }
step() { printf '\n== %s (%ss)\n' "$*" "$SECONDS"; }

if [ -n "$docker" ] && { wanted suite || after_build; }; then
    step "Docker engine"
    needed=()
    python3 -c 'import venv, ensurepip' 2>/dev/null || needed+=(python3 python3-venv)
    ./standalone/prepare.sh "${needed[@]}"
    # From here on a Docker test that does not run is a failure.
    export FLOCK_TEST_REQUIRE_DOCKER=1
fi

component() { cargo "$1" --version >/dev/null 2>&1 || rustup component add "$2"; }

run_fmt() {
    step "Format"
    component fmt rustfmt
    cargo fmt --check
}

run_clippy() {
    step "Clippy"
    component clippy clippy
    cargo clippy --locked --all-targets -- -D warnings
}

run_audit() {
    step "Licences, sources and advisories of dependencies"
    ./standalone/audit.sh
}

run_unit() {
    step "Unit tests"
    cargo test --locked --lib --bins
}

run_suite() {
    local without=()
    step "Laws, command line, gateway, supervision and, with an engine, Docker"
    [ -n "$docker" ] || without=(--skip docker::)
    cargo test --locked --test suite --no-run
    begin_build
    timeout --foreground 40m cargo test --locked --test suite -- "${without[@]}"
}

run_docs() {
    step "Documentation"
    RUSTDOCFLAGS="-D warnings" cargo doc --locked --no-deps --document-private-items --quiet
}

# The suite waits for Docker for much of its time, in which the release build makes way.
building=
begin_build() {
    { wanted build || after_build; } || return 0
    built=$(mktemp /var/tmp/flock-build-XXXXXXXX)
    nice -n 10 cargo build --locked --release >"$built" 2>&1 &
    building=$!
    trap '[ -z "$building" ] || kill "$building" || :; rm -f "$built"' EXIT
}

run_build() {
    step "Release build"
    if [ -n "$building" ]; then
        wait "$building" || { building=; cat "$built" >&2; exit 1; }
        building=
    fi
    cargo build --locked --release
}

run_openai() {
    step "The OpenAI client"
    limited ./standalone/openai.sh
}

run_llama() {
    step "A real model, on llama.cpp's server"
    limited ./standalone/llama.sh
}

run_a2a() {
    step "The A2A clients"
    limited ./standalone/a2a.sh
}

run_mcp() {
    step "The MCP client"
    limited ./standalone/mcp.sh
}

# Most of their time is spent waiting for a platform or a page, so those that are wanted run beside each other. What they
# print comes when they end, and at the very end what failed, because of a long run often only the end is read.
run_beside() {
    local part printed pids=() passed=() failed=()
    step "Beside each other: ${beside[*]}"
    printed=$(mktemp -d /var/tmp/flock-beside-XXXXXXXX)
    for part in "${beside[@]}"; do
        "run_$part" >"$printed/$part" 2>&1 &
        pids+=($!)
    done
    for part in "${!beside[@]}"; do
        if wait "${pids[part]}"; then passed+=("${beside[part]}"); else failed+=("${beside[part]}"); fi
    done
    for part in "${passed[@]}" "${failed[@]}"; do
        step "$part"
        cat "$printed/$part"
    done
    rm -r "$printed"
    [ "${#failed[@]}" -eq 0 ] || { echo "test.sh: failed: ${failed[*]}" >&2; exit 1; }
}

# A real homeserver.
run_matrix() { limited ./standalone/matrix.sh; }

# A stand-in, as are the others.
run_discord() { limited ./standalone/discord.sh && limited ./standalone/discord.sh --alone; }

run_slack() { limited ./standalone/slack.sh; }

run_telegram() { limited ./standalone/telegram.sh && limited ./standalone/telegram.sh --alone; }

# The dashboard.
run_browser() { limited ./standalone/browser.sh; }

run_openclaw() {
    step "The real OpenClaw"
    limited ./standalone/openclaw.sh
}

run_programs() {
    step "The real agent programs"
    limited ./standalone/programs.sh
}

run_kills() {
    step "Random kills under load"
    limited ./standalone/kills.sh
}

run_load() {
    step "Memory and clients of many kinds under load"
    limited ./standalone/load.sh
}

run_compose() {
    step "The whole life of a home, in a container with the host's engine"
    limited ./standalone/compose.sh
}

beside=()
for part in matrix discord slack telegram browser; do
    if wanted "$part"; then beside+=("$part"); fi
done
for part in "${parts[@]}"; do
    if listed "${beside[*]}" "$part"; then
        # The first brings all of them.
        if [ "$part" = "${beside[0]}" ]; then run_beside; fi
    elif wanted "$part" || { [ "$part" = build ] && after_build; }; then
        "run_$part"
    fi
done
step "All passed"
