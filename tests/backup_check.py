#!/usr/bin/python3 -B
"""colfam_backup in one sqlite3 shell while another one runs the transactions of shell_check.py, either of them
killed or not: the copy is not there, or is the state of one commit, sound, with nothing lying about; a backup that
was killed is in the way of no other one to the same path. At the end the last copy takes the place of the
database, which goes on from there.

$COLFAM_STEPS backups (60), in WAL and DELETE mode; $COLFAM_SEED.
"""

import collections
import os
import random
import sys

from shell_check import Database, choose_kill
from shells import Shell, fresh_folder, remove_folder

MODES = ["wal", "delete"]


class Copy(Database):
    """What is known of the copies, each a later state of the same history."""

    def __init__(self, seed, mode, path):
        self.path = path
        self.start_history(seed, mode)

    def check_copy(self, earliest, latest):
        self.path_is_clean()
        db = self.open()
        (found,) = db.execute("SELECT n FROM progress").fetchone()
        if not earliest <= found <= latest:
            self.fail(f"a copy of commit {found}, not one of {earliest} to {latest}")
        self.apply_to(found)
        self.check(db)
        db.close()

    def path_is_clean(self):
        names = {name for name in os.listdir(self.path.parent) if name.startswith("copy")}
        if names - {"copy.db", "copy.db-colfam"}:
            self.fail(f"left behind: {sorted(names)}")

    def remove(self):
        self.path.unlink()
        self.table_files().exists() and remove_folder(self.table_files())

    def table_files(self):
        return self.path.with_name(self.path.name + "-colfam")


def back_up(path, kill=None):
    script = f".timeout 60000\nSELECT phase FROM colfam_backup('{path}');\n"
    return lambda database: Shell(database.path, script, kill)


def round_of(rng, database, copy, counts):
    kill = choose_kill(rng) if rng.randrange(3) else None
    earliest = database.number
    writer = database.begin(rng, choose_kill(rng) if rng.randrange(2) else None)
    backup = back_up(copy.path, kill)(database).wait()
    database.look(writer.wait(), rng)
    counts["writers killed"] += writer.cause is not None
    counts["backups killed"] += backup.cause is not None
    if copy.path.exists():
        counts["copies under way" if backup.cause is None else "copies of killed ones"] += 1
        copy.check_copy(earliest, database.number)
        return
    if backup.cause is None:
        copy.fail(f"no copy: {backup.lines}")
    back_up(copy.path)(database).wait()
    copy.check_copy(database.number, database.number)


def restore(database, copy):
    for suffix in ["-wal", "-shm", "-journal"]:
        database.path.with_name(database.path.name + suffix).unlink(missing_ok=True)
    there = database.path.with_name(database.path.name + "-colfam")
    there.exists() and remove_folder(there)
    copy.table_files().exists() and copy.table_files().rename(there)
    copy.path.rename(database.path)
    database.known, database.number = copy.known, copy.number


def main():
    seed = int(os.environ.get("COLFAM_SEED", "1"))
    steps = int(os.environ.get("COLFAM_STEPS", "60"))
    counts = collections.Counter()
    for mode in MODES:
        folder = fresh_folder()
        rng = random.Random(f"{seed} {mode} backup")
        database = Database(f"{seed}-backup", mode, folder)
        copy = Copy(database.seed, mode, folder / "copy.db")
        for step in range(steps // len(MODES)):
            if step:
                copy.remove()
            round_of(rng, database, copy, counts)
        restore(database, copy)
        for _ in range(2):
            database.run(rng, None)
        remove_folder(folder)
    print(f"backups: seed {seed}, {', '.join(f'{n} {what}' for what, n in counts.items())}: all sound")


if __name__ == "__main__":
    sys.exit(main())
