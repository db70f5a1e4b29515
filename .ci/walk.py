#!/usr/bin/env python3
"""Counts the files that a reader opens on the way from one function to another.

  .ci/walk.py            the paths in .ci/walks.txt
  .ci/walk.py NAME...    these paths only, with their files in the order of the first visit

A path is a name and a tree of functions, each below its caller. A return is a step into a file that was left before. Fails
if a file has no such function, or if a function does not name the next one.
"""
import os
import re
import sys

os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
LINE = re.compile(r"( +)(\S+\.rs):(\w+)$")


def bodies(path, name):
    """The text of each function of this name, from its own line to the line that closes it."""
    with open(path) as file:
        text = file.read().split("#[cfg(test)]\nmod ")[0]
    return re.findall(rf"^( *)((?:.*\s)?fn {name}\b[^;]*?\n(?:.*\n)*?)\1\}}$", text, re.M)


def read(path):
    """The paths as name and steps; a step is depth, file and function."""
    paths = {}
    with open(path) as table:
        for line in table.read().splitlines():
            if step := LINE.match(line):
                steps.append((len(step[1]) // 2, step[2], step[3]))
            elif line and not line.startswith("#"):
                steps = paths.setdefault(line, [])
    return paths


def walk(steps):
    """The files in the order of the first visit, the number of returns, and what is wrong with the table."""
    callers, files, returns, wrong = [], [], 0, []

    def enter(path):
        nonlocal returns
        if not files or path != enter.now:
            returns += path in files
            if path not in files:
                files.append(path)
        enter.now = path

    for depth, path, name in steps:
        found = bodies(path, name) if os.path.exists(path) else []
        if not found:
            wrong.append(f"{path} has no function {name}")
        if callers := callers[:depth - 1]:
            caller, calls = callers[-1]
            enter(caller)
            if not any(re.search(rf"\b{name}\b", text.split("{", 1)[-1]) for _, text in calls):
                wrong.append(f"{caller} does not call {name} of {path} there")
        enter(path)
        callers.append((path, found))
    return files, returns, wrong


def main(names):
    failed = False
    for name, steps in read(".ci/walks.txt").items():
        if names and name not in names:
            continue
        files, returns, wrong = walk(steps)
        print(f"{name}: {len(files)} files, {returns} returns")
        for line in (files if names else []) + [f"error: {one}" for one in wrong]:
            print(f"  {line}")
        failed |= bool(wrong)
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
