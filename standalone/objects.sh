#!/usr/bin/env bash
# Real servers with the API of S3, which live as long as the tests that use them: moto from PyPI, which knows conditions, and
# s3rver from npm, which checks signatures by code of its own.
#
#   ./standalone/objects.sh              both
#   ./standalone/objects.sh moto         one of them
#   FLOCK_OBJECTS=FOLDER                 keeps the installed programs there
#
# Needs python3 with venv and PyPI, npm for s3rver, and what a test build needs. Without npm, s3rver is left out.
set -euo pipefail
cd "$(dirname "$0")/.."
. standalone/python.sh

# The versions that are checked against.
moto='moto[server]==5.2.5'
s3rver=s3rver@3.7.1

servers=("$@")
[ $# -gt 0 ] || servers=(moto s3rver)
folder=$(mktemp -d /var/tmp/flock-objects-XXXXXXXX)
programs=${FLOCK_OBJECTS:-$folder/programs}
mkdir -p "$programs"
pid=
end() {
    [ -z "$pid" ] || kill "$pid" 2>/dev/null || true
    rm -rf "$folder"
}
trap end EXIT

free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }

# Waits until a server answers, whatever it says.
answers() {
    local tries=0
    until curl -s -o /dev/null "http://127.0.0.1:$1/"; do
        kill -0 "$pid" 2>/dev/null || { cat "$folder/log" >&2; exit 1; }
        tries=$((tries + 1))
        [ "$tries" -lt 300 ] || { echo "objects.sh: the server does not answer" >&2; cat "$folder/log" >&2; exit 1; }
        sleep 0.1
    done
}

run_tests() {
    FLOCK_TEST_REQUIRE_S3=1 FLOCK_TEST_S3=$1 cargo test --locked --test suite -- storage::s3::a_real_server
    kill "$pid"
    wait "$pid" 2>/dev/null || true
    pid=
}

for server in "${servers[@]}"; do
    port=$(free_port)
    case $server in
    moto)
        [ -x "$programs/python/bin/moto_server" ] || {
            new_venv "$programs/python" "$moto"
        }
        "$programs/python/bin/moto_server" -H 127.0.0.1 -p "$port" >"$folder/log" 2>&1 &
        pid=$!
        answers "$port"
        # It does not check signatures, so the bucket is made without one.
        curl -fsS -o /dev/null -X PUT "http://127.0.0.1:$port/team"
        run_tests "http://standin:standin-secret@127.0.0.1:$port/team"
        ;;
    s3rver)
        command -v npm >/dev/null || { echo "objects.sh: no npm here, so s3rver is left out" >&2; continue; }
        [ -x "$programs/node/node_modules/.bin/s3rver" ] ||
            npm install --silent --no-audit --no-fund --prefix "$programs/node" "$s3rver"
        mkdir -p "$folder/s3rver"
        # The marks of its pages are made with a cipher that OpenSSL 3 keeps for old programs.
        NODE_OPTIONS=--openssl-legacy-provider "$programs/node/node_modules/.bin/s3rver" --address 127.0.0.1 --port "$port" --directory "$folder/s3rver" \
            --configure-bucket team >"$folder/log" 2>&1 &
        pid=$!
        answers "$port"
        # Its only access key. It knows no conditions for writing.
        FLOCK_TEST_S3_WITHOUT_CONDITIONS=1 run_tests "http://S3RVER:S3RVER@127.0.0.1:$port/team"
        ;;
    *)
        echo "objects.sh: no server '$server'; there are: moto s3rver" >&2
        exit 2
        ;;
    esac
done
