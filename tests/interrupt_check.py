#!/usr/bin/python3 -B
"""The sqlite3 shell while the system calls of table files are interrupted every second time and done in parts, and
all clocks run backwards (preload_interrupt.c): every transaction of shell_check.py's scripts commits, nothing is
lost, and no call waits for a time that does not come."""

import os
import random
import sys

from shell_check import MODES, SCRIPT, Database
from shells import Shell, fail, fresh_folder, remove_folder


def main():
    seed = int(os.environ.get("COLFAM_SEED", "1"))
    folder = fresh_folder()
    interrupted = 0
    for mode in MODES:
        rng = random.Random(f"{seed} {mode}")
        database = Database(f"interrupted-{seed}", mode, folder)
        for _ in range(2):
            wanted = database.number + SCRIPT
            shell = Shell(database.path, database.script(rng), trouble="interrupt").wait()
            database.look(shell, rng)
            if database.number != wanted:
                fail(f"{mode}: {database.number} of {wanted} transactions")
            interrupted += int(shell.words[1])
        database.known.close()
    remove_folder(folder)
    if interrupted < 1000:
        fail(f"only {interrupted} calls were interrupted")
    print(f"interrupts: seed {seed}, {interrupted} calls interrupted, all commits there")


if __name__ == "__main__":
    sys.exit(main())
