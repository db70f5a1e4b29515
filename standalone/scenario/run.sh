#!/usr/bin/env bash
# A team at work, from a person's wish to an archived channel, in the home FLOCK_HOME.
#
# The orchestrator makes a channel, architect plans, coder asks for a package, writes and runs a program, and the
# channel is archived once every agent in it has said that it is ready. With a provider's model in FLOCK_MODEL the
# agents think for themselves; without one each plays its script in scripts/, and the package comes from flake/.
# Agents that are missing are added; models and the flake are put back in the end. A gateway that runs is used. If it is in a
# group, FLOCK_OTHER_HOMES names the homes of the other gateways, of which one may have the coder and its packages.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)

flock=${FLOCK_BINARY:-flock}
export FLOCK_HOME=${FLOCK_HOME:-$HOME/.flock}
model=${FLOCK_MODEL:-script/demo}
agents=(orchestrator architect coder sysadmin)
case $model in
script/*) scripted=1 package=count limit=120 ;;
*) scripted= package=lua limit=900 ;;
esac
flake=plugins.entries.flock.config.nix.flake
output=$FLOCK_HOME/workspaces/coder/output.txt

. "$here/common.sh"

in_channel() { "$flock" channel read "$channel" -n 200 --json 2>/dev/null; }
there() { in_channel >/dev/null; }
is_over() { in_channel | grep -q '"content": *"CLOSED: '; }
is_archived() { in_channel | grep -q '^ *"state": *"archived"'; }
wanted() {
    local number word
    for number in $(seq 30); do
        word=
        [ $((number % 3)) = 0 ] && word=Fizz
        [ $((number % 5)) = 0 ] && word=${word}Buzz
        echo "${word:-$number}"
    done
}
is_right() { [ -f "$output" ] && diff -q <(wanted) "$output" >/dev/null; }
has_package() {
    local home
    for home in "$FLOCK_HOME" ${FLOCK_OTHER_HOMES:-}; do
        FLOCK_HOME=$home "$flock" nix list coder --json | grep -q "\"name\": *\"$package\"" && return
    done
    return 1
}
text() { sed -e "s/CHANNEL/$channel/g" -e "s/PACKAGE/$package/g" "$1"; }

add architect production-first-developer
add coder code-first-developer

# A channel's name is taken for good.
channel=fizzbuzz-project
number=1
while there; do
    number=$((number + 1))
    channel=fizzbuzz-project-$number
done

rm -f "$output"
if [ -n "$scripted" ]; then
    mkdir -p "$FLOCK_HOME/scripts"
    for agent in "${agents[@]}"; do
        text "$here/scripts/$agent.json" >"$FLOCK_HOME/scripts/scenario-$agent.json"
        for_now "agents.list[$agent].model.primary" "script/scenario-$agent.json"
    done
    # The same place from every clone: a package that comes from elsewhere is another package.
    mkdir -p "$FLOCK_HOME/scripts/scenario-flake"
    cp "$here/flake/flake.nix" "$FLOCK_HOME/scripts/scenario-flake/"
    for_now "$flake" "path:$FLOCK_HOME/scripts/scenario-flake"
    echo "scripted: each agent plays its script, none is a model"
else
    for agent in "${agents[@]}"; do for_now "agents.list[$agent].model.primary" "$model"; done
fi

begin

echo "you to orchestrator: $(text "$here/ask.txt")"
"$flock" chat orchestrator "$(text "$here/ask.txt")"
until_true "the channel $channel" there

echo
"$flock" -q channel read "$channel" -f &
reader=$!
until_true "an output.txt with the 30 lines of FizzBuzz" is_right
[ -z "$scripted" ] || until_true "the orchestrator's last word" is_over
has_package || fail "coder has no package $package"

# Printed whole: a streamed answer would have lines of the reader in its middle.
said=$("$flock" -q chat orchestrator "$(text "$here/archive.txt")")
printf '%s\n' "$said"
until_true "the archived channel" is_archived
kill "$reader" 2>/dev/null || true
wait "$reader" 2>/dev/null || true
reader=

echo
"$flock" approvals list --all
"$flock" audit --verify
echo "output.txt has the 30 right lines, coder has the package $package, and #$channel is archived."
