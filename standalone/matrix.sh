#!/usr/bin/env bash
# A bridge to the real Synapse, with people who use the client library matrix-nio: links, messages both ways, who is
# heard, mentions, long messages, archiving, pauses. Then gateway and homeserver are killed and restarted while people
# write on both sides, and what was acknowledged is compared with what is there. All on this machine's loopback.
# Needs python3 with venv, PyPI, 300 MB of disk and 200 MB of memory while it runs. No Docker engine is needed.
#
#   ./standalone/matrix.sh                               300 messages each way, 5 kills, 1 restart of the homeserver
#   ./standalone/matrix.sh --messages 10000 --kills 50 --restarts 10
#   ./standalone/matrix.sh --seed 7                      the same choices again
#   ./standalone/matrix.sh --picture docs/matrix.png     the picture of docs/bridges.md anew; see matrix_picture.py
#   ./standalone/matrix.sh --alone                       no flock: the homeserver and the people on their own
#   FLOCK_MATRIX=FOLDER keeps the installed programs there, for those who run this again and again.
#   FLOCK_KEEP=1 keeps the home of a run that failed.
set -euo pipefail
cd "$(dirname "$0")/.."

# The versions that are checked against.
packages=(matrix-synapse==1.163.2 matrix-nio==0.26.0)

. standalone/bridge_stage.sh
stage matrix "${FLOCK_MATRIX:-}" "$@"
with_python "${packages[@]}"
if [ "${1:-}" = --picture ]; then
    "${loopback[@]}" "$python" -u standalone/matrix_picture.py "$work/platform" "$(realpath -m "${2:?a file for the picture}")"
    exit
fi
"${loopback[@]}" "$python" -u standalone/matrix_checks.py "$work" "$@"
