#!/usr/bin/env python3
"""Measures the search: recall on a set of questions with known answers, and time and size with many messages.

    standalone/search_figures.py                          # questions made from the headings of docs/*.md
    standalone/search_figures.py --cranfield FOLDER       # the Cranfield collection: cran.all.1400, cran.qry, cranqrel
    standalone/search_figures.py --messages 100000        # also the time of a search among so many texts
    FLOCK_BINARY=/path/to/flock standalone/search_figures.py …

It makes a home of its own in a temporary folder, puts the documents into a vault, starts a gateway without agents'
turns, and asks `GET /api/search/memory`. It needs Python 3.9 or newer, and no engine, key or network. It is not part of
the test. It prints the figures of docs/performance.md.
"""
import argparse
import json
import os
import re
import socket
import sqlite3
import statistics
import subprocess
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request
import uuid
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
LIMIT = 600  # seconds until the index must be complete


class Home:
    """A home with a gateway."""

    def __init__(self, folder):
        self.root = Path(folder) / "home"
        self.binary = os.environ.get("FLOCK_BINARY") or next(
            str(path) for path in (REPOSITORY / f"target/{kind}/flock" for kind in ("release", "debug")) if path.exists()
        )
        self.gateway = None
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.flock("init", "--yes", "--no-images", "--port", str(self.port))
        self.token = json.loads((self.root / "config.json").read_text())["gateway"]["auth"]["token"]

    def flock(self, *args):
        command = [self.binary, "--home", str(self.root), *args]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            raise SystemExit(f"{' '.join(command)}: {done.stderr}")
        return done.stdout

    def start(self):
        log = open(self.root.parent / "gateway.log", "ab")
        command = [self.binary, "--home", str(self.root), "gateway", "serve"]
        self.gateway = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        end = time.time() + 120
        while time.time() < end:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{self.port}/health", timeout=5).read()
                return
            except OSError:
                time.sleep(0.2)
        raise SystemExit("the gateway does not answer")

    def stop(self):
        if self.gateway:
            self.gateway.terminate()
            self.gateway.wait()

    def search(self, text, **more):
        query = urllib.parse.urlencode({"q": text, "limit": 10, **more})
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}/api/search/memory?{query}", headers={"Authorization": f"Bearer {self.token}"}
        )
        return json.load(urllib.request.urlopen(request, timeout=120))

    def until_complete(self):
        begun = time.time()
        while time.time() < begun + LIMIT:
            if self.search("word that is nowhere")["complete"]:
                return time.time() - begun
        raise SystemExit("the index is not complete")


def cranfield(folder):
    """Returns the documents, the questions, and the documents that answer each question."""
    folder = Path(folder)

    def records(name):
        for part in re.split(r"^\.I +(?=\d+\s*$)", (folder / name).read_text(errors="replace"), flags=re.M)[1:]:
            number, _, rest = part.partition("\n")
            fields = dict(re.findall(r"^\.([TABW])\n(.*?)(?=^\.[TABW]\n|\Z)", rest, flags=re.M | re.S))
            yield number.strip(), fields

    documents = {f"{number}.md": f"# {fields.get('T', '').strip()}\n\n{fields.get('W', '')}" for number, fields in records("cran.all.1400")}
    questions = {}
    answers = {}
    for number, (_, fields) in enumerate(records("cran.qry"), 1):
        questions[number] = " ".join(fields["W"].split())
    for line in (folder / "cranqrel").read_text().splitlines():
        question, document, degree = line.split()[:3]
        # 1 to 4 are degrees of relevance; 5 and -1 say that there is none.
        if int(degree) in (1, 2, 3, 4):
            answers.setdefault(int(question), set()).add(f"{document}.md")
    return documents, questions, answers


def documentation():
    """Makes a question of each heading of the documentation. Its answer is the page, without its headings' lines."""
    documents, questions, answers = {}, {}, {}
    for page in sorted((REPOSITORY / "docs").glob("*.md")):
        # The words of a heading must not be found in the heading itself.
        lines = page.read_text().splitlines()
        sections = [[]]
        for line in lines:
            if re.match(r"#{1,6} ", line):
                sections.append([])
                heading = re.sub(r"[`*]", "", line.lstrip("#").strip())
                name = f"{page.stem}-{len(sections) - 1}.md"
                questions[name] = f"{page.stem.replace('-', ' ')} {heading}"
                answers[name] = {name}
            else:
                sections[-1].append(line)
        for number, section in enumerate(sections):
            text = "\n".join(section).strip()
            name = f"{page.stem}-{number}.md"
            if len(text) < 80:
                questions.pop(name, None)
                answers.pop(name, None)
                continue
            documents[name] = text
    return documents, questions, answers


