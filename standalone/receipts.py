"""Makes receipts in one home, verifies them in another one with another engine, and tampers with them (receipts.sh).

The last line says `N passed, M failed`; the exit code is 0 only if nothing failed.
"""

import argparse
import base64
import json
import os
import pathlib
import random
import subprocess
import time

from checking import FLOCK, HOME, check, finish, until

WORK = pathlib.Path(os.environ["FLOCK_WORK"])
SECOND = {"FLOCK_HOME": str(WORK / "second"), "DOCKER_HOST": os.environ["FLOCK_SECOND_ENGINE"]}
BLOCK = 512

FILES = {
    "calc.py": "def add(a, b):\n    return a + b\n",
    "tests/__init__.py": "",
    "tests/test_calc.py": "import unittest\nfrom calc import add\n\n\nclass Calc(unittest.TestCase):\n    def test_one(self):\n"
    "        self.assertEqual(add(1, 2), 3)\n",
    "README.md": "A calculator.\n",
}
CHECKS = ["python3 -m unittest discover -s tests -t ."]


def run(*command, env=None, cwd=None, code=0):
    done = subprocess.run(command, env=dict(os.environ, **(env or {})), cwd=cwd, capture_output=True, text=True)
    if code is not None and done.returncode != code:
        raise SystemExit(f"{command} ended with {done.returncode}: {done.stdout}{done.stderr}")
    return done


def git(folder, *arguments):
    who = ("-c", "user.name=owner", "-c", "user.email=owner@flock", "-c", "safe.directory=*")
    return run("git", *who, *arguments, cwd=folder).stdout.strip()


def write(folder, files):
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def work_of(number):
    """The files of a branch: code, a text or a test, each another one."""
    kinds = [
        {f"lib/m{number}.py": f"VALUE = {number}\n"},
        {f"docs/d{number}.md": f"# {number}\n\nÜber {number}.\n"},
        {
            f"tests/test_n{number}.py": "import unittest\nfrom calc import add\n\n\nclass New(unittest.TestCase):\n"
            f"    def test_new(self):\n        self.assertEqual(add({number}, 1), {number + 1})\n"
        },
    ]
    return kinds[number % len(kinds)]


def make(count):
    """Makes receipts as agents do: a branch each, submitted and merged. Returns their ids."""
    owner = WORK / "owner"
    owner.mkdir()
    git(owner, "init", "-q", "-b", "main")
    write(owner, FILES)
    git(owner, "add", "-A")
    git(owner, "commit", "-qm", "begin")
    run(FLOCK, "add", "coder")
    run(FLOCK, "start")
    given = [word for text in CHECKS for word in ("--check", text)]
    run(FLOCK, "project", "add", "calc", "--repo", str(owner), *given, "--agent", "coder")
    bare = pathlib.Path(HOME) / "projects/calc.git"
    for number in range(count):
        git(owner, "checkout", "-q", "-B", f"n{number}", "main")
        write(owner, work_of(number))
        git(owner, "add", "-A")
        git(owner, "commit", "-qm", f"Add {number}")
        # The branch arrives as if the agent had pushed it.
        git(owner, "push", "-q", str(bare), f"HEAD:refs/heads/flock/coder/n{number}")
        run(FLOCK, "project", "submit", "calc", "coder", "--branch", f"n{number}")
    git(owner, "checkout", "-q", "main")

    def merged():
        listed = json.loads(run(FLOCK, "project", "submissions", "calc", "--json").stdout)["submissions"]
        states = [one["state"] for one in listed]
        return all(state == "merged" for state in states) and states

    check(f"{count} branches are merged", until(60 + 30 * count, merged), run(FLOCK, "project", "submissions", "calc").stdout)
    listed = json.loads(run(FLOCK, "receipt", "list", "--limit", "1000", "--json").stdout)["receipts"]
    check("each has a receipt that is accepted", [one["result"] for one in listed] == ["accepted"] * count, listed)
    return [one["id"] for one in listed]


def export(ids):
    (WORK / "bundles").mkdir()
    paths = []
    for identity in ids:
        path = WORK / "bundles" / f"{identity[:12]}.receipt"
        run(FLOCK, "receipt", "export", identity, "--to", str(path))
        paths.append(path)
    (WORK / "signers").write_text(run(FLOCK, "receipt", "key").stdout)
    return paths


