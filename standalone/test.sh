#!/usr/bin/env bash
# Every test there is: format, lints, laws, unit and outside tests, real Docker, real clients and programs.
#
#   ./standalone/test.sh                 everything, with long campaigns cut short
#   ./standalone/test.sh --full …        in full: before a release, and after a change of what is left out (CONTRIBUTING.md)
#   ./standalone/test.sh --quick         without Docker
#   ./standalone/test.sh --only PART…    these parts and what they need, in their usual order
#   ./standalone/test.sh --parts         the names of the parts
#   FLOCK_BINARY=PATH tries this program with clients, browsers and agent programs, instead of a release build.
set -euo pipefail
cd "$(dirname "$0")/.."

# In their order. Those after `build` use its release build, or the program that FLOCK_BINARY names, with which nothing is
# built for them. Tests of cargo have the program that they were built with.
given=${FLOCK_BINARY:-}
unset FLOCK_BINARY
parts=(fmt audit unit postgres suite clippy docs build objects openai interop llama a2a mcp matrix discord slack telegram browser openclaw programs kills load compose fleet)
quick=(fmt audit unit suite clippy docs)

usage() { sed -n '2,/^set/s/^# \{0,1\}//p' "$0"; }
listed() { [[ " $1 " == *" $2 "* ]]; }

chosen=("${parts[@]}")
docker=1
full=
if [ "${1:-}" = --full ]; then
    full=1
    shift
fi
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
    for part in objects openai interop llama a2a mcp matrix discord slack telegram browser openclaw programs kills load compose fleet; do
        wanted "$part" && return
    done
    return 1
}

building= built= files=
leave() {
    [ -z "$building" ] || kill -- "-$building" || :
    rm -f ${built:+"$built"}
    on_disk
}
trap leave EXIT

# The arguments of a part that is not tried in full: nothing with --full.
short=()
shortened() {
    short=("$@")
    [ -z "$full" ] || short=()
}

# What hangs is ended while there is still time to say so.
limited() { timeout --kill-after=1m 30m "$@"; }
step() { printf '\n== %s (%ss)\n' "$*" "$SECONDS"; }

if [ -n "$docker" ] && { wanted suite || after_build; }; then
    step "Docker engine"
    needed=()
    python3 -c 'import venv, ensurepip' 2>/dev/null || needed+=(python3 python3-venv)
    command -v openssl >/dev/null || needed+=(openssl)
    # A test, which needs root, makes sandboxes in it.
    [ "$(id -u)" != 0 ] || command -v podman >/dev/null || needed+=(podman)
    ./standalone/prepare.sh "${needed[@]}"
    # From here on a Docker test that does not run is a failure.
    export FLOCK_TEST_REQUIRE_DOCKER=1
fi
# Frames of a failed assertion push its message out of the end of a long output.
export RUST_BACKTRACE=0

component() { cargo "$1" --version >/dev/null 2>&1 || rustup component add "$2"; }

run_fmt() {
    step "Format"
    component fmt rustfmt
    cargo fmt --check
}

run_audit() {
    step "Licences, sources and advisories of dependencies"
    ./standalone/audit.sh
}

# The tests' own files are in memory where that is large and can be mounted: they wait for a disk in a fifth of their time, and
# none can try what a disk promises at a power cut. They fill less than 2 GB. The name is short for the sake of sockets.
in_memory() {
    local engine
    [ -z "${TMPDIR:-}" ] && [ "$(id -u)" = 0 ] || return 0
    [ "$(awk '/^MemAvailable/ { print $2 }' /proc/meminfo)" -gt 12000000 ] || return 0
    files=$(mktemp -d /tmp/ftXXXX)
    if mount -t tmpfs -o size=6g,mode=1777 flock-tests "$files" 2>/dev/null; then
        export TMPDIR=$files
    else
        rmdir "$files"
        files=
        return
    fi
    # An engine with a view of its own of what is mounted may not have it, and would find the folders of tests empty.
    for engine in $(pidof dockerd); do
        grep -q " $files " "/proc/$engine/mountinfo" || on_disk
    done
}
on_disk() {
    [ -n "$files" ] || return 0
    unset TMPDIR
    umount --lazy "$files" && rmdir "$files" || :
    files=
}

# Both programs of tests at once, if both are wanted: a compiler uses one processor for most of its time. With lints, all
# that there is, by a compiler that knows them.
build_tests() {
    local targets=()
    [ -z "$tests_built" ] || return 0
    tests_built=1
    if wanted unit; then targets+=(--lib); fi
    if wanted suite; then targets+=(--test suite); fi
    [ -z "$linting" ] || targets=(--all-targets)
    cargo test --locked "${targets[@]}" --no-run
}
tests_built=
linting=
if wanted clippy && { wanted unit || wanted suite; }; then
    component clippy clippy
    linting=1
    export RUSTC_WORKSPACE_WRAPPER=$PWD/standalone/clippy.sh
