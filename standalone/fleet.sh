#!/usr/bin/env bash
# Faults on a fleet under load: PostgreSQL with a synchronous replica, three gateways in a group, each with a home and a machine of its
# own, and three engines that all of them use: Docker at a socket, Docker by ssh, and Podman. Processes and sandboxes are killed and
# stopped, networks are cut between any two, the database is restarted and failed over, gateways come back after others have replaced
# them, clocks jump by five minutes. Meanwhile people post, chat, give tasks over A2A, have commands approved, change members and
# settings and have lines written into a vault, by any gateway, which passes on what is of an agent that another one has; and at each
# gateway somebody watches the events of all. Every change of the database waits for the replica, so nothing that was acknowledged may
# be lost. Then a judge that knows nothing of the program compares what clients were told with the database and the files, and who owned
# what when with the database's own record of it.
# Engines and machines are in network namespaces of their own, and the gateways reach each other by a bridge in one more. Where
# Podman can start no container, there are two engines.
# Needs root, python3, a C compiler, dockerd, nsenter and unshare; installs Debian's PostgreSQL, Podman, OpenSSH, iptables and ip where
# they are missing.
#
#   ./standalone/fleet.sh                       25 faults, less than five minutes
#   ./standalone/fleet.sh --minute              the same, and in one of them a gateway stands still for a minute
#   ./standalone/fleet.sh --faults 1000 --long  more of them, and those that last take up to a minute
#   ./standalone/fleet.sh --scenario            the team of standalone/scenario does its work first, before anything fails
#   ./standalone/fleet.sh --seed 7              the same faults and the same load again
#   ./standalone/fleet.sh --faults 16 --update NEXT
#                                               gateways change to the flock at NEXT, usually the next version, one after the other,
#                                               and back, between the other faults; 16 are enough for each mixture of the two
#                                               (CONTRIBUTING.md says how to build NEXT)
#   ./standalone/fleet.sh --without skew        leaves a kind of faults out; also as in cut/peer
#   ./standalone/fleet.sh --self-test           tries the judge on doctored histories, without a fleet
#   FLOCK_KEEP=1 keeps the homes, the history and the facts of a run.
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
    command -v podman >/dev/null || missing+=(podman)
    command -v iptables >/dev/null || missing+=(iptables)
    command -v ip >/dev/null || missing+=(iproute2)
    [ -x /usr/sbin/sshd ] || missing+=(openssh-server)
    command -v ssh >/dev/null || missing+=(openssh-client)
    if [ "${#missing[@]}" -gt 0 ] || ! docker version >/dev/null 2>&1; then ./standalone/prepare.sh "${missing[@]}"; fi
fi
HOME=$work python3 -u standalone/fleet.py "$@"
