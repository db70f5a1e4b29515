#!/usr/bin/env bash
# The real OpenClaw: the published package and a Node that fits it, both from npm, installed out of a git repository,
# with agents that talk to a model which does what it is told, and sandboxes of a real Docker engine.
# Needs python3, git, Docker, npm's registry, 4 GB of disk and 1.5 GB of memory while it runs. npm's own cache makes the
# second time faster.
set -euo pipefail
cd "$(dirname "$0")/.."

# The versions that are checked against.
openclaw=openclaw@2026.9.6
about=OpenClaw
. standalone/stage.sh

# A machine that was made out of a container's image has this file without being a container. OpenClaw believes it, and
# then finds no source for any sandbox's mounts. So the whole test runs where everything but that file is to be seen;
# nothing else on the machine notices. In a real container OpenClaw can find itself by the engine.
if [ -e /.dockerenv ] && ! grep -qE '/containers/[0-9a-f]{64}/hostname ' /proc/self/mountinfo; then
    if [ "$(id -u)" != 0 ]; then
        echo "/.dockerenv makes OpenClaw refuse all sandboxes: run this as root, or remove that file" >&2
        exit 1
    fi
    root=$(mktemp -d /var/tmp/flock-openclaw-root-XXXXXXXX)
    trap 'rmdir "$root"' EXIT
    # The root comes last into the mounts that are made of what is below it, or there would be no end.
    # shellcheck disable=SC2016 # The inner shell's variables.
    FLOCK_BINARY=$binary unshare --mount --propagation slave bash -euc '
        root=$1
        mount -t tmpfs -o mode=0755 none "$root"
        mount --make-unbindable "$root"
        for entry in /* /.[!.]*; do
            if [ "$entry" = /.dockerenv ]; then continue
            elif [ -L "$entry" ]; then cp -P "$entry" "$root$entry"
            elif [ -d "$entry" ]; then mkdir "$root$entry" && mount --rbind "$entry" "$root$entry"
            elif [ -f "$entry" ]; then : >"$root$entry" && mount --bind "$entry" "$root$entry"
            fi
        done
        exec chroot "$root" "$2"
    ' - "$root" "$PWD/standalone/openclaw.sh"
    exit
fi

stage openclaw
step "$openclaw and $node from npm"
from_npm "$work/node" "$node"
export FLOCK_NODE=$work/node/node_modules/node/bin/node
mkdir "$work/package"
packed=$(cd "$work" && npm pack --silent "$openclaw")
tar -xzf "$work/$packed" -C "$work/package" --strip-components 1
rm "$work/$packed"

step "a git repository of it"
commit() { git -c user.name=flock -c user.email=flock@example.org commit --quiet -m "$1"; }
(
    cd "$work/package"
    git init --quiet --initial-branch main
    git config gc.auto 0
    # Each version is fetched from here and not over a network. To make it small takes most of a fetch's time.
    git config pack.window 0
    git config pack.compression 0
    git add --all --force
    commit "As it was published"
    git tag published
)

step "checks"
serve standalone/openclaw_model.py
python3 -u standalone/openclaw_checks.py "$work"
step "done"
