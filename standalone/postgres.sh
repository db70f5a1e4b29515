#!/usr/bin/env bash
# A PostgreSQL of its own, on loopback, which lives as long as a command does.
#
#   ./standalone/postgres.sh COMMAND…               runs COMMAND with the server's address in FLOCK_TEST_POSTGRES
#   ./standalone/postgres.sh --durable COMMAND…     the same with a server that waits for its disk, to measure it
#   ./standalone/postgres.sh --replica COMMAND…     the same with a synchronous replica too, for which every commit waits
#   ./standalone/postgres.sh --guarantees           runs the store's tests and the most important ones of the suite on it
#   ./standalone/postgres.sh --guarantees --whole   runs all unit tests and the whole suite on it
#
# Homes of the suite sign in with a password, as a role that is no superuser; FLOCK_TEST_POSTGRES_ROLE has both.
# Installs Debian's package where there is none. As root, the server runs as the package's user.
set -euo pipefail
cd "$(dirname "$0")/.."

usage() { sed -n '2,/^set/s/^# \{0,1\}//p' "$0"; }

# What a team may least lose when its database moves: messages and who was given them, requests, tokens, people, what several
# gateways share, and all of it after kills. All other promises have the same tests, which --whole runs.
chosen=(
    home_move scale::
    agent::delivery::
    faults::a_kill_at_any_moment faults::database::
    gateway::people:: gateway::replaced:: gateway::tokens::
    team::channels:: team::gateways:: team::requests::
)

# Unit tests with "store::" in their names that have nothing to do on the server: those of the package store, and those of
# what only SQLite has (OF_SQLITE in src/store/testing.rs). Moves between the two databases are there too, and stay in.
elsewhere=(nix_store:: store::sqlite:: store::tests:: store::writer:: store::location:: store::agent_rename::)

durable=
replica=
case "${1:-}" in
--durable) durable=1; shift ;;
--replica) durable=1; replica=1; shift ;;
esac
case "${1:-}" in
--guarantees)
    [ $# -le 2 ] && [ "${2:---whole}" = --whole ] || { usage >&2; exit 2; }
    export FLOCK_TEST_REQUIRE_POSTGRES=1
    # A test's name is that of its thread, and with one thread for all of them there is none. The suite's wait for leases that
    # have to run out, so twice as many of them run at once.
    export RUST_TEST_THREADS=${RUST_TEST_THREADS:-$(($(nproc) + 1))}
    suite="RUST_TEST_THREADS=$((2 * RUST_TEST_THREADS)) cargo test --locked --test suite"
    if [ $# -eq 2 ]; then
        set -- bash -c "cargo test --locked --lib && $suite"
    else
        set -- bash -c "cargo test --locked --lib -- store:: ${elsewhere[*]/#/--skip } && $suite -- \"\$@\"" tests "${chosen[@]}"
    fi
    ;;
-h | --help)
    usage
    exit
    ;;
'' | -*)
    usage >&2
    exit 2
    ;;
esac

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
    local data
    for data in "$folder/replica" "$folder/data"; do
        if [ -f "$data/postmaster.pid" ]; then as_server "$bin/pg_ctl" stop -D "$data" -m immediate -s || true; fi
    done
    rm -rf "$folder"
}
trap end EXIT
[ "$(id -u)" != 0 ] || chown postgres "$folder"

# A key of its own, so that connections are encrypted as they would be to another machine.
as_server openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -keyout "$folder/key.pem" \
    -out "$folder/certificate.pem" 2>/dev/null
as_server chmod 600 "$folder/key.pem"
as_server "$bin/initdb" -D "$folder/data" -U flock -A trust -E UTF8 --locale=C --no-sync >/dev/null
# Only this role is asked for a password.
password=$(python3 -c 'import secrets; print(secrets.token_hex(16))')
as_server sed -i '1i host all flock_home all scram-sha-256' "$folder/data/pg_hba.conf"
# Starts the server of a folder on a free port, which is then in `port`.
start() {
    local data=$1 options
    shift
    # Between the search for a free port and its use, another process may take it.
    for _ in 1 2 3 4 5; do
        port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
        options="-p $port -c listen_addresses=127.0.0.1 -c unix_socket_directories=$folder -c max_connections=300"
        options+=" -c ssl=on -c ssl_cert_file=$folder/certificate.pem -c ssl_key_file=$folder/key.pem $*"
        # Nothing has to survive a power cut, unless what that costs is measured. Each test makes all tables and removes them.
        [ -n "$durable" ] || options+=" -c fsync=off -c full_page_writes=off -c autovacuum=off -c wal_level=minimal -c max_wal_senders=0 -c max_wal_size=4GB"
        if as_server "$bin/pg_ctl" start -D "$data" -l "$data.log" -w -s -o "$options"; then return; fi
    done
    cat "$data.log" >&2
    exit 1
}
ask() { "$bin/psql" -q -At -v ON_ERROR_STOP=1 -h 127.0.0.1 -p "$port" -U flock -d postgres -c "$1"; }
# Commits wait for a replica only while it streams under the name that the primary waits for.
is_followed() { [ "$(ask 'SELECT sync_state FROM pg_stat_replication')" = sync ]; }
parameters=
if [ -n "$replica" ]; then
    as_server sed -i '1i host replication flock 127.0.0.1/32 trust' "$folder/data/pg_hba.conf"
    start "$folder/data" -c synchronous_standby_names=replica
    primary=$port
    as_server "$bin/pg_basebackup" -D "$folder/replica" -R -d "host=127.0.0.1 port=$primary user=flock application_name=replica"
    start "$folder/replica"
    port=$primary
    for _ in {1..100}; do
        is_followed && break
        sleep 0.1
    done
    is_followed || { cat "$folder/replica.log" >&2; exit 1; }
    # Otherwise flock has only decisions wait.
    parameters='?options=-c%20synchronous_commit%3Don'
else
    start "$folder/data"
fi
ask "CREATE ROLE flock_home LOGIN PASSWORD '$password'; GRANT CREATE ON DATABASE postgres TO flock_home"
FLOCK_TEST_POSTGRES=postgres://flock@127.0.0.1:$port/postgres$parameters FLOCK_TEST_POSTGRES_ROLE=flock_home:$password "$@"
