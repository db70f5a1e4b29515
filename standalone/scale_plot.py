#!/usr/bin/env python3
"""Draws how the costs of a team grow, from the figures of standalone/scale.sh: scale_plot.py FIGURES.csv PICTURE.svg

Both axes are logarithmic, so a cost that grows with the size of the team is a line of slope one. It needs matplotlib."""
import csv
import sys

import matplotlib

matplotlib.use("svg")
# The same figures give the same file.
matplotlib.rcParams["svg.hashsalt"] = "flock"
import matplotlib.pyplot as plt  # noqa: E402

# Each part of the picture: its title, the unit, and its figures with a label and, if there is one, a limit.
PARTS = [
    (
        "A step of the scheduler",
        "ms",
        [("step_median_ms", "median"), ("step_p99_ms", "p99")],
        5,
    ),
    (
        "From a person's post to the start of a turn",
        "ms",
        [("wake_median_ms", "median"), ("wake_p99_ms", "p99")],
        100,
    ),
    (
        "Memory and database",
        "MiB",
        [("memory_mib", "memory"), ("database_mib", "database")],
        None,
    ),
]
COLOURS = {"sqlite": "#2a78b5", "postgres": "#c4562c"}
NAMES = {"sqlite": "SQLite", "postgres": "PostgreSQL"}


def main():
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    with open(sys.argv[1], newline="") as file:
        rows = list(csv.DictReader(file))
    if not rows:
        raise SystemExit(f"{sys.argv[1]} has no figures")
    figure, places = plt.subplots(1, len(PARTS), figsize=(13, 4.2), layout="constrained")
    for place, (title, unit, lines, limit) in zip(places, PARTS):
        for database in dict.fromkeys(row["database"] for row in rows):
            of_it = sorted((row for row in rows if row["database"] == database), key=lambda row: int(row["agents"]))
            agents = [int(row["agents"]) for row in of_it]
            for (name, label), style in zip(lines, ["-", "--"]):
                place.plot(
                    agents,
                    [float(row[name]) for row in of_it],
                    style,
                    marker="o",
                    color=COLOURS.get(database),
                    label=f"{NAMES.get(database, database)}, {label}",
                )
        if limit:
            place.axhline(limit, color="#888888", linewidth=1)
            place.annotate(f"limit {limit} {unit}", (agents[0], limit), xytext=(0, 3), textcoords="offset points", fontsize=8)
        place.set_xscale("log")
        place.set_yscale("log")
        place.set_title(title, fontsize=11)
        place.set_xlabel("agents, with ten channels each")
        place.set_ylabel(unit)
        place.grid(True, which="major", linewidth=0.4)
        place.legend(fontsize=8)
    figure.savefig(sys.argv[2], metadata={"Date": None})


main()
