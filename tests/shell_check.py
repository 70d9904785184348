#!/usr/bin/python3 -B
"""Kills the sqlite3 shell while it runs transactions over an ordinary table `o` and a colfam table `t` of the
same rows, then opens the database and looks:

- the last commit that the shell has acknowledged is there, or the one that it was in, whole;
- both tables have exactly the rows that this commit left, as a database in memory knows that never crashed;
- by every way of reading, and colfam_check, integrity_check and the row count agree;
- after a write nothing lies in the directory of table files but what the manifest names.

$COLFAM_STEPS kills (200), divided among the journal modes; transactions and kills follow from $COLFAM_SEED.
A kill is at a chosen call that changes files, or within a chosen time (preload_kill.c). In three of four runs
transactions spill into files of their own.
"""

import collections
import os
import random
import sqlite3
import sys
import time

from shells import EXTENSION, Shell, fail, fresh_folder, remove_folder

MODES = ["delete", "truncate", "persist", "wal"]
LIFE = 25  # kills of one database
SCRIPT = 60  # transactions in one run of the shell
KEYS = 800
BULK = 100000  # keys from here on come and go by the thousand

RARE = ["write", "create", "fsync", "fdatasync", "rename", "unlink", "ftruncate"]

COLUMNS = {"o": "TABLE o(k INT NOT NULL PRIMARY KEY, v) WITHOUT ROWID"}
COLUMNS["t"] = "VIRTUAL TABLE t USING colfam(k INT PRIMARY KEY, v, memtable_bytes = 16384)"


def both(sql):
    return [("o", sql.replace("@", "o")), ("t", sql.replace("@", "t"))]


def value(rng):
    return rng.randbytes(rng.choice([1, 10, 40, 150])).hex()


def span(rng, width):
    low = rng.randrange(KEYS)
    return f"k BETWEEN {low} AND {low + rng.randrange(width)}"


def put(rng):
    rows = ", ".join(f"({rng.randrange(KEYS)}, '{value(rng)}')" for _ in range(rng.choice([1, 1, 5, 40])))
    return both(f"INSERT OR REPLACE INTO @ VALUES {rows}")


def change(rng):
    return both(f"UPDATE @ SET v = substr('{value(rng)}' || v, 1, 200) WHERE {span(rng, 60)}")


def move(rng):
    low, width = rng.randrange(KEYS), rng.randrange(1, 20)
    there = f"k BETWEEN {low + 1000} AND {low + width + 1000}"
    return both(f"DELETE FROM @ WHERE {there}") + both(
        f"UPDATE @ SET k = k + 1000 WHERE k BETWEEN {low} AND {low + width}"
    )


def delete(rng):
    return both(f"DELETE FROM @ WHERE {span(rng, 100)}")


def bulk(rng):
    low, count = BULK + rng.randrange(3000), rng.choice([500, 3000])
    return both(
        f"WITH RECURSIVE c(k) AS (VALUES({low}) UNION ALL SELECT k + 1 FROM c WHERE k < {low + count})"
        f" INSERT OR REPLACE INTO @ SELECT k, k || '{value(rng)}' FROM c"
    )


def end_bulk(_):
    return both(f"DELETE FROM @ WHERE k >= {BULK}")


def undone(rng):
    return [
        ("", "SAVEPOINT s"),
        *both("DELETE FROM @"),
        *put(rng),
        ("", "ROLLBACK TO s"),
        *put(rng),
        ("", "RELEASE s"),
    ]


def flush(rng):
    return put(rng) + [("t", "INSERT INTO t(t) VALUES('flush')")]


def compact(rng):
    return put(rng) + [("t", "INSERT INTO t(t) VALUES('compact')")]


def make(name):
    return [(name, f"DROP TABLE IF EXISTS {name}"), (name, f"CREATE {COLUMNS[name]}")]


def make_anew(rng):
    return make("o") + make("t") + both("INSERT INTO @ VALUES(-1, 'stays')") + put(rng)