def verify(path, *options):
    done = run(FLOCK, "verify", str(path), "--allowed-signers", str(WORK / "signers"), "--json", *options, env=SECOND, code=None)
    try:
        answer = json.loads(done.stdout)
    except ValueError:
        answer = {}
    return done, answer


def verify_all(paths):
    begin = time.monotonic()
    wrong, images = [], set()
    for path in paths:
        done, answer = verify(path)
        parts = {part["part"]: part["outcome"] for part in answer.get("findings", [])}
        images.add(parts.pop("image", None))
        if done.returncode != 0 or not parts or set(parts.values()) != {"verified"}:
            wrong.append(f"{path.name}: {done.returncode} {done.stdout}{done.stderr}")
    check(f"{len(paths)} receipts are verified by a fresh home with another engine", not wrong, wrong)
    print(f"image: {images}; {(time.monotonic() - begin) / len(paths):.1f} s for each")


def parts_of(data):
    """The entries of a bundle as (header, content)."""
    found, at = [], 0
    while data[at : at + BLOCK].strip(b"\0"):
        header = data[at : at + BLOCK]
        size = int(header[124:136].strip(b"\0 "), 8)
        found.append((header, data[at + BLOCK : at + BLOCK + size]))
        at += BLOCK + -(-size // BLOCK) * BLOCK
    return found


def name_of(header):
    return header[:100].rstrip(b"\0").decode()


def with_header(header, name=None, size=None, kind=None, link=None):
    """A header with other fields and the right sum."""
    field = bytearray(header)
    if name is not None:
        field[:100] = name.encode().ljust(100, b"\0")
    if size is not None:
        field[124:136] = f"{size:011o}\0".encode()
    if kind is not None:
        field[156:157] = kind
    if link is not None:
        field[157:257] = link.encode().ljust(100, b"\0")
    field[148:156] = b" " * 8
    field[148:156] = f"{sum(field):06o}\0 ".encode()
    return bytes(field)


def packed(parts):
    def block(content):
        return content + b"\0" * (-len(content) % BLOCK)

    return b"".join(header + block(content) for header, content in parts) + b"\0" * (2 * BLOCK)


class Bundle:
    """A bundle that can be changed."""

    def __init__(self, path):
        self.data = path.read_bytes()
        self.parts = parts_of(self.data)
        assert packed(self.parts) == self.data, "the bundle is not understood"

    def at(self, start):
        return next(at for at, (header, _) in enumerate(self.parts) if name_of(header).startswith(start))

    def content(self, start):
        return self.parts[self.at(start)][1]

    def with_content(self, start, content):
        parts = list(self.parts)
        at = self.at(start)
        parts[at] = (with_header(parts[at][0], size=len(content)), content)
        return packed(parts)

    def with_document(self, change):
        """The receipt with a change, in its canonical form."""
        document = json.loads(self.content("receipt.json"))
        change(document)
        return self.with_content("receipt.json", canonical(document))

    def without(self, start):
        return packed([part for at, part in enumerate(self.parts) if at != self.at(start)])


def canonical(document):
    return json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def put(document, path, value):
    *above, last = path
    for step in above:
        document = document[step]
    document[last] = value


def tampered(one, other):
    """The kinds of tampering, by name."""
    def field(*path, value):
        return one.with_document(lambda document: put(document, path, value))

    objects = [header for header, _ in one.parts if name_of(header).startswith("objects/")]
    last = name_of(objects[-1])
    chain = json.loads(one.content("chain.json"))
    shorter = dict(chain, rows=chain["rows"][:-1])
    blob = b"def add(a, b):\n    return 0\n"
    header, content = one.parts[one.at("outputs/0000")]
    first = one.content("receipt.json")
    signature = one.content("receipt.sig")
    body = b"".join(signature.split(b"\n")[1:-2])
    flipped = bytearray(base64.b64decode(body))
    flipped[-1] ^= 1
    armored = b"\n".join([signature.split(b"\n")[0], base64.b64encode(bytes(flipped)), *signature.split(b"\n")[-2:]])
    return {
        "another exit code": field("runs", 0, "exit", value=1),
        "another check": field("checks", "commands", 0, value="true"),
        "another tree": field("delivered", "tree", value=json.loads(other.content("receipt.json"))["delivered"]["tree"]),
        "another author": field("author", value="somebody"),
        "another time": field("at", value=1),
        "other numbers of tests": field("runs", 0, "counts", 0, "passed", value=99),
        "an unknown key": field("extra", value=1),
        "white space in the receipt": one.with_content("receipt.json", first + b"\n"),
        "the signature of another receipt": one.with_content("receipt.sig", other.content("receipt.sig")),
        "a signature with one other bit": one.with_content("receipt.sig", armored),
        "no signature": one.without("receipt.sig"),
        "another output": one.with_content("outputs/0000", b"OK" + content),
        "no output": one.without("outputs/0000"),
        "an output too many": packed(one.parts[: one.at("objects/")] + [(with_header(header, name="outputs/0099"), content)] + one.parts[one.at("objects/") :]),
        "another file in the tree": one.with_content(last, blob),
        "a file of the tree is missing": one.without(last),
        "a file that no tree has": packed(one.parts + [(with_header(objects[-1], name="objects/" + "f" * 40, size=len(blob)), blob)]),
        "the receipt of another bundle": one.with_content("receipt.json", other.content("receipt.json")),
        "a part of the audit without its last row": one.with_content("chain.json", canonical(shorter)),
        "the audit of another receipt": one.with_content("chain.json", other.content("chain.json")),
        "the signature of the audit of another receipt": one.with_content("chain.sig", other.content("receipt.sig")),
        "entries in another order": packed([one.parts[1], one.parts[0], *one.parts[2:]]),
        "the same entry twice": packed([one.parts[0], *one.parts]),
        "a path that leads out": packed(one.parts + [(with_header(header, name="../../etc/cron.d/x"), content)]),
        "a symbolic link": packed(one.parts + [(with_header(header, name="objects/link", size=0, kind=b"2", link="/etc/passwd"), b"")]),
        "a bundle that was cut off": one.data[: len(one.data) // 2],
        "bytes after the end": one.data + b"more",
        "an empty file": b"",
    }


def tamper(paths, other_home):
    one, other = Bundle(paths[0]), Bundle(paths[1])
    kinds = tampered(one, other)
    refused, wrong = 0, []
    for name, data in kinds.items():
        path = WORK / "tampered.receipt"
        path.write_bytes(data)
        # The documents alone have to show it: nobody runs the checks of such a bundle.
        done, _ = verify(path, "--no-rerun")
        is_refused = done.returncode != 0 and "panicked" not in done.stderr
        refused += is_refused
        if not is_refused:
            wrong.append(f"{name}: {done.returncode} {done.stdout}{done.stderr}")
    done, _ = verify(other_home, "--no-rerun")
    if done.returncode == 0:
        wrong.append("a bundle of another home is taken for this one's")
    check(f"{len(kinds) + 1} kinds of tampering are refused", not wrong and refused >= 20, wrong)


def bundle_of_another_home(first):
    """A bundle that somebody else signed anew: everything in it but the audit fits, and its key is not the expected one."""
    path = WORK / "of-another-home.receipt"
    bundle = Bundle(first)
    # Signed by a key that is made here, with ssh-keygen as an outsider would.
    if run("which", "ssh-keygen", code=None).returncode != 0:
        path.write_bytes(bundle.without("key.pub"))
        return path
    run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "flock", "-f", str(WORK / "other-key"))
    (WORK / "receipt.json").write_bytes(bundle.content("receipt.json"))
    run("ssh-keygen", "-Y", "sign", "-f", str(WORK / "other-key"), "-n", "flock-receipt", str(WORK / "receipt.json"))
    bundle.parts = parts_of(bundle.with_content("receipt.sig", (WORK / "receipt.json.sig").read_bytes()))
    path.write_bytes(bundle.with_content("key.pub", (WORK / "other-key.pub").read_bytes()))
    return path


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=2)
    options = parser.parse_args()
    begin = time.monotonic()
    ids = make(max(options.count, 2))
    print(f"made in {time.monotonic() - begin:.0f} s")
    paths = export(ids)
    run(FLOCK, "init", "--yes", "--model", "script/demo", env=SECOND)
    engines = [run("docker", "info", "--format", "{{.DockerRootDir}}", env=env).stdout for env in ({}, SECOND)]
    check("the second home has another engine", engines[0] != engines[1] and all(engines), engines)
    random.Random(1).shuffle(paths)
    verify_all(paths)
    tamper(paths, bundle_of_another_home(paths[0]))
    finish()


main()
