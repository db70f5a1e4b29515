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

. standalone/bridge_stage.sh
stage discord "${FLOCK_DISCORD:-}" "$@"
with_python "${python_packages[@]}"
if [ -z "$is_alone" ]; then
    mkdir "$work/platform"
    "${loopback[@]}" "$python" -u standalone/discord_bridge.py "$work/platform" "$@"
    exit
fi

has_node 18 || node_packages+=("$node")
with_node discord_javascript.mjs "${node_packages[@]}"
mkdir "$work/home"
DISCORD_NODE=$work/node "${loopback[@]}" "$python" -u standalone/discord_checks.py "$work/home" || {
    tail -n 40 "$work"/home/*.log >&2
    exit 1
}
