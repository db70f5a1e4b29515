#!/usr/bin/env bash
# Other people's agents of the Agent Client Protocol as runtimes of flock: see ../acp/runtimes.sh.
exec bash "$(dirname "$0")/../acp/runtimes.sh" "$@"
