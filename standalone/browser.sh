#!/usr/bin/env bash
# The dashboard in a real browser: signing in and out, what other web pages and other people may do, each page with its
# live parts, keyboard and screen readers, hostile texts, and a gateway that is killed while people write. A home of its
# own has agents that play scripts, so neither a model nor a Docker engine is needed. All on this machine's loopback.
# Needs npm and its registry. Chromium and fonts are installed from Debian's packages where they are missing.
#
#   ./standalone/browser.sh                      all checks, with 60 messages and 5 kills
#   ./standalone/browser.sh --short              no Lighthouse, and axe on each page with each theme at one width
#   ./standalone/browser.sh --only team access   these parts, without the others
#   ./standalone/browser.sh --messages 1000 --kills 50
#   ./standalone/browser.sh --pictures FOLDER    no checks: pictures of all pages, at three widths and in both themes
#   ./standalone/browser.sh --figures            no checks: the dashboard's figures with their limits; 1 if one is missed
#   ./standalone/browser.sh --figures --small    the same with little data, to try the measurements themselves
#   ./standalone/browser.sh --figures --only paint scroll   some figures, each measured 5 times; --rounds N for another number
#   FLOCK_BROWSER=FOLDER keeps the installed packages of npm for the next time.
#   FLOCK_KEEP=1 keeps the home of a run that failed.
set -euo pipefail
cd "$(dirname "$0")/.."

# The versions that are checked against. Chromium is the one of the Debian that this runs on.
node_packages=(playwright-core@1.65.1 axe-core@4.14.1)
lighthouse=lighthouse@13.5.0
node=node@24.21.0
# With fonts for the letters that the checks write.
debian_packages=(chromium fonts-dejavu-core fonts-noto-cjk)

. standalone/bridge_stage.sh

with_chromium() {
    local root=() missing=() package
    for package in "${debian_packages[@]}"; do
        dpkg-query --show --showformat '${db:Status-Status}' "$package" 2>/dev/null | grep -qx installed || missing+=("$package")
    done
    [ "${#missing[@]}" -gt 0 ] || return 0
    # A Chromium from elsewhere does as well, with whatever fonts are there.
    ! command -v chromium >/dev/null || [[ " ${missing[*]} " != *" chromium "* ]] || return 0
    command -v apt-get >/dev/null || { echo "needs ${missing[*]}; install them and run this again" >&2; exit 1; }
    [ "$(id -u)" = 0 ] || root=(sudo -E)
    # Of two runs at once, the second waits until the first has installed them.
    {
        "${root[@]}" apt-get update -qq || true
        DEBIAN_FRONTEND=noninteractive "${root[@]}" apt-get install -y -qq --no-install-recommends \
            -o DPkg::Lock::Timeout=600 "${missing[@]}" </dev/null
    } >"$work/apt.log" 2>&1 || { tail -n 30 "$work/apt.log" >&2; exit 1; }
    echo "${missing[*]} from Debian (${SECONDS} s)"
}

is_given() { [[ " $arguments " == *" $1 "* ]]; }

# Lighthouse and the Node that it needs take long to install.
uses_lighthouse() {
    # All figures are measured with the same Node.
    if is_given --figures; then return; fi
    if is_given --only; then is_given audits; else ! is_given --short && ! is_given --pictures; fi
}

if [ "${1:-}" = --pictures ]; then
    set -- --pictures "$(realpath -m "${2:?a folder for the pictures}")"
fi

arguments=$*
program=browser_checks.mjs
! is_given --figures || program=browser_figures.mjs
if uses_lighthouse; then
    node_packages+=("$lighthouse" "$node")
elif ! has_node 20; then
    # The least for Playwright.
    node_packages+=("$node")
fi

stage browser "${FLOCK_BROWSER:-}" "$@"
with_chromium
with_node "$program" "${node_packages[@]}"
cp standalone/browser_*.mjs "$work/node/"
# Where Chromium keeps its profiles.
mkdir "$work/profiles"
"${loopback[@]}" TMPDIR="$work/profiles" node "$work/node/$program" "$@"
