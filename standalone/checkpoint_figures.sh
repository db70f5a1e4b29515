#!/bin/sh
# Measures checkpoints and forks: a workspace of 50,000 files of which 20 changed, against `git status` in the same run; what a turn
# waits for its checkpoint; and a fork of an agent with 1 GB, on this file system and on an XFS image with reflinks. Needs git. The XFS
# part needs root and mkfs.xfs (package xfsprogs) and is left out without them. FLOCK_BINARY names a release build, otherwise one is made.
set -eu
cd "$(dirname "$0")/.."
if [ -z "${FLOCK_BINARY:-}" ]; then
    cargo build --locked --release
    FLOCK_BINARY=${CARGO_TARGET_DIR:-target}/release/flock
fi
FLOCK_BINARY=$(realpath "$FLOCK_BINARY")
export FLOCK_BINARY
exec python3 standalone/checkpoint_figures.py "$@"
