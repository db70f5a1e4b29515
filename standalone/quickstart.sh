#!/usr/bin/env bash
# From a clone to an agent that wrote and ran a program in its sandbox, to a team that did a project, and to one that worked on a
# real library, in one command.
#
# Builds flock, installs it to ~/.local/bin (FLOCK_PREFIX changes that), and runs the main job in a home of
# its own, ~/.flock unless FLOCK_HOME says otherwise. With FLOCK_BINARY, the path of an installed flock, nothing is built
# or installed. With a provider's key in the environment a real model does the work; without one, flock replays a
# scripted conversation and labels it as scripted.
set -euo pipefail
cd "$(dirname "$0")/.."

step() { printf '\n\033[1m== %s\033[0m\n' "$*"; }

prefix=${FLOCK_PREFIX:-$HOME/.local}
export FLOCK_HOME=${FLOCK_HOME:-$HOME/.flock}

[ -n "${FLOCK_BINARY:-}" ] || command -v cargo >/dev/null || { echo "Rust is not installed: see https://rustup.rs" >&2; exit 1; }

step "What flock needs"
prepared=0
./standalone/prepare.sh || prepared=$?
if [ "$prepared" = 9 ] && [ -z "${FLOCK_QUICKSTART_AGAIN:-}" ]; then
    # The engine's group is new to this user: go on in a shell that has it.
    export FLOCK_QUICKSTART_AGAIN=1
    exec sg docker -c "$(printf '%q' "$PWD/standalone/quickstart.sh")"
fi
[ "$prepared" = 0 ] || exit "$prepared"

if [ -n "${FLOCK_BINARY:-}" ]; then
    flock=$(realpath "$FLOCK_BINARY")
    echo "using $("$flock" --version) at $flock"
else
    step "Build"
    cargo build --release --locked
    mkdir -p "$prefix/bin"
    install -m 0755 "${CARGO_TARGET_DIR:-target}/release/flock" "$prefix/bin/flock"
    flock="$prefix/bin/flock"
    echo "installed $("$flock" --version) to $flock"
    case ":$PATH:" in
    *":$prefix/bin:"*)
        first=$(command -v flock || true)
        [ "$first" = "$flock" ] || echo "note: 'flock' is $first here; put $prefix/bin first on PATH to get this one"
        ;;
    *) echo "note: $prefix/bin is not on PATH; add it to use 'flock' by name" ;;
    esac
fi

if [ -n "${FLOCK_MODEL:-}" ]; then model=$FLOCK_MODEL
elif [ -n "${ANTHROPIC_API_KEY:-}" ]; then model=anthropic/claude-opus-4-5
elif [ -n "${OPENAI_API_KEY:-}" ]; then model=openai/gpt-5
elif [ -n "${OPENROUTER_API_KEY:-}" ]; then model=openrouter/anthropic/claude-sonnet-4.5
else model=script/demo
fi

# Whatever happens, nothing of this run stays behind running.
trap '"$flock" stop >/dev/null 2>&1 || true' EXIT

step "flock init --model $model"
"$flock" init --yes --model "$model"

step "flock add coder"
if "$flock" list --json | grep -q '"id": *"coder"'; then
    echo "coder is there already"
else
    "$flock" add coder --model "$model"
fi

step "flock start"
"$flock" start

step "flock chat coder"
"$flock" chat coder "Write FizzBuzz for 1 to 15 in Python to fizzbuzz.py in your workspace, run it in your sandbox, and report what it printed."

step "A team's project, from your wish to the archived channel"
FLOCK_BINARY=$flock FLOCK_MODEL=$model ./standalone/scenario/run.sh

step "A team on a real library: a bug, a feature in two halves, a refactoring"
FLOCK_BINARY=$flock FLOCK_MODEL=$model ./standalone/scenario/library/run.sh

step "flock status"
"$flock" status

step "flock stop"
"$flock" stop
trap - EXIT

# The name to type, where that leads to this program: Debian's own `flock` is util-linux's.
name=$flock
found=$(command -v flock || true)
[ -z "$found" ] || [ "$(realpath "$found")" != "$(realpath "$flock")" ] || name=flock

cat <<END

Done. The program is $FLOCK_HOME/workspaces/coder/fizzbuzz.py, and what it printed is in output.txt beside it.
Read again what the team said with '$name channel list --all' and '$name channel read fizzbuzz-project'.
What the team did to the library is the branch flock/cachetools of $FLOCK_HOME/scripts/scenario-cachetools/repository;
'$name project show cachetools' has its checks and reviews.
Next: '$name start', then '$name chat coder', or any OpenAI client at the URL that start prints.
END
