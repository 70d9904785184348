"""The sqlite3 shell as a person uses it, in a process of its own that may be killed; for the scripts beside."""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent
EXTENSION = Path(os.environ.get("COLFAM_SO", TOP / "build/colfam.so")).resolve()
KILLED = -9


def preload(name):
    return str(EXTENSION.parent / f"tests/preload_{name}.so")


def fresh_folder():
    """In memory where the system has a directory there: no kill of a process can tell it from a disk."""
    folder = tempfile.mkdtemp(prefix="colfam-", dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None)
    return Path(folder)


def remove_folder(folder):
    shutil.rmtree(folder)


class Shell:
    """One run of the shell on a script, killed as preload_kill.c has it, or in the trouble of another preload.
    `lines` is what it has said, `cause` at what it was killed, or None, `words` the preload's last ones.
    Any other end than that, or the end of the script, is a failure of the test."""

    def __init__(self, database, script, kill=None, trouble="kill"):
        with tempfile.TemporaryFile("w+") as into:
            into.write(f".load {EXTENSION}\n{script}")
            into.seek(0)
            self.process = subprocess.Popen(
                ["sqlite3", "-batch", "-bail", str(database)],
                stdin=into,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                env=os.environ | {"LD_PRELOAD": preload(trouble), "COLFAM_KILL": kill or ""},
            )

    def wait(self):
        said, errors = self.process.communicate(timeout=120)
        self.lines = said.splitlines()
        code = self.process.returncode
        self.cause = (errors.strip().removeprefix("killed at ") or "any moment") if code == KILLED else None
        self.words = errors.split()
        if code not in (0, KILLED) or (code == 0 and errors and self.words[0] != "interrupted"):
            fail(f"the shell ended with code {code}: {errors}")
        return self


def fail(text):
    sys.exit(f"FAILED: {text}")
