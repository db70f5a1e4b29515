#!/usr/bin/env bash
# A bridge to a stand-in for Telegram's Bot API (telegram_server.py): links, messages both ways, who is heard, mentions,
# long messages, limits, topics, conflicts, revoked tokens. Then the gateway is killed and the stand-in restarted while
# people write on both sides, and what was acknowledged is compared with what is there. All on this machine's loopback.
# With --alone, the stand-in itself is proven by Telegram's client libraries grammy and python-telegram-bot, which run
# against it unchanged, and by requests of the checks' own; flock is not needed for that.
# Needs python3 with venv and PyPI; with --alone node 20 or newer and npm's registry, too.
#
#   ./standalone/telegram.sh                             300 messages each way, 5 kills, 1 restart of the stand-in
#   ./standalone/telegram.sh --messages 10000 --kills 50 --restarts 10
#   ./standalone/telegram.sh --seed 7                    the same choices again
#   ./standalone/telegram.sh --only talk topics          these parts, without the others
#   ./standalone/telegram.sh --alone                     the stand-in and the client libraries
#   FLOCK_TELEGRAM=FOLDER keeps the installed packages for the next time.
#   FLOCK_KEEP=1 keeps the home of a run that failed.
set -euo pipefail
cd "$(dirname "$0")/.."

# The versions that are checked against.
python_packages=(aiohttp==3.14.5 python-telegram-bot==22.8 httpx==0.28.1)
node_package=grammy@1.46.0

alone=
if [ "${1:-}" = --alone ]; then alone=yes; shift; fi
binary=$(realpath -m "${FLOCK_BINARY:-${CARGO_TARGET_DIR:-target}/release/flock}")
if [ ! "$alone" ] && [ ! -x "$binary" ]; then
    echo "no binary at $binary: cargo build --release" >&2
    exit 1
fi
work=$(mktemp -d /var/tmp/flock-telegram-XXXXXXXX)
export FLOCK_BINARY=$binary FLOCK_HOME=$work/home FLOCK_NO_PROGRESS=1 PYTHONDONTWRITEBYTECODE=1
leave() {
    [ "$alone" ] || [ ! -d "$FLOCK_HOME" ] || "$binary" stop >/dev/null 2>&1 || true
    if [ -n "${FLOCK_KEEP:-}" ]; then echo "kept: $work"; else rm -rf "$work"; fi
}
trap leave EXIT

kept=${FLOCK_TELEGRAM:-$work}/cache
# Of two runs that install at once, the second finds the folder there and uses it.
keep() { mv -T "$1" "$2" 2>/dev/null || [ -d "$2" ]; }
named() { sha256sum <<<"$*" | cut -c-12; }
mkdir -p "$kept"
python=$kept/python-$(named "${python_packages[*]}")
if [ ! -d "$python" ]; then
    # Python's venv works where it was moved to, except for the scripts in its bin folder.
    python3 -m venv "$work/python"
    "$work/python/bin/pip" install --quiet --disable-pip-version-check "${python_packages[@]}"
    keep "$work/python" "$python"
fi
if [ ! "$alone" ]; then
    HOME=$work "$python/bin/python" -u standalone/telegram_checks.py "$work" "$@"
    exit
fi

node=$kept/node-$(named "$node_package")
if [ ! -d "$node" ]; then
    mkdir "$work/modules"
    (cd "$work/modules" && npm init --yes >/dev/null && npm install --silent --no-audit --no-fund "$node_package")
    keep "$work/modules" "$node"
fi
# A module's imports are looked for beside it.
mkdir -p "$work/node" "$work/home"
ln -s "$node/node_modules" "$work/node/node_modules"
cp standalone/telegram_bot.mjs "$work/node/"
"$python/bin/python" -u standalone/telegram_libraries.py "$work"
