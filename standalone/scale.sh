#!/usr/bin/env bash
# Measures how the costs of a team grow with its size: 100, 1,000 and 10,000 agents with ten channels each, on SQLite and on a
# PostgreSQL of its own that waits for its disk, in simulated time.
#
#   ./standalone/scale.sh                       prints the table of docs/scaling.md, and exits with 1 if a limit is missed
#   ./standalone/scale.sh --plot FILE.svg       also draws it; needs python3 with venv and PyPI
#   ./standalone/scale.sh --csv FILE.csv        also writes all figures
#   ./standalone/scale.sh --agents 100 1000     other sizes; --database sqlite, --posts N, --messages N
#   ./standalone/scale.sh --small               a debug build, 40 agents and no limits, to try the measurement itself
#
# Run it on a machine that does nothing else. The largest size fills two databases of about a gigabyte and takes a quarter of an
# hour. It is not part of the test.
set -euo pipefail
cd "$(dirname "$0")/.."

plot=
csv=
profile=(--profile bench)
words=()
while [ $# -gt 0 ]; do
    case $1 in
        --plot) plot=${2:?--plot needs a file}; shift ;;
        --csv) csv=${2:?--csv needs a file}; shift ;;
        --small) profile=(--profile dev); words+=("$1") ;;
        -h | --help) sed -n '2,/^set/s/^# \{0,1\}//p' "$0" | sed '$d'; exit 0 ;;
        *) words+=("$1") ;;
    esac
    shift
done

work=$(mktemp -d /var/tmp/flock-scale-XXXXXXXX)
trap 'rm -rf "$work"' EXIT
csv=${csv:-$work/scale.csv}

status=0
./standalone/postgres.sh --durable cargo bench --locked "${profile[@]}" --bench scale -- --csv "$(realpath -m "$csv")" "${words[@]}" || status=$?
if [ -n "$plot" ] && [ -s "$csv" ]; then
    . standalone/python.sh
    new_venv "$work/venv" 'matplotlib==3.*'
    "$work/venv/bin/python" standalone/scale_plot.py "$csv" "$plot"
fi
exit $status
