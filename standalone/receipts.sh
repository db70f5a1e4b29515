#!/usr/bin/env bash
# Receipts on another machine: one home makes receipts through the merge train and exports them, and a fresh home with an
# engine of its own, in a network namespace of its own, verifies each of them and runs its checks again. Then bundles that
# were tampered with are refused there. Needs root, python3, git, dockerd and unshare (package util-linux).
#
#   ./standalone/receipts.sh               2 receipts
#   ./standalone/receipts.sh --count 100   more of them
#   FLOCK_KEEP=1 keeps the homes of a run that failed.
set -euo pipefail
cd "$(dirname "$0")/.."
. standalone/engine.sh

binary=$(realpath -m "${FLOCK_BINARY:-${CARGO_TARGET_DIR:-target}/release/flock}")
[ -x "$binary" ] || { echo "no binary at $binary: cargo build --release" >&2; exit 1; }
[ "$(id -u)" = 0 ] || { echo "a second engine needs root" >&2; exit 1; }
work=$(mktemp -d /var/tmp/flock-receipts-XXXXXXXX)
export FLOCK_BINARY=$binary FLOCK_HOME=$work/home FLOCK_NO_PROGRESS=1
second=
leave() {
    "$binary" stop >/dev/null 2>&1 || true
    clear_engine "$FLOCK_HOME"
    if [ -n "$second" ]; then
        # It ends its containers. What it leaves mounted would keep its folder.
        kill "$second" 2>/dev/null || true
        wait "$second" 2>/dev/null || true
        awk -v at="$work/engine/" 'index($5, at) == 1 { print $5 }' /proc/self/mountinfo | sort -r | xargs -r umount -l || true
    fi
    if [ -n "${FLOCK_KEEP:-}" ]; then echo "kept: $work"; else rm -rf "$work"; fi
}
trap leave EXIT

# Begins an engine that has only a loopback, and nothing of the machine's own engine.
begin_engine() {
    local at=$work/engine
    mkdir "$at"
    echo '{"bridge": "none", "iptables": false, "ip-forward": false}' >"$at/daemon.json"
    unshare --net --mount --propagation private dockerd --config-file "$at/daemon.json" --data-root "$at/data" --exec-root "$at/exec" \
        --pidfile "$at/pid" --host "unix://$at/docker.sock" >"$at/log" 2>&1 &
    second=$!
    for _ in $(seq 600); do
        docker -H "unix://$at/docker.sock" version >/dev/null 2>&1 && return
        sleep 0.1
    done
    tail -n 20 "$at/log" >&2
    echo "the second engine does not start" >&2
    return 1
}

"$binary" init --yes --model script/demo >/dev/null
begin_engine
# The images are made from the archive of Debian, which the second engine can't reach: it gets those of the first one.
docker images --format '{{.Repository}}:{{.Tag}}' | grep -E '^flock-(sandbox|nix):' | xargs docker save |
    docker -H "unix://$work/engine/docker.sock" load >/dev/null
HOME=$work FLOCK_SECOND_ENGINE=unix://$work/engine/docker.sock FLOCK_WORK=$work python3 -u standalone/receipts.py "$@"
