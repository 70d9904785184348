"""The sqlite3 shell as a person uses it, in a process of its own that may be killed; for the scripts beside."""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent
EXTENSION = Path(os.environ.get("COLFAM_SO", TOP / "build/colfam.so")).resolve()
PRELOAD = EXTENSION.parent / "tests/preload_kill.so"
KILLED = -9


def fresh_folder():
    """In memory where the system has a directory there: no kill of a process can tell it from a disk."""
    folder = tempfile.mkdtemp(prefix="colfam-", dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None)
    return Path(folder)


def remove_folder(folder):
    shutil.rmtree(folder)


class Shell:
    """One run of the shell on a script. `lines` is what it has said, `cause` at what it was killed, or None.
    Any other end than that, or the end of the script, is a failure of the test."""

    def __init__(self, database, script, kill=None):
        with tempfile.TemporaryFile("w+") as into:
            into.write(f".load {EXTENSION}\n{script}")
            into.seek(0)
            self.process = subprocess.Popen(
                ["sqlite3", "-batch", "-bail", str(database)],
                stdin=into,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                env=os.environ | {"LD_PRELOAD": str(PRELOAD), "COLFAM_KILL": kill or ""},
            )

    def wait(self):
        said, errors = self.process.communicate(timeout=120)
        self.lines = said.splitlines()
        code = self.process.returncode
        self.cause = (errors.strip().removeprefix("killed at ") or "any moment") if code == KILLED else None
        if code not in (0, KILLED) or (code == 0 and errors):
            fail(f"the shell ended with code {code}: {errors}")
        return self


def fail(text):
    sys.exit(f"FAILED: {text}")