fi

run_unit() {
    step "Unit tests"
    build_tests
    in_memory
    run_tests 20 --lib --
    on_disk
}

# The store's own tests once more, with their databases on a server, and the suite's tests that matter most there.
run_postgres() {
    step "Guarantees on PostgreSQL"
    in_memory
    repeated postgres limited ./standalone/postgres.sh --guarantees
    on_disk
}

run_suite() {
    local without=()
    step "Laws, command line, gateway, supervision and, with an engine, Docker"
    [ -n "$docker" ] || without=(--skip docker::)
    build_tests
    begin_build
    in_memory
    # More of these wait for a process, a container or a deadline than of the unit tests.
    RUST_TEST_THREADS=$((${RUST_TEST_THREADS:-$(nproc)} + 1)) run_tests 40 --test suite -- "${without[@]}"
    on_disk
}

# What passed only when it ran once more, alone. It is named at the end of the run, because it is to be mended all the same.
second=()
# The most tests of one program, and parts that run beside each other, that are repeated. More of them are no accident.
readonly most_tests=3 most_parts=1

# Runs a part by this command, and once more if that fails.
repeated() {
    local part=$1
    shift
    if "$@"; then return; fi
    step "Once more: $part"
    "$@" || return 1
    second+=("$part")
}

# Runs the tests of a program that was built, in so many minutes at most: `cargo test`'s options, `--`, the tests' own. What
# did not pass runs once more, each test alone.
run_tests() {
    local minutes=$1 printed code=0 again
    shift
    printed=$(mktemp /var/tmp/flock-tests-XXXXXXXX)
    # What a test started may outlive it and hold the output open.
    timeout --kill-after=1m "${minutes}m" cargo test --locked "$@" </dev/null |
        timeout "$((minutes + 2))m" tee "$printed" || code=$?
    if [ "$code" -ne 0 ]; then
        mapfile -t again < <(missing_tests "$printed" "$@")
        repeat_tests "$@" && code=0
    fi
    rm "$printed"
    return "$code"
}

# The names of the tests that there are and that neither passed nor were left out by what was printed.
missing_tests() {
    local printed=$1 name
    shift
    cargo test --locked --quiet "$@" --list | sed -n 's/: test$//p' | while read -r name; do
        grep -qE "test $name( - should panic)? \.\.\. (ok|ignored)" "$printed" || echo "$name"
    done
}

# Runs the tests in `again` once more, each alone.
repeat_tests() {
    local name target=()
    while [ "$1" != -- ]; do
        target+=("$1")
        shift
    done
    echo "test.sh: these tests failed or had not ended:" >&2
    printf '  %s\n' "${again[@]}" >&2
    [ "${#again[@]}" -gt 0 ] && [ "${#again[@]}" -le "$most_tests" ] || return 1
    for name in "${again[@]}"; do
        timeout --kill-after=1m 8m cargo test --locked "${target[@]}" -- --exact "$name" </dev/null || return 1
    done
    second+=("${again[@]}")
}

release=(env --unset=RUSTC_WORKSPACE_WRAPPER cargo build --locked --release)
docs=(env RUSTDOC="$PWD/standalone/rustdoc.sh" cargo test --locked --doc --quiet)

run_clippy() {
    [ -z "$linting" ] || return 0
    component clippy clippy
    step "Clippy"
    cargo clippy --locked --all-targets -- -D warnings
}

run_docs() {
    end_build
    step "Documentation"
    "${docs[@]}"
}

# The suite waits for Docker for much of its time, in which the documentation and the release build are made.
begin_build() {
    local commands=()
    if [ -z "$given" ] && { wanted build || after_build; }; then commands+=("${release[*]@Q}"); fi
    if wanted docs; then commands+=("${docs[*]@Q}"); fi
    [ "${#commands[@]}" -gt 0 ] || return 0
    built=$(mktemp /var/tmp/flock-build-XXXXXXXX)
    # In a group of its own, so that all of it can be ended.
    setsid nice -n 10 bash -ec "$(printf '%s\n' "${commands[@]}")" >"$built" 2>&1 &
    building=$!
}

end_build() {
    [ -n "$building" ] || return 0
    step "What was built beside the suite"
    wait "$building" || { building=; cat "$built" >&2; exit 1; }
    building=
}

run_build() {
    end_build
    if [ -n "$given" ]; then
        export FLOCK_BINARY=$given
        [ -x "$given" ] || { echo "test.sh: FLOCK_BINARY names $given, which is no program" >&2; exit 1; }
        return
    fi
    step "Release build"
    "${release[@]}"
}

# Real servers with the API of S3.
run_objects() { limited ./standalone/objects.sh; }

# The OpenAI client.
run_openai() { limited ./standalone/openai.sh; }

# Clients of other people.
run_interop() {
    shortened --short
    limited ./standalone/interop.sh "${short[@]}"
}

