#!/usr/bin/env bash
# What bridges have to reach, measured: how soon a post is on the platform, how soon an agent begins its turn after a
# message, what four connected bridges cost an idle gateway, and how long it takes from nothing to the first messages.
# The platforms are a real Synapse and the stand-ins for Discord, Slack and Telegram, all on this machine's loopback.
# It only measures, so it is no part of test.sh. Needs python3 with venv, PyPI, and about five minutes on a quiet machine.
#
#   ./standalone/bridge_figures.sh                       all of it
#   ./standalone/bridge_figures.sh --only first idle     parts: first idle posts turns
#   ./standalone/bridge_figures.sh --posts 2000 --turns 400
#   FLOCK_FIGURES=FOLDER keeps the installed programs there, for those who run this again and again.
#   FLOCK_KEEP=1 keeps the home.
set -euo pipefail
cd "$(dirname "$0")/.."

# Those of matrix.sh, and what the stand-ins need. They are together because one process drives all platforms.
packages=(matrix-synapse==1.163.2 matrix-nio==0.26.0 aiohttp==3.14.5 zstandard==0.25.0)

. standalone/bridge_stage.sh
stage figures "${FLOCK_FIGURES:-}"
with_python "${packages[@]}"
"${loopback[@]}" "$python" -u standalone/bridge_figures.py "$work" "$@"