def make_from_other(_):
    return make("t") + [("t", "INSERT INTO t SELECT * FROM o")]


KINDS = [put] * 12 + [change] * 5 + [delete] * 4 + [move] * 2 + [bulk, end_bulk, undone, undone]
KINDS += [flush] * 4 + [compact] * 2 + [make_anew, make_from_other]

# Outside of transactions; they change no row.
ASIDE = [
    "INSERT INTO t(t) VALUES('flush')",
    "INSERT INTO t(t) VALUES('compact')",
    "SELECT count(*) > 0 FROM colfam_flush('t')",
    "SELECT count(*) > 0 FROM colfam_compact('t')",
    "VACUUM",
    "PRAGMA wal_checkpoint(TRUNCATE)",
    "BEGIN; INSERT OR REPLACE INTO t VALUES(7, 'never'); INSERT OR REPLACE INTO o VALUES(7, 'never'); ROLLBACK",
]


class Database:
    """One database and what is known of it: the rows after commit `number`."""

    def __init__(self, seed, mode, folder):
        self.path = folder / f"{mode}-{seed}.db"
        self.start_history(seed, mode)
        text = f"PRAGMA journal_mode = {mode};\nCREATE TABLE progress(n);\nINSERT INTO progress VALUES(0);\n"
        Shell(self.path, text + self.text_of(0)).wait()

    def start_history(self, seed, mode):
        self.seed, self.mode, self.number = seed, mode, 0
        self.kill, self.started = "never", 0
        self.known = sqlite3.connect(":memory:", isolation_level=None)
        self.apply(0)

    def transaction(self, number):
        """(the table that it is about, statement), the same for the same number."""
        rng = random.Random(f"{self.seed} {number}")
        return make_anew(rng) if number == 0 else rng.choice(KINDS)(rng)

    def text_of(self, number):
        statements = [sql for _, sql in self.transaction(number)]
        statements = ["BEGIN", *statements, f"UPDATE progress SET n = {number}", "COMMIT"]
        return ";\n".join(statements) + f";\nSELECT 'committed {number}';\n"

    def apply(self, number):
        for table, sql in self.transaction(number):
            if table != "t":
                self.known.execute(sql)

    def apply_to(self, number):
        while self.number < number:
            self.number += 1
            self.apply(self.number)

    def script(self, rng):
        parts = [
            f".timeout 60000\nPRAGMA journal_mode = {self.mode};\nPRAGMA synchronous = {rng.choice(['full', 'full', 'normal', 'off'])};\n"
            f"SELECT colfam_config('threads', {rng.randrange(2)});\n"
            f"SELECT colfam_config('batch_bytes', {rng.choice([67108864, 4096, 4096, 20000])});\n"
        ]
        for number in range(self.number + 1, self.number + 1 + SCRIPT):
            parts.append(self.text_of(number))
            if rng.randrange(8) == 0:
                parts.append(rng.choice(ASIDE) + ";\n")
        return "".join(parts)

    def run(self, rng, kill):
        """Returns at what the shell was killed, or None when it was quicker."""
        shell = self.begin(rng, kill).wait()
        self.look(shell, rng)
        return shell.cause

    def begin(self, rng, kill):
        self.kill, self.started = kill, self.number + 1
        return Shell(self.path, self.script(rng), kill)

    def look(self, shell, rng):
        """At what the shell has left."""
        acknowledged = [int(line.split()[1]) for line in shell.lines if line.startswith("committed")]
        acknowledged = max(acknowledged, default=self.number)
        db = self.open()
        (found,) = db.execute("SELECT n FROM progress").fetchone()
        if found not in (acknowledged, acknowledged + 1) or found > self.number + SCRIPT:
            self.fail(f"commit {acknowledged} was acknowledged, {found} is there")
        self.apply_to(found)
        self.check(db)
        if rng.randrange(2):
            self.check_directory(db)
        else:
            db.close()

    def fail(self, text):
        fail(f"{self.path.name}, killed {self.kill} with the script from {self.started} on: {text}")

    def open(self):
        db = sqlite3.connect(self.path, isolation_level=None)
        db.enable_load_extension(True)
        db.load_extension(str(EXTENSION))
        db.execute("SELECT colfam_config('threads', 0)")
        return db

    def check(self, db):
        rows = self.known.execute("SELECT k, v FROM o ORDER BY k").fetchall()
        reads = {
            "ordinary": "SELECT k, v FROM o ORDER BY k",
            "scan": "SELECT k, v FROM t ORDER BY k",
            "backwards": "SELECT * FROM (SELECT k, v FROM t ORDER BY k DESC) ORDER BY k",
            "lookups": "SELECT t.k, t.v FROM o CROSS JOIN t ON t.k = o.k ORDER BY o.k",
            "list": "SELECT k, v FROM t WHERE k IN (SELECT k FROM o) ORDER BY k",
        }
        for name, sql in reads.items():
            if db.execute(sql).fetchall() != rows:
                self.fail(f"{name}: other rows than those of commit {self.number}")
        (count,) = db.execute("SELECT count(*) FROM t").fetchone()
        if count != len(rows):
            self.fail(f"count(*) is {count}, there are {len(rows)} rows")
        if problems := db.execute("SELECT * FROM colfam_check('t')").fetchall():
            self.fail(f"colfam_check: {problems}")
        if (sound := db.execute("PRAGMA integrity_check").fetchall()) != [("ok",)]:
            self.fail(f"integrity_check: {sound}")

    def check_directory(self, db):
        """What a commit leaves may need the next one to be gone for good; a merge under way has a file that is
        not named yet, until the connection ends."""
        db.execute(f"PRAGMA journal_mode = {self.mode}")
        for _ in range(3):
            db.execute("UPDATE t SET v = v WHERE k = -1")
        named = {f"{id:016x}.sst" for (id,) in db.execute("SELECT id FROM t_cffile")}
        db.close()
        folder = self.path.with_name(self.path.name + "-colfam")
        there = set(os.listdir(folder)) if folder.exists() else set()
        if named != there:
            self.fail(f"named {sorted(named)}, there {sorted(there)}")


