"""The tables of Discord's stand-in: in memory, and in a journal that a restart reads again."""

import json
import os
import time

EPOCH = 1420070400000
TABLES = ("users", "apps", "guilds", "members", "channels", "messages", "webhooks", "commands", "files")


class Store:
    """Tables of plain objects. Each change is a line of the journal, if there is one."""

    def __init__(self, path=None):
        self.tables = {name: {} for name in TABLES}
        self.journal = None
        self.last = 0
        if path:
            self._read(path)
            self.journal = open(path, "ab", buffering=0)

    def _read(self, path):
        if not os.path.exists(path):
            return
        with open(path, "rb+") as file:
            data = file.read()
            # A line that a kill cut in two was acknowledged to nobody.
            whole = data.rfind(b"\n") + 1
            file.truncate(whole)
        for line in data[:whole].splitlines():
            table, key, value = json.loads(line)
            if value is None:
                self.tables[table].pop(key, None)
            else:
                self.tables[table][key] = value
            if key.isdigit():
                self.last = max(self.last, int(key) >> 12)

    def get(self, table, key):
        return self.tables[table].get(key)

    def all(self, table):
        return self.tables[table].values()

    def put(self, table, key, value):
        self.tables[table][key] = value
        self._write(table, key, value)
        return value

    def drop(self, table, key):
        if self.tables[table].pop(key, None) is not None:
            self._write(table, key, None)

    def _write(self, table, key, value):
        if self.journal:
            self.journal.write(json.dumps([table, key, value]).encode() + b"\n")

    def snowflake(self):
        """A new id: the time, and a number that makes it higher than each before it."""
        now = (int(time.time() * 1000) - EPOCH) << 10
        self.last = max(self.last + 1, now)
        return str(self.last << 12)


def stamp(snowflake=None):
    """The time of a snowflake, or the present, as Discord writes it."""
    seconds = time.time() if snowflake is None else ((int(snowflake) >> 22) + EPOCH) / 1000
    whole = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))
    return f"{whole}.{int(seconds % 1 * 1_000_000):06d}+00:00"
