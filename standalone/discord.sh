#!/usr/bin/env bash
# A bridge to a stand-in for Discord: links, messages both ways, who is heard, names, mentions, long messages, limits,
# broken connections, a revoked token. Then the gateway is killed and the stand-in restarted while people write on both
# sides, and what was acknowledged is compared with what is there. All on this machine's loopback.
# With --alone the stand-in itself is proven by the platform's own libraries: discord.py and discord.js live with it
# as bots. Needs python3 with venv and PyPI; for the libraries also npm's registry, and node 18 or newer, which is taken
# from npm if there is none.
#
#   ./standalone/discord.sh                                    300 messages each way, 5 kills, 1 restart of the stand-in
#   ./standalone/discord.sh --messages 10000 --kills 50 --restarts 10
#   ./standalone/discord.sh --seed 7                           the same choices again
#   ./standalone/discord.sh --alone                            no flock: the stand-in with the libraries
#   FLOCK_DISCORD=FOLDER keeps the installed packages there for the next time.
#   FLOCK_KEEP=1 keeps the home of a run.
set -euo pipefail
cd "$(dirname "$0")/.."

# The versions that are checked against. aiohttp and zstandard are the stand-in's own.
python_packages=(discord.py==2.7.1 aiohttp==3.14.5 zstandard==0.25.0)
node_packages=(discord.js@14.28.1)
node=node@24.21.0

is_alone=
[ "${1:-}" != --alone ] || is_alone=1
binary=$(realpath -m "${FLOCK_BINARY:-${CARGO_TARGET_DIR:-target}/release/flock}")
if [ -z "$is_alone" ] && [ ! -x "$binary" ]; then
    echo "no binary at $binary: cargo build --release" >&2
    exit 1
fi
work=$(mktemp -d /var/tmp/flock-discord-XXXXXXXX)
export FLOCK_BINARY=$binary FLOCK_HOME=$work/home FLOCK_NO_PROGRESS=1 PYTHONDONTWRITEBYTECODE=1
leave() {
    [ ! -x "$binary" ] || [ ! -d "$FLOCK_HOME" ] || "$binary" stop >/dev/null 2>&1 || true
    if [ -n "${FLOCK_KEEP:-}" ]; then echo "kept: $work"; else rm -rf "$work"; fi
}
trap leave EXIT
cache=${FLOCK_DISCORD:-$work/cache}
mkdir -p "$cache"

# An installed package appears at once and whole, so that two runs may share the folder.
if [ ! -d "$cache/python" ]; then
    python3 -m venv "$work/python"
    "$work/python/bin/pip" install --quiet --disable-pip-version-check "${python_packages[@]}"
    mv -T "$work/python" "$cache/python" 2>/dev/null || true
fi
if [ -z "$is_alone" ]; then
    mkdir "$work/platform"
    "$cache/python/bin/python" -u standalone/discord_bridge.py "$work/platform" "$@"
    exit
fi
if [ ! -d "$cache/packages" ]; then
    node -e 'process.exit(Number(process.versions.node.split(".")[0]) >= 18 ? 0 : 1)' 2>/dev/null || node_packages+=("$node")
    npm install --silent --no-audit --no-fund --no-save --prefix "$work/packages" "${node_packages[@]}"
    mv -T "$work/packages" "$cache/packages" 2>/dev/null || true
fi

# A module's imports are looked for beside it.
mkdir "$work/node" "$work/home"
cp standalone/discord_javascript.mjs "$work/node/"
ln -sfn "$cache/packages/node_modules" "$work/node/node_modules"
export PATH=$cache/packages/node_modules/node/bin:$PATH DISCORD_NODE=$work/node
"$cache/python/bin/python" -u standalone/discord_checks.py "$work/home" || {
    tail -n 40 "$work"/home/*.log >&2
    exit 1
}