def choose_kill(rng):
    """Calls, most of which are pwrite, calls that are rarer, any moment. Early ones hit the recovery."""
    how = rng.choice(["before", "half", "after"])
    if rng.randrange(4) == 0:
        return f"within {int(2 ** rng.uniform(0, 16))}"
    if rng.randrange(2):
        return f"{how} {int(2 ** rng.uniform(0, 12))}"
    return f"{how} {int(2 ** rng.uniform(0, 6))} {rng.choice(RARE)}"


def main():
    seed = int(os.environ.get("COLFAM_SEED", "1"))
    wanted = int(os.environ.get("COLFAM_STEPS", "200"))
    folder = fresh_folder()
    causes, finished, commits, start = collections.Counter(), 0, 0, time.time()
    for at in range(0, wanted, LIFE):
        mode = MODES[at // LIFE % len(MODES)]
        rng = random.Random(f"{seed} {at}")
        database = Database(f"{seed}-{at}", mode, folder)
        left = min(LIFE, wanted - at)
        while left:
            kill = choose_kill(rng)
            cause = database.run(rng, kill)
            causes[cause] += cause is not None
            finished += cause is None
            left -= cause is not None
        commits += database.number
        database.known.close()
    remove_folder(folder)
    kinds = ", ".join(f"{name} {count}" for name, count in causes.most_common() if name)
    print(
        f"shell: seed {seed}, {causes.total()} kills ({kinds}), {commits} commits, {finished} runs ended first,"
        f" {time.time() - start:.0f} s: nothing lost, nothing half, nothing left behind"
    )


if __name__ == "__main__":
    sys.exit(main())
