# What both parts of the scenario use. To be sourced, with `flock`, `model` and `limit`, the seconds of each wait. What was
# changed by `for_now` and started by `begin` is undone in the end, however it ends.
# shellcheck shell=bash

fail() { echo "the scenario failed: $*" >&2; exit 1; }

# Waits until the command succeeds, at most $limit seconds for each wait.
until_true() {
    local what=$1 end=$((SECONDS + limit))
    shift
    until "$@"; do
        [ "$SECONDS" -lt "$end" ] || fail "$what did not come about within $limit seconds"
        sleep 0.2
    done
}

put_back=()
started=
reader=
undo() {
    local status=$? entry
    [ -z "$reader" ] || kill "$reader" 2>/dev/null || true
    for entry in ${put_back[@]+"${put_back[@]}"}; do
        if [ -n "${entry#*=}" ]; then "$flock" -q config set "${entry%%=*}" "${entry#*=}" >/dev/null || true
        else "$flock" -q config unset "${entry%%=*}" >/dev/null || true
        fi
    done
    [ -z "$started" ] || "$flock" stop || status=1
    exit "$status"
}
trap undo EXIT
# Changes a setting until the end.
for_now() {
    put_back+=("$1=$("$flock" config get "$1" 2>/dev/null || true)")
    "$flock" -q config set "$1" "$2" >/dev/null
}

# Adds an agent with an archetype, unless it is there.
add() {
    "$flock" list --json | grep -q "\"id\": *\"$1\"" || "$flock" add "$1" --model "$model" --archetype "$2"
}

# Starts the gateway, unless one runs.
begin() {
    "$flock" status --json >/dev/null 2>&1 && return
    "$flock" start
    started=1
}
