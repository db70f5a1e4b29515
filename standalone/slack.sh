#!/usr/bin/env bash
# A bridge to a stand-in for Slack: links, messages both ways, who is heard, mentions, threads, files, limits, scopes, breaks.
# Then gateway and stand-in are killed and restarted while people write on both sides, and what was acknowledged is
# compared with what is there. Before that, the stand-in is proven by Slack's own client libraries: a Bolt app
# (JavaScript) and slack_sdk (Python) run against it unchanged, as bots and as people.
# Needs python3 with venv, PyPI, node 20 or newer and npm's registry. Everything listens on loopback.
#
#   ./standalone/slack.sh                            300 messages each way, 5 kills, 1 restart of the stand-in
#   ./standalone/slack.sh --messages 10000 --kills 50 --restarts 10
#   ./standalone/slack.sh --only talk campaign       these parts of the bridge's checks, and no client libraries
#   ./standalone/slack.sh --alone                    no flock: the stand-in and the client libraries on their own
#   FLOCK_SLACK=FOLDER keeps the installed packages there, for those who run this again and again.
#   FLOCK_KEEP=1 keeps the home of a run that failed.
set -euo pipefail
cd "$(dirname "$0")/.."

binary=$(realpath -m "${FLOCK_BINARY:-${CARGO_TARGET_DIR:-target}/release/flock}")
if [[ " $* " != *" --alone "* ]] && [ ! -x "$binary" ]; then
    echo "no binary at $binary: cargo build --release" >&2
    exit 1
fi

# The versions that are checked against.
python_packages=(aiohttp==3.14.5 slack-sdk==3.48.0)
node_packages=(@slack/bolt@5.1.0 @slack/socket-mode@3.1.0 @slack/web-api@8.2.0 @slack/types@3.2.0 undici@7.30.2)

work=$(mktemp -d /var/tmp/flock-slack-XXXXXXXX)
export FLOCK_BINARY=$binary FLOCK_HOME=$work/home FLOCK_NO_PROGRESS=1
leave() {
    [ ! -x "$binary" ] || [ ! -d "$FLOCK_HOME" ] || "$binary" stop >/dev/null 2>&1 || true
    # The checks end what they started. Only a run that was killed leaves a server.
    for file in "$work"/*/pid; do [ ! -f "$file" ] || kill -KILL "$(cat "$file")" 2>/dev/null || true; done
    if [ -n "${FLOCK_KEEP:-}" ]; then echo "kept: $work"; else rm -rf "$work"; fi
}
trap leave EXIT

cache=${FLOCK_SLACK:-$work/cache}
mkdir -p "$cache"
# Two runs may share the folder.
exec 9>"$cache/lock"
flock 9
wanted="${python_packages[*]} ${node_packages[*]}"
if [ "$(cat "$cache/installed" 2>/dev/null)" != "$wanted" ]; then
    rm -rf "$cache/venv" "$cache/node"
    python3 -m venv "$cache/venv"
    # Wheels only: nothing is compiled.
    "$cache/venv/bin/pip" install --quiet --disable-pip-version-check --only-binary :all: "${python_packages[@]}"
    mkdir "$cache/node"
    (cd "$cache/node" && npm init --yes >/dev/null && npm install --silent --no-audit --no-fund --no-save "${node_packages[@]}")
    echo "$wanted" >"$cache/installed"
    echo "$wanted (${SECONDS} s)"
fi
exec 9>&-

# A module's imports are looked for beside it.
mkdir "$work/node"
ln -s "$cache/node/node_modules" "$work/node/node_modules"
cp standalone/slack_bolt.mjs "$work/node/"
# No proxy of this machine is to see loopback.
unset http_proxy https_proxy HTTP_PROXY HTTPS_PROXY all_proxy ALL_PROXY
export HOME=$work PYTHONDONTWRITEBYTECODE=1
run() { "$cache/venv/bin/python" -u standalone/slack_checks.py "$work" "$@"; }
if [[ " $* " != *" --only "* ]]; then run --alone; fi
if [[ " $* " != *" --alone "* ]]; then run "$@"; fi
