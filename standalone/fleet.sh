#!/usr/bin/env bash
# Faults on a fleet under load: PostgreSQL with a synchronous replica, two Docker engines and the home on two machines, one
# of which has the gateway. Processes are killed and stopped, networks are cut, the database is restarted and failed over,
# another machine takes over, clocks jump by five minutes. Then a judge that knows nothing of the program compares what
# clients were told with the database and the workspaces, and who owned what when with the database's own record of it.
# Engines and machines are in network namespaces of their own. Needs root, python3, a C compiler, dockerd, iptables, ip, nsenter and
# unshare; installs Debian's PostgreSQL where it is missing.
#
#   ./standalone/fleet.sh                  25 faults, less than four minutes
#   ./standalone/fleet.sh --faults 1000    more of them, which last up to a minute
#   ./standalone/fleet.sh --seed 7         the same faults and the same load again
#   ./standalone/fleet.sh --without skew   leaves a kind of faults out; also as in cut/engine
#   ./standalone/fleet.sh --together 3     several gateways at once, once flock can have them
#   ./standalone/fleet.sh --self-test      tries the judge on doctored histories, without a fleet
#   FLOCK_KEEP=1 keeps the home, the history and the facts of a run.
set -euo pipefail
cd "$(dirname "$0")/.."

binary=$(realpath -m "${FLOCK_BINARY:-${CARGO_TARGET_DIR:-target}/release/flock}")
work=$(mktemp -d /var/tmp/flock-fleet-XXXXXXXX)
# The database's user reads the clocks in it.
chmod 711 "$work"
export FLOCK_BINARY=$binary FLOCK_HOME=$work/home FLOCK_NO_PROGRESS=1
leave() {
    if [ -n "${FLOCK_KEEP:-}" ]; then echo "kept: $work"; else rm -rf "$work"; fi
}
trap leave EXIT

if [[ " $* " != *" --self-test "* && " $* " != *" --help "* && " $* " != *" -h "* ]]; then
    [ -x "$binary" ] || { echo "no binary at $binary: cargo build --release" >&2; exit 1; }
    [ "$(id -u)" = 0 ] || { echo "engines and machines of their own need root" >&2; exit 1; }
    missing=()
    [ -d /usr/lib/postgresql ] || missing+=(postgresql)
    command -v iptables >/dev/null || missing+=(iptables)
    command -v ip >/dev/null || missing+=(iproute2)
    if [ "${#missing[@]}" -gt 0 ] || ! docker version >/dev/null 2>&1; then ./standalone/prepare.sh "${missing[@]}"; fi
fi
HOME=$work python3 -u standalone/fleet.py "$@"
