#!/usr/bin/env bash
# Starts the harness once the engine of the host answers through the socket that was mounted.
set -euo pipefail
if [ ! -S /var/run/docker.sock ]; then
    echo "no Docker socket at /var/run/docker.sock: mount the host's" >&2
    echo "0 passed, 1 failed"
    exit 1
fi
# A run that was broken off leaves its home: the next one begins with none.
if [ -e "$FLOCK_HOME" ]; then
    flock uninstall --purge --yes >/dev/null 2>&1 || true
    rm -rf "$FLOCK_HOME"
fi
exec python3 -u /opt/flock-e2e/harness.py