# A real model, on llama.cpp's server.
run_llama() { limited ./standalone/llama.sh; }

# The A2A clients.
run_a2a() { limited ./standalone/a2a.sh; }

# The MCP client.
run_mcp() { limited ./standalone/mcp.sh; }

# Most of the time of these parts is spent waiting for a platform, a page or a download, so those of a group that are
# wanted run beside each other, the longest first. Agent programs and browsers, which need the processor most, are in
# two groups. What they print comes when they end, and at the very end what failed, because of a long run often only the
# end is read.
groups=("programs openclaw interop objects openai llama a2a mcp" "browser matrix discord slack telegram kills load compose")
readonly most_at_once=5

run_beside() {
    local part printed ended pids=() passed=() failed=()
    step "Beside each other: $*"
    printed=$(mktemp -d /var/tmp/flock-beside-XXXXXXXX)
    for part in "$@"; do
        while [ "${#pids[@]}" -ge "$most_at_once" ]; do
            wait -n -p ended "${pids[@]}" || :
            mapfile -t pids < <(printf '%s\n' "${pids[@]}" | grep -vx "$ended")
        done
        # The time at its end is that of the whole run.
        (code=0; "run_$part" || code=$?; echo "$SECONDS" >"$printed/$part.end"; echo "$code" >"$printed/$part.code") \
            >"$printed/$part" 2>&1 &
        pids+=($!)
    done
    wait "${pids[@]}" || :
    for part in "$@"; do
        # One that was ended from outside has no code.
        if [ "$(cat "$printed/$part.code" 2>/dev/null)" = 0 ]; then passed+=("$part"); else failed+=("$part"); fi
    done
    for part in "${passed[@]}" "${failed[@]}"; do
        printf '\n== %s (until %ss)\n' "$part" "$(cat "$printed/$part.end" 2>/dev/null)"
        cat "$printed/$part"
    done
    rm -r "$printed"
    [ "${#failed[@]}" -gt 0 ] || return 0
    echo "test.sh: failed: ${failed[*]}" >&2
    [ "${#failed[@]}" -le "$most_parts" ] || exit 1
    for part in "${failed[@]}"; do
        step "Once more, alone: $part"
        "run_$part"
    done
    second+=("${failed[@]}")
}

# A real homeserver.
run_matrix() { bridged matrix; }

# A stand-in, as are the others. In full, the platform's own libraries prove that it is like the platform.
run_discord() {
    bridged discord || return 1
    [ -z "$full" ] || limited ./standalone/discord.sh --alone
}

run_slack() {
    bridged slack || return 1
    [ -z "$full" ] || limited ./standalone/slack.sh --alone
}

run_telegram() {
    bridged telegram || return 1
    [ -z "$full" ] || limited ./standalone/telegram.sh --alone
}

# A bridge, and a campaign of kills over it.
bridged() {
    shortened --messages 60 --kills 2
    limited "./standalone/$1.sh" "${short[@]}"
}

# The dashboard.
run_browser() {
    shortened --short --messages 30 --kills 2
    limited ./standalone/browser.sh "${short[@]}"
}

# The real OpenClaw.
run_openclaw() { limited ./standalone/openclaw.sh; }

# The real agent programs.
run_programs() {
    shortened --short
    limited ./standalone/programs.sh "${short[@]}"
}

# Random kills under load.
run_kills() {
    shortened --kills 10
    limited ./standalone/kills.sh "${short[@]}"
}

# Memory and clients of many kinds under load.
run_load() { limited ./standalone/load.sh; }

# Faults on a database with a replica, three engines, networks and clocks under load: the six most important kinds, and two others.
# In full all of them, after a team's work, and with a gateway that stands still for a minute.
run_fleet() {
    shortened --faults 8
    [ -z "$full" ] || short=(--minute --scenario)
    repeated fleet limited ./standalone/fleet.sh "${short[@]}"
}

# The whole life of a home, in a container with the host's engine.
run_compose() { limited ./standalone/compose.sh; }

# The group of a part, or nothing.
group_of() {
    local group
    for group in "${groups[@]}"; do
        if listed "$group" "$1"; then echo "$group"; fi
    done
}

done_parts=
for part in "${parts[@]}"; do
    listed "$done_parts" "$part" && continue
    wanted "$part" || { [ "$part" = build ] && after_build; } || continue
    read -ra group <<<"$(group_of "$part")"
    beside=()
    for other in "${group[@]}"; do
        if wanted "$other"; then beside+=("$other"); fi
    done
    if [ "${#beside[@]}" -gt 1 ]; then
        run_beside "${beside[@]}"
        done_parts+=" ${beside[*]}"
    elif [ "${beside[*]}" = "$part" ]; then
        step "$part"
        "run_$part"
    else
        "run_$part"
    fi
done
[ "${#second[@]}" -eq 0 ] || echo "test.sh: passed only when they ran once more, alone: ${second[*]}" >&2
step "All passed"
