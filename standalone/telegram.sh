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
node_packages=(grammy@1.46.0)

. standalone/bridge_stage.sh
stage telegram "${FLOCK_TELEGRAM:-}" "$@"
with_python "${python_packages[@]}"
if [ -z "$is_alone" ]; then
    "${loopback[@]}" "$python" -u standalone/telegram_checks.py "$work" "$@"
    exit
fi

with_node telegram_bot.mjs "${node_packages[@]}"
"${loopback[@]}" "$python" -u standalone/telegram_libraries.py "$work"
