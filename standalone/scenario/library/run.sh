#!/usr/bin/env bash
# A team at work on a real library: three wishes, from the repository to the branch that the owner gets, in the home FLOCK_HOME.
#
# The library is cachetools, from its source distribution on PyPI. The orchestrator gives the work to coder and architect: a bug with a
# test that fails, a feature in two halves that conflict, and a refactoring that its reviewer sends back because it loses old
# pickles. flock runs the library's tests on what would be merged, and only what passes is merged. With a provider's model in
# FLOCK_MODEL the agents think for themselves; without one each plays its script in scripts/. Models are put back in the end. A gateway
# that runs is used. FLOCK_LIBRARY names the source distribution if it is here already.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)

flock=${FLOCK_BINARY:-flock}
export FLOCK_HOME=${FLOCK_HOME:-$HOME/.flock}
model=${FLOCK_MODEL:-script/demo}
agents=(orchestrator architect coder)
case $model in
script/*) scripted=1 limit=180 ;;
*) scripted= limit=1800 ;;
esac

. "$here/../common.sh"

command -v git >/dev/null || fail "git is not installed"

with_project() { sed -e "s/PROJECT/$project/g" "$1"; }
submissions() { "$flock" project submissions "$project" --json 2>/dev/null; }
merged() { submissions | grep -c '"state": *"merged"'; }
has_merged() { [ "$(merged)" -ge "$1" ]; }
was_sent_back() { "$flock" project submissions "$project" | grep -q "$1"; }
wish() {
    echo
    echo "you to orchestrator: $1"
    "$flock" -q chat orchestrator "$1"
}

add architect production-first-developer
add coder code-first-developer

project=cachetools
number=1
while "$flock" project show "$project" >/dev/null 2>&1; do
    number=$((number + 1))
    project=cachetools-$number
done

# The owner's repository: what PyPI has, as its first commit.
work=$FLOCK_HOME/scripts/scenario-$project
rm -rf "$work"
mkdir -p "$work"
"$here/fetch.sh" "$work/library.tar.gz"
tar --no-same-owner -xzf "$work/library.tar.gz" -C "$work"
owner=$work/repository
mv "$work"/cachetools-* "$owner"
rm -rf "$work/library.tar.gz" "$owner"/src/*.egg-info
printf '__pycache__/\n' >"$owner/.gitignore"
as_owner() { git -C "$owner" -c user.name=owner -c user.email=owner@localhost "$@"; }
as_owner init -q -b main
as_owner add -A
as_owner commit -q -m "Begin with the source distribution"

if [ -n "$scripted" ]; then
    for agent in "${agents[@]}"; do
        with_project "$here/scripts/$agent.json" >"$FLOCK_HOME/scripts/scenario-library-$agent.json"
        for_now "agents.list[$agent].model.primary" "script/scenario-library-$agent.json"
    done
    echo "scripted: each agent plays its script, none is a model"
else
    for agent in "${agents[@]}"; do for_now "agents.list[$agent].model.primary" "$model"; done
fi
begin

"$flock" project add "$project" --repo "$owner" --check 'PYTHONPATH=src python3 -m unittest discover -s tests -t .' \
    --review agent --agent coder --agent architect

wish "In the project $project a bug: in a TLRUCache an expired value stays out, but the value that it replaces stays in: \
with the ttu function giving a time that has passed, cache[key] = value leaves the earlier value. So the old value of an \
expired value stays. Give it to coder: first a test that fails, then the change."
until_true "the change that mends the bug" has_merged 1

wish "In the project $project a feature, for coder and architect at the same time. coder: peek(key, default=None) reads an item \
without changing the order. architect: resize(maxsize) changes the limit, and removes items until the rest fits."
until_true "both halves of the feature" has_merged 3

wish "In the project $project a refactoring for coder: the timer of the time aware caches goes into a module of its own, \
cachetools._timer. Whatever users have must go on working."
until_true "the refactoring" has_merged 4

echo
"$flock" project submissions "$project"
if [ -n "$scripted" ]; then
    was_sent_back conflict || fail "no half of the feature conflicted"
    was_sent_back refused || fail "no reviewer sent anything back"
fi

echo
"$flock" project land "$project"
branch=flock/$project
echo
git -C "$owner" log --oneline --graph "$branch"

echo
"$flock" receipt list
receipt=$("$flock" receipt list --json | sed -n 's/^ *"id": *"\([0-9a-f]*\)".*/\1/p;' | sed -n 1p)
"$flock" verify "$receipt"
"$flock" audit --verify
echo "$branch has the three wishes. The receipt above was checked again: the library's tests pass on what you got."
