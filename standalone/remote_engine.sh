#!/usr/bin/env bash
# A container engine behind an sshd of its own on loopback, which live as long as a command does.
#
#   ./standalone/remote_engine.sh COMMAND…   runs COMMAND with the engine's address in FLOCK_BENCH_ENGINE, as root
#
# The engine is in a network namespace of its own. The command's `ssh` uses the key and the configuration of this run.
set -euo pipefail
cd "$(dirname "$0")/.."

usage() { sed -n '2,/^set/s/^# \{0,1\}//p' "$0" | sed '$d'; }

case "${1:-}" in
-h | --help)
    usage
    exit
    ;;
'' | -*)
    usage >&2
    exit 2
    ;;
esac
[ "$(id -u)" = 0 ] || { echo "remote_engine.sh: a second engine needs root" >&2; exit 1; }
./standalone/prepare.sh

folder=$(mktemp -d /var/tmp/flock-remote-XXXXXXXX)
running=()
end() {
    local process
    for process in "${running[@]}"; do
        kill "$process" 2>/dev/null && wait "$process" || true
    done
    rm -rf "$folder"
}
trap end EXIT

mkdir -p /run/sshd "$folder/bin"
for key in host own; do ssh-keygen -q -t ed25519 -N '' -f "$folder/$key"; done
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
cat >"$folder/sshd_config" <<END
Port $port
ListenAddress 127.0.0.1
HostKey $folder/host
AuthorizedKeysFile $folder/own.pub
PidFile none
StrictModes no
UsePAM no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin yes
AllowStreamLocalForwarding yes
END
cat >"$folder/ssh_config" <<END
Host *
  User root
  IdentityFile $folder/own
  IdentitiesOnly yes
  UserKnownHostsFile $folder/known
  GlobalKnownHostsFile /dev/null
END
echo "[127.0.0.1]:$port $(cat "$folder/host.pub")" >"$folder/known"
# shellcheck disable=SC2016
printf '#!/bin/sh\nexec /usr/bin/ssh -F %s "$@"\n' "$folder/ssh_config" >"$folder/bin/ssh"
chmod 755 "$folder/bin/ssh"
/usr/sbin/sshd -D -e -f "$folder/sshd_config" 2>"$folder/sshd.log" &
running+=($!)

echo '{"bridge": "none", "iptables": false, "ip-forward": false}' >"$folder/daemon.json"
# crun knows control groups of one version or the other, not both at once.
unshare --net --mount --propagation private sh -c "umount /sys/fs/cgroup/unified 2>/dev/null
    exec dockerd --config-file $folder/daemon.json --data-root $folder/data --exec-root $folder/exec \
        --pidfile $folder/pid --host unix://$folder/docker.sock" >"$folder/dockerd.log" 2>&1 &
running+=($!)
end_of_wait=$((SECONDS + 60))
until docker -H "unix://$folder/docker.sock" version >/dev/null 2>&1; do
    [ "$SECONDS" -lt "$end_of_wait" ] || { cat "$folder/dockerd.log" >&2; exit 1; }
    sleep 0.1
done
export PATH=$folder/bin:$PATH
FLOCK_BENCH_ENGINE=ssh://127.0.0.1:$port$folder/docker.sock "$@"
