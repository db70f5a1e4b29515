#!/usr/bin/env bash
# A PostgreSQL of its own, on loopback, which lives as long as a command does.
#
#   ./standalone/postgres.sh COMMAND…    runs COMMAND with the server's address in FLOCK_TEST_POSTGRES
#
# Installs Debian's package where there is none. As root, the server runs as the package's user.
set -euo pipefail
cd "$(dirname "$0")/.."

[ $# -gt 0 ] || { sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2; exit 2; }

programs() { find /usr/lib/postgresql -mindepth 2 -maxdepth 2 -name bin 2>/dev/null | sort -V | tail -n 1; }
bin=$(programs)
if [ -z "$bin" ]; then
    ./standalone/prepare.sh postgresql openssl
    bin=$(programs)
fi
[ -n "$bin" ] || { echo "postgres.sh: no PostgreSQL in /usr/lib/postgresql" >&2; exit 1; }

folder=$(mktemp -d /var/tmp/flock-postgres-XXXXXXXX)
as_server() {
    if [ "$(id -u)" = 0 ]; then setpriv --reuid postgres --regid postgres --init-groups --reset-env "$@"; else "$@"; fi
}
end() {
    if [ -f "$folder/data/postmaster.pid" ]; then as_server "$bin/pg_ctl" stop -D "$folder/data" -m immediate -s || true; fi
    rm -rf "$folder"
}
trap end EXIT
[ "$(id -u)" != 0 ] || chown postgres "$folder"

# A key of its own, so that connections are encrypted as they would be to another machine.
as_server openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -keyout "$folder/key.pem" \
    -out "$folder/certificate.pem" 2>/dev/null
as_server chmod 600 "$folder/key.pem"
as_server "$bin/initdb" -D "$folder/data" -U flock -A trust -E UTF8 --locale=C --no-sync >/dev/null
port=
# Between the search for a free port and its use, another process may take it.
for _ in 1 2 3 4 5; do
    port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
    # Nothing here has to survive a power cut.
    options="-p $port -c listen_addresses=127.0.0.1 -c unix_socket_directories=$folder -c max_connections=300 -c fsync=off"
    options+=" -c ssl=on -c ssl_cert_file=$folder/certificate.pem -c ssl_key_file=$folder/key.pem"
    if as_server "$bin/pg_ctl" start -D "$folder/data" -l "$folder/log" -w -s -o "$options"; then break; fi
    port=
done
[ -n "$port" ] || { cat "$folder/log" >&2; exit 1; }
FLOCK_TEST_POSTGRES=postgres://flock@127.0.0.1:$port/postgres "$@"
