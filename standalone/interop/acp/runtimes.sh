#!/usr/bin/env bash
# Other people's agents of the Agent Client Protocol as runtimes of flock, each by `acp:COMMAND` and no code of its own:
# Qwen Code, pi, Nanocoder and Claude's adapter from npm, in sandboxes of a real Docker engine, with a model that does what it is told.
# Needs python3, Docker, node 20 or newer, npm's registry and 2 GB of disk. FLOCK_BINARY is the program.
#
#   ./standalone/interop/acp/runtimes.sh         all
#   ./standalone/interop/acp/runtimes.sh qwen    one or more of them
# FLOCK_INTEROP=FOLDER keeps the installed agents for the next time.
set -euo pipefail
cd "$(dirname "$0")/../../.."

# The versions that are checked against.
declare -A packages=(
    [qwen]=@qwen-code/qwen-code@0.24.4
    [pi]="pi-acp@0.0.34 @earendil-works/pi-coding-agent@1.5.2"
    [nanocoder]=@nanocollective/nanocoder@1.30.0
    [claude]=@agentclientprotocol/claude-agent-acp@0.101.0
)
[ $# -gt 0 ] || set -- qwen pi nanocoder claude

about="Other agents of ACP"
. standalone/stage.sh
stage acp-runtimes

agents=${FLOCK_INTEROP:-$work}/acp-agents
if [ ! -d "$agents/node_modules" ]; then
    wanted=()
    for name in "$@"; do
        read -ra one <<<"${packages[$name]}"
        wanted+=("${one[@]}")
    done
    step "$node ${wanted[*]} from npm"
    from_npm "$agents" "$node"
    PATH=$agents/node_modules/node/bin:$PATH from_npm "$agents" "${wanted[@]}"
fi
# As a person installs them: commands on PATH that lead into a folder of npm's packages.
export PATH=$agents/node_modules/node/bin:$agents/node_modules/.bin:$PATH
serve standalone/programs_model.py
FLOCK_WORK=$work python3 -u standalone/interop/acp/runtimes.py "$@"
