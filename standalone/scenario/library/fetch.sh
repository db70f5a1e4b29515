#!/usr/bin/env bash
# Fetches the source distribution of the library that the scenario works on to the path that is given, and checks that it is the
# one. PIP_INDEX_URL names another index than PyPI, FLOCK_LIBRARY a file that is here already, as is cachetools.tar.gz beside this.
set -euo pipefail

file=cachetools-5.3.2.tar.gz
sha256=086ee420196f7b2ab9ca2db2520aca326318b68fe5ba8bc4d49cca91add450f2
index=${PIP_INDEX_URL:-https://pypi.org/simple}

fail() { echo "the library $file: $*" >&2; exit 1; }

beside=$(dirname "$0")/cachetools.tar.gz
[ ! -f "$beside" ] || FLOCK_LIBRARY=${FLOCK_LIBRARY:-$beside}

if [ -n "${FLOCK_LIBRARY:-}" ]; then
    cp "$FLOCK_LIBRARY" "$1"
else
    command -v curl >/dev/null || fail "curl is not installed; FLOCK_LIBRARY names a file that you fetched yourself"
    page=$(curl -fsSL --retry 3 "$index/cachetools/") || fail "$index can't be reached; FLOCK_LIBRARY names a file that you fetched yourself"
    address=$(printf '%s' "$page" | grep -o "href=\"[^\"#]*/$file" | head -n 1 | cut -d '"' -f 2)
    [ -n "$address" ] || fail "$index does not have it"
    case $address in
    http*) ;;
    /*) address=$(printf '%s' "$index" | grep -o '^[a-z]*://[^/]*')$address ;;
    *) address=$index/cachetools/$address ;;
    esac
    curl -fsSL --retry 3 -o "$1" "$address" || fail "$address can't be fetched"
fi
echo "$sha256  $1" | sha256sum --check --status || fail "it is not the file that the scenario knows"