def recall(home, title, documents, questions, answers):
    vault = home.root / "vaults" / "shared"
    for name, text in documents.items():
        # The name of a file is searched too, and here it would be the answer.
        (vault / name).write_text(text)
    home.start()
    seconds = home.until_complete()
    found_of, first_of, times = [], [], []
    for number, question in questions.items():
        wanted = answers.get(number)
        if not wanted:
            continue
        begun = time.perf_counter()
        results = home.search(question, **{"in": "vaults"})["results"]
        times.append((time.perf_counter() - begun) * 1000)
        names = list(dict.fromkeys(result["path"] for result in results))
        found_of.append(len(wanted.intersection(names[:10])) / min(len(wanted), 10))
        first_of.append(next((1 / place for place, name in enumerate(names, 1) if name in wanted), 0))
    home.stop()
    text_bytes = sum(len(text.encode()) for text in documents.values())
    print(f"{title}: {len(documents)} documents ({text_bytes / 1e6:.1f} MB), {len(found_of)} questions")
    print(f"  recall@10 {statistics.mean(found_of):.3f}   MRR {statistics.mean(first_of):.3f}")
    print(f"  indexed in {seconds:.1f} s; a search {statistics.median(times):.1f} ms in the median")
    index(home, text_bytes)


def index(home, text_bytes):
    size = sum(path.stat().st_size for path in (home.root / "data").glob("search.db*"))
    print(f"  index {size / 1e6:.1f} MB, {size / text_bytes:.2f} of the text")


WORDS = (REPOSITORY / "docs" / "sandbox.md").read_text().split() + (REPOSITORY / "docs" / "channels.md").read_text().split()


def sentence(number):
    """Returns a text of about 40 words, another one for each number."""
    return " ".join(WORDS[(number * 7919 + step * (1 + number % 13)) % len(WORDS)] for step in range(40)) + f" n{number}"


def many(home, count):
    """Half of the texts are messages of a channel, half are records of 50 sessions."""
    home.flock("channel", "create", "many", "--topic", "many")
    text_bytes = 0
    now = int(time.time() * 1000)
    database = sqlite3.connect(home.root / "data" / "flock.db")
    last = database.execute("SELECT last_seq FROM channel WHERE id = 'many'").fetchone()[0]
    rows = []
    for number in range(count // 2):
        text = sentence(number)
        text_bytes += len(text.encode())
        rows.append(("many", last + 1 + number, "human:ann", text, now, 0))
    database.executemany("INSERT INTO message (channel, seq, author, content, created_at, wake) VALUES (?, ?, ?, ?, ?, ?)", rows)
    database.execute("UPDATE channel SET last_seq = ? WHERE id = 'many'", (last + len(rows),))
    folder = home.root / "agents" / "orchestrator" / "sessions"
    folder.mkdir(parents=True, exist_ok=True)
    number = count // 2
    for session in range(50):
        name = str(uuid.uuid4())
        key = f"agent:orchestrator:flock:main:person{session}"
        database.execute(
            "INSERT INTO session (key, file, agent, kind, created_at, updated_at) VALUES (?, ?, 'orchestrator', 'main', ?, ?)",
            (key, name, now, now),
        )
        with open(folder / f"{name}.jsonl", "w") as transcript:
            transcript.write(json.dumps({"type": "session", "version": 1, "key": key, "agent": "orchestrator", "created": now}) + "\n")
            for _ in range(count // 2 // 50):
                text = sentence(number)
                number += 1
                text_bytes += len(text.encode())
                message = {"role": "user" if number % 2 else "assistant", "content": [{"type": "text", "text": text}]}
                record = {"type": "message", "id": str(uuid.uuid4()), "turn": str(uuid.uuid4()), "at": now, "message": message}
                transcript.write(json.dumps(record) + "\n")
    database.commit()
    database.close()
    home.start()
    seconds = home.until_complete()
    print(f"{count} messages and records ({text_bytes / 1e6:.1f} MB): indexed in {seconds:.1f} s")
    for title, text in [("one rare word", f"n{count // 3}"), ("three words", "sandbox network agent"), ("a question of twelve words", "which files of the workspace does an agent read after the gateway restarts"), ("a very common word", "the agent")]:
        times = []
        for _ in range(15):
            begun = time.perf_counter()
            home.search(text)
            times.append((time.perf_counter() - begun) * 1000)
        print(f"  {title}: {statistics.median(times):.0f} ms in the median, {max(times):.0f} ms at most")
    home.stop()
    index(home, text_bytes)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cranfield", metavar="FOLDER", help="folder with cran.all.1400, cran.qry and cranqrel")
    parser.add_argument("--messages", type=int, default=0, metavar="NUMBER", help="messages and records for the times")
    args = parser.parse_args()
    sets = [("documentation", documentation())]
    if args.cranfield:
        sets.append(("Cranfield", cranfield(args.cranfield)))
    for title, found in sets:
        with tempfile.TemporaryDirectory() as folder:
            recall(Home(folder), title, *found)
    if args.messages:
        with tempfile.TemporaryDirectory() as folder:
            many(Home(folder), args.messages)


if __name__ == "__main__":
    main()
