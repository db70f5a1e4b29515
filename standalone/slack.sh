#!/usr/bin/env bash
# A bridge to a stand-in for Slack: links, messages both ways, who is heard, mentions, threads, files, limits, scopes, breaks.
# Then gateway and stand-in are killed and restarted while people write on both sides, and what was acknowledged is
# compared with what is there. Everything listens on loopback.
# With --alone the stand-in itself is proven by Slack's own client libraries: a Bolt app (JavaScript) and slack_sdk
# (Python) run against it unchanged, as bots and as people.
# Needs python3 with venv and PyPI; with --alone node 20 or newer and npm's registry, too.
#
#   ./standalone/slack.sh                            300 messages each way, 5 kills, 1 restart of the stand-in
#   ./standalone/slack.sh --messages 10000 --kills 50 --restarts 10
#   ./standalone/slack.sh --only talk campaign       these parts, without the others
#   ./standalone/slack.sh --alone                    no flock: the stand-in and the client libraries on their own
#   FLOCK_SLACK=FOLDER keeps the installed packages there, for those who run this again and again.
#   FLOCK_KEEP=1 keeps the home of a run that failed.
set -euo pipefail
cd "$(dirname "$0")/.."

# The versions that are checked against.
python_packages=(aiohttp==3.14.5 slack-sdk==3.48.0)
node_packages=(@slack/bolt@5.1.0 @slack/socket-mode@3.1.0 @slack/web-api@8.2.0 @slack/types@3.2.0 undici@7.30.2)

. standalone/bridge_stage.sh
stage slack "${FLOCK_SLACK:-}" "$@"
with_python "${python_packages[@]}"
[ -z "$is_alone" ] || with_node slack_bolt.mjs "${node_packages[@]}"
"${loopback[@]}" "$python" -u standalone/slack_checks.py "$work" "$@"
