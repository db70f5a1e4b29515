#!/usr/bin/env bash
# Random kills under load: gateway, supervisor, sandbox container and in-sandbox helper are ended by SIGKILL while people
# post, chat, give tasks over A2A, have commands approved, change members and settings and write into a vault. Then
# everything has to settle, and a list of what was acknowledged is compared with what there is. All on this machine's
# loopback. Needs python3; without a Docker engine only gateway and supervisor are killed.
#
#   ./standalone/kills.sh                 40 kills, at most two minutes
#   ./standalone/kills.sh --kills 1000    more of them
#   ./standalone/kills.sh --double        each kill is followed by one of another kind while its recovery runs
#   ./standalone/kills.sh --seed 7        the same choices again
#   FLOCK_KEEP=1 keeps the home of a run that failed.
set -euo pipefail
cd "$(dirname "$0")/.."
. standalone/engine.sh

binary=$(realpath -m "${FLOCK_BINARY:-${CARGO_TARGET_DIR:-target}/release/flock}")
[ -x "$binary" ] || { echo "no binary at $binary: cargo build --release" >&2; exit 1; }
work=$(mktemp -d /var/tmp/flock-kills-XXXXXXXX)
export FLOCK_BINARY=$binary FLOCK_HOME=$work/home FLOCK_NO_PROGRESS=1
leave() {
    "$binary" stop >/dev/null 2>&1 || true
    clear_engine "$FLOCK_HOME"
    if [ -n "${FLOCK_KEEP:-}" ]; then echo "kept: $work"; else rm -rf "$work"; fi
}
trap leave EXIT

if docker version >/dev/null 2>&1; then
    set -- --docker "$@"
elif [ -n "${FLOCK_TEST_REQUIRE_DOCKER:-}" ]; then
    echo "no Docker engine answers" >&2
    exit 1
fi
HOME=$work python3 -u standalone/kills.py "$@"
