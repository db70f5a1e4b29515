#!/usr/bin/env bash
# Checks what flock is built from: licences, sources, wildcards in versions, and known advisories (deny.toml).
# Installs cargo-deny where it is not there yet.
#
# Advisories need RustSec's database. FLOCK_ADVISORY_DB names a clone of it (a folder or an address) to be used instead
# of the public one. Where no database answers, the copy of an earlier run is used; where there is none, the advisories
# are left out, which the last line says.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf 'audit: %s\n' "$*"; }
public=https://github.com/RustSec/advisory-db

if ! cargo deny --version >/dev/null 2>&1; then
    say "installing cargo-deny, which takes some minutes"
    # Not optimised: it runs for seconds, and would take three times as long to build.
    cargo install --locked --quiet --debug cargo-deny@0.20.2
fi

cargo deny --locked --log-level error check licenses bans sources

if [ -n "${FLOCK_ADVISORY_DB:-}" ]; then
    export GIT_CONFIG_COUNT=2
    export GIT_CONFIG_KEY_0="url.$FLOCK_ADVISORY_DB.insteadOf" GIT_CONFIG_VALUE_0=$public
    # A clone in a folder may belong to somebody else.
    export GIT_CONFIG_KEY_1=safe.directory GIT_CONFIG_VALUE_1='*'
fi
network=()
if ! GIT_TERMINAL_PROMPT=0 timeout 60 cargo deny --locked --log-level error fetch db 2>/dev/null; then
    copies=("${CARGO_HOME:-$HOME/.cargo}"/advisory-dbs/*/.git)
    if [ ! -e "${copies[0]}" ]; then
        say "advisories were not checked: no database answers at ${FLOCK_ADVISORY_DB:-$public}, and there is no copy of an earlier run"
        exit 0
    fi
    say "no database answers at ${FLOCK_ADVISORY_DB:-$public}: using the copy of $(git -C "${copies[0]%/.git}" log -1 --format=%cs)"
    network=(--offline)
fi
cargo deny "${network[@]}" --locked --log-level error check advisories
say "licences, sources and advisories were checked"
