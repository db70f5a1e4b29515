#!/usr/bin/env bash
# The four agent programs, from npm, run by flock in sandboxes of a real Docker engine, with models that do what they
# are told.
# Needs python3, openssl, Docker, npm's registry, 3 GB of disk and 4 GB of memory while it runs, and as root also unshare
# of util-linux. npm's own cache makes the second time faster.
#
#   ./standalone/programs.sh             all four
#   ./standalone/programs.sh claude      one or more of them
#   ./standalone/programs.sh --effort    a part of the checks: how much models are to think. Others are --logs (what the
#                                        gateway's log says), --policy (what agents are not to have), --halts (time limit,
#                                        stop, kill, freeze and budget in the middle of turns), --quota (quotas that are
#                                        used up) and --talk, all the rest
#   ./standalone/programs.sh --short     of Gemini CLI and OpenCode, which start slowly, the first turns, policies and quotas
#   ./standalone/programs.sh --figures   what a turn takes, instead of checks
set -euo pipefail
cd "$(dirname "$0")/.."

# The versions that are checked against. With an older Node npm would choose an older Claude Code without a word.
declare -A packages=(
    [claude]=@anthropic-ai/claude-code@2.1.330
    [codex]=@openai/codex@0.169.0
    [gemini]=@google/gemini-cli@0.61.0
    [opencode]=opencode-ai@1.18.33
)
options=()
while [[ ${1:-} == --* ]]; do
    options+=("$1")
    shift
done
[ $# -gt 0 ] || set -- claude codex gemini opencode

about="The agent programs"
. standalone/stage.sh
stage programs

# A folder with installed programs, for those who run this again and again.
programs=${FLOCK_PROGRAMS:-$work/programs}
if [ ! -d "$programs/node_modules" ]; then
    wanted=()
    for name in "$@"; do wanted+=("${packages[$name]}"); done
    step "$node ${wanted[*]} from npm"
    from_npm "$programs" "$node"
    PATH=$programs/node_modules/node/bin:$PATH from_npm "$programs" "${wanted[@]}"
fi
mkdir "$work/bin"
ln -s "$programs/node_modules/node/bin/node" "$work/bin/node"
for name in "$@"; do ln -s "$(realpath "$programs/node_modules/.bin/$name")" "$work/bin/$name"; done
export PATH=$work/bin:$PATH

step "checks"
serve standalone/programs_model.py
mkdir "$work/user"
HOME=$work/user FLOCK_WORK=$work python3 -u standalone/programs_checks.py "${options[@]}" "$@"
step "done"
