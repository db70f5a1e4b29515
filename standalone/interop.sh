#!/usr/bin/env bash
# Other people's clients against a running gateway, and other people's agents in its sandboxes. Each part is a folder of
# standalone/interop/ with a script `run.sh`, which installs what it needs in pinned versions, plays the model with a
# script, and ends with the line `N passed, N failed`. Needs python3 with venv, node 20 or newer, Docker, PyPI and npm's
# registry.
#
#   ./standalone/interop.sh                  all parts
#   ./standalone/interop.sh --only PART…     these parts
#   ./standalone/interop.sh --short          all but other people's agents, both benchmarks, and five of ten MCP servers
#   ./standalone/interop.sh --parts          the names of the parts
#   FLOCK_INTEROP=FOLDER keeps the installed packages for the next time.
set -uo pipefail
cd "$(dirname "$0")/.."

mapfile -t parts < <(cd standalone/interop && for script in */run.sh; do echo "${script%/run.sh}"; done)
case "${1:-}" in
'') ;;
--short)
    mapfile -t parts < <(printf '%s\n' "${parts[@]}" | grep -vxE 'acp-agents|agentdojo|guardbench')
    export FLOCK_INTEROP_SHORT=1
    ;;
--parts)
    printf '%s\n' "${parts[@]}"
    exit
    ;;
--only)
    shift
    [ $# -gt 0 ] || { echo "interop.sh: --only needs a part: ${parts[*]}" >&2; exit 2; }
    for part in "$@"; do
        [ -f "standalone/interop/$part/run.sh" ] || { echo "interop.sh: no part '$part'; there are: ${parts[*]}" >&2; exit 2; }
    done
    parts=("$@")
    ;;
*)
    sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2
    exit 2
    ;;
esac

passed=0 failed=0
printed=$(mktemp -d /var/tmp/flock-interop-XXXXXXXX)
trap 'rm -rf "$printed"' EXIT
# Beside each other, since most of their time is spent on downloads. Each has its own home and ports.
pids=()
for part in "${parts[@]}"; do
    (code=0; bash "standalone/interop/$part/run.sh" || code=$?; echo "$SECONDS" >"$printed/$part.end"; exit "$code") >"$printed/$part" 2>&1 &
    pids+=($!)
done
for at in "${!parts[@]}"; do
    part=${parts[at]} output=$printed/${parts[at]} code=0
    wait "${pids[at]}" || code=$?
    printf '\n== %s (%ss)\n' "$part" "$(cat "$output.end")"
    cat "$output"
    ok=$(sed -nE 's/^([0-9]+) passed, [0-9]+ failed$/\1/p' "$output" | awk '{ all += $1 } END { print all + 0 }')
    bad=$(sed -nE 's/^[0-9]+ passed, ([0-9]+) failed$/\1/p' "$output" | awk '{ all += $1 } END { print all + 0 }')
    passed=$((passed + ok)) failed=$((failed + bad))
    # A part that broke off counted nothing, or not all.
    if [ "$code" != 0 ] && [ "$bad" = 0 ] || [ $((ok + bad)) = 0 ]; then
        echo "FAIL  $part broke off with code $code"
        failed=$((failed + 1))
    fi
done
printf '\n'
grep -h '^FAIL' "$printed"/* || true
echo "$passed passed, $failed failed"
[ "$failed" = 0 ] && [ "$passed" -gt 0 ]
