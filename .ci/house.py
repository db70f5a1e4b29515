#!/usr/bin/env python3
"""Counts how the sources read: sizes of files and functions, doc comments and plain comments.

  .ci/house.py              all of src/, with a line for each module
  .ci/house.py src/store    what is below these paths
  .ci/house.py --docs PATH  lists the doc comments that open with What, Who, Whether and the like, or are shorter than 18 characters

Test code (`#[cfg(test)]` modules and files that end in tests.rs) is not counted.
"""
import os
import re
import statistics
import sys

OPENERS = re.compile(r"(What|Who|Whose|Whom|Whether|Which|So|As|Of|Where|When|How|That)\b")
SHORT = 18


def lex(text):
    """Yields (kind, text, line): kind is code, doc, inner, plain or newline. Strings and characters are code."""
    at, line, end = 0, 1, len(text)
    while at < end:
        rest = text[at:at + 4]
        if rest.startswith("//"):
            stop = text.find("\n", at)
            stop = end if stop < 0 else stop
            comment = text[at:stop]
            kind = "doc" if re.match(r"///(?!/)", comment) else "inner" if comment.startswith("//!") else "plain"
            yield kind, comment, line
            at = stop
        elif rest.startswith("/*"):
            depth, stop = 1, at + 2
            while depth and stop < end:
                if text.startswith("/*", stop):
                    depth, stop = depth + 1, stop + 2
                elif text.startswith("*/", stop):
                    depth, stop = depth - 1, stop + 2
                else:
                    stop += 1
            yield "plain", text[at:stop], line
            line += text.count("\n", at, stop)
            at = stop
        elif raw := re.compile(r'\b[bc]?r(#*)"').match(text, at):
            close = text.index('"' + raw.group(1), raw.end()) + 1 + len(raw.group(1))
            yield "code", text[at:close], line
            line += text.count("\n", at, close)
            at = close
        elif text[at] == '"':
            stop = at + 1
            while text[stop] != '"':
                stop += 2 if text[stop] == "\\" else 1
            yield "code", text[at:stop + 1], line
            line += text.count("\n", at, stop + 1)
            at = stop + 1
        elif char := re.compile(r"'(\\u\{[0-9a-fA-F_]+\}|\\x..|\\.|[^\\'\n])'").match(text, at):
            yield "code", char.group(), line
            at = char.end()
        elif text[at] == "\n":
            yield "newline", "\n", line
            line += 1
            at += 1
        elif text[at].isspace():
            at += 1
        else:
            word = re.compile(r"\w+|.").match(text, at)
            yield "code", word.group(), line
            at = word.end()


def without_tests(tokens):
    """The tokens less the modules and items behind `#[cfg(test)]`."""
    tokens, kept, at = list(tokens), [], 0
    code = [index for index, (kind, _, _) in enumerate(tokens) if kind == "code"]
    skipped = set()
    for place in range(len(code) - 6):
        words = [tokens[index][1] for index in code[place:place + 7]]
        if words == ["#", "[", "cfg", "(", "test", ")", "]"]:
            depth = 0
            for index in code[place + 7:]:
                word = tokens[index][1]
                depth += (word == "{") - (word == "}")
                if depth == 0 and word in ("}", ";"):
                    skipped.update(range(code[place], index + 1))
                    break
    return [token for index, token in enumerate(tokens) if index not in skipped]


class File:
    def __init__(self, path):
        self.path = path
        with open(path) as file:
            text = file.read()
        tokens = without_tests(lex(text))
        self.code = {line for kind, _, line in tokens if kind == "code"}
        self.plain = sum(kind == "plain" for kind, _, _ in tokens)
        self.lines = max((line for _, _, line in tokens), default=0)
        self.docs = self.read_docs(tokens)
        self.functions = self.read_functions([token for token in tokens if token[0] == "code"])

    @staticmethod
    def read_docs(tokens):
        """Each doc comment as (line, its first paragraph); those of one item are one."""
        docs, before = [], None
        for kind, text, line in tokens:
            if kind not in ("doc", "inner"):
                continue
            said = re.sub(r"^//[/!] ?", "", text)
            if before and before[0] == kind and before[1] == line - 1:
                if said.strip() and not docs[-1][2]:
                    docs[-1][1] += " " + said
                elif not said.strip():
                    docs[-1][2] = True
            else:
                docs.append([line, said, False])
            before = (kind, line)
        return [(line, said.strip()) for line, said, _ in docs]

    @staticmethod
    def read_functions(code):
        """The lengths in lines of the functions that have a body."""
        lengths = []
        for at, (_, word, line) in enumerate(code):
            if word != "fn" or at + 1 >= len(code) or not re.match(r"\w", code[at + 1][1]):
                continue
            depth = round_ = 0
            for _, inner, stop in code[at + 1:]:
                round_ += (inner in "([") - (inner in ")]")
                if depth == 0 and round_ == 0 and inner == ";":
                    break
                depth += (inner == "{") - (inner == "}")
                if depth == 0 and inner == "}":
                    lengths.append((stop - line + 1, code[at + 1][1], line))
                    break
        return lengths


def files(roots):
    for root in roots:
        if os.path.isfile(root):
            yield root
        for folder, _, names in os.walk(root):
            yield from (os.path.join(folder, name) for name in sorted(names) if name.endswith(".rs"))


def is_test(path):
    return path.endswith("tests.rs")


def share(part, whole):
    return 100 * part / whole if whole else 0


def row(name, read):
    docs = [said for file in read for _, said in file.docs]
    code = sum(len(file.code) for file in read)
    opening = sum(bool(OPENERS.match(said)) for said in docs)
    short = sum(len(said) < SHORT for said in docs)
    lengths = [length for file in read for length, _, _ in file.functions]
    print(f"{name:<18} {len(read):>5} {code:>7} {statistics.median(file.lines for file in read):>7.0f}"
          f" {max(file.lines for file in read):>6} {max(lengths, default=0):>8} {share(opening, len(docs)):>8.1f}"
          f" {share(short, len(docs)):>6.1f} {share(sum(file.plain for file in read), code):>6.1f}")


def main(arguments):
    listing = "--docs" in arguments
    roots = [argument for argument in arguments if argument != "--docs"] or ["src"]
    read = [File(path) for path in files(roots) if not is_test(path)]
    if listing:
        for file in read:
            for line, said in file.docs:
                if OPENERS.match(said) or len(said) < SHORT:
                    print(f"{file.path}:{line}: {said}")
        return
    print(f"{'':<18} {'files':>5} {'code':>7} {'median':>7} {'max':>6} {'longest':>8} {'opening':>8} {'short':>6} {'plain':>6}")
    groups = {}
    for file in read:
        parts = file.path.split("/")
        groups.setdefault(parts[1].removesuffix(".rs") if len(parts) > 1 else file.path, []).append(file)
    for name in sorted(groups) if len(groups) > 1 else []:
        row(name, groups[name])
    row("all", read)
    for file in read:
        for length, name, line in file.functions:
            if length > 100:
                print(f"{file.path}:{line}: fn {name} has {length} lines")


main(sys.argv[1:])
