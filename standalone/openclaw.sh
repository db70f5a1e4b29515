#!/usr/bin/env bash
# The real OpenClaw: the published package and a Node that fits it, both from npm, installed out of a git repository,
# with agents that talk to a model which does what it is told, and sandboxes of a real Docker engine.
# Needs python3, git, Docker, npm's registry, 3 GB of disk and 1.5 GB of memory while it runs. npm's own cache makes the
# second time faster.
set -euo pipefail
cd "$(dirname "$0")/.."

# The versions that are checked against.
openclaw=openclaw@2026.9.6
node=node@24.21.0

binary=$(realpath -m "${FLOCK_BINARY:-${CARGO_TARGET_DIR:-target}/release/flock}")
[ -x "$binary" ] || { echo "no binary at $binary: cargo build --release" >&2; exit 1; }
if ! command -v npm >/dev/null; then
    echo "OpenClaw was left out: no npm here" >&2
    [ -z "${FLOCK_TEST_REQUIRE_NODE:-}" ] || exit 1
    exit 0
fi

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

work=$(mktemp -d /var/tmp/flock-openclaw-XXXXXXXX)
export FLOCK_HOME=$work/home FLOCK_NO_PROGRESS=1
model=
end() {
    local mark
    "$binary" stop >/dev/null 2>&1 || true
    [ -z "$model" ] || kill "$model" 2>/dev/null || true
    # What a run that failed half-way left: flock's containers have a label, OpenClaw's a name of this home's.
    mark=$(printf %s "$FLOCK_HOME" | sha256sum | cut -c1-8)
    {
        docker ps -aq --filter "label=flock.home=$FLOCK_HOME"
        docker ps -aq --filter "name=^flock-oc-$mark-"
    } 2>/dev/null | sort -u | xargs -r docker rm -f >/dev/null 2>&1 || true
    docker volume rm "flock-nix-$mark" >/dev/null 2>&1 || true
    docker images --format '{{.Repository}}:{{.Tag}}' 2>/dev/null | grep -- "^flock-.*-$mark\$" |
        xargs -r docker rmi >/dev/null 2>&1 || true
    rm -rf "$work"
}
trap end EXIT
step() { printf -- '-- %s (%ss)\n' "$*" "$SECONDS"; }

step "$openclaw and $node from npm"
npm install --silent --no-audit --no-fund --prefix "$work/node" "$node"
export FLOCK_NODE=$work/node/node_modules/node/bin/node
mkdir "$work/package" "$work/model"
packed=$(cd "$work" && npm pack --silent "$openclaw")
tar -xzf "$work/$packed" -C "$work/package" --strip-components 1
rm "$work/$packed"

step "a git repository of it"
commit() { git -c user.name=flock -c user.email=flock@example.org commit --quiet -m "$1"; }
(
    cd "$work/package"
    git init --quiet --initial-branch main
    git config gc.auto 0
    git add --all --force
    commit "As it was published"
    git tag published
)

step "checks"
python3 - "$work/model/keys.json" <<'END'
import json, os, secrets, sys
keys = {api: f"planted-{api}-{secrets.token_hex(16)}" for api in ("openai", "anthropic", "google")}
with os.fdopen(os.open(sys.argv[1], os.O_CREAT | os.O_WRONLY, 0o600), "w") as file:
    json.dump(keys, file)
END
python3 standalone/openclaw_model.py "$work/model" &
model=$!
FLOCK_BINARY=$binary python3 -u standalone/openclaw_checks.py "$work"
step "done"
