#!/usr/bin/python3
"""Runs what README.md tells to type and compares what comes out.

Blocks fenced as sql run one after the other in one sqlite3 shell, python, js and c blocks as programs, sh
blocks line by line (`make TARGET` only as far as that the target exists). A text block right after one is
exactly what it must print. Links to files must lead somewhere. A machine without node and better-sqlite3
cannot run js: that is said.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent
BUILD = Path(os.environ.get("COLFAM_SO", TOP / "build/colfam.so")).resolve().parent
README = (TOP / "README.md").read_text()
MARK = "-- end of block --"


def blocks():
    """(language, content, expected output or None) of each fenced block."""
    found = re.findall(r"^```(\w+)\n(.*?)^```$", README, re.M | re.S)
    for i, (language, content) in enumerate(found):
        if language != "text":
            after = found[i + 1] if i + 1 < len(found) else ("", "")
            yield language, content, after[1] if after[0] == "text" else None


def run(command, folder, text=None):
    done = subprocess.run(
        command, cwd=folder, input=text, capture_output=True, text=True, timeout=120, shell=isinstance(command, str)
    )
    if done.returncode:
        sys.exit(f"{command}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout + done.stderr


def without_plan_numbers(text):
    """A plan's number is a code between two functions of the extension; its words are what is promised."""
    return re.sub(r"(VIRTUAL TABLE INDEX) \d+:", r"\1 :", text)


def compare(what, printed, expected):
    if expected is not None and without_plan_numbers(printed) != without_plan_numbers(expected):
        sys.exit(f"README.md, {what}\n--- it says\n{expected}--- it prints\n{printed}")


def run_sql(sessions, folder):
    script = "".join(f"{sql}.print '{MARK}'\n" for sql, _ in sessions)
    printed = run(["sqlite3", "-batch", "-bail", "app.db"], folder, script).split(MARK + "\n")
    for (sql, expected), output in zip(sessions, printed):
        compare(f"sql block\n{sql}", output, expected or "")


def run_shell(content, folder, expected):
    printed = ""
    for line in content.splitlines():
        if line.startswith("make"):
            run(line.replace("make", "make -n", 1), TOP)
        else:
            printed += run(line, folder)
    compare(f"sh block\n{content}", printed, expected)


def run_node(content, folder, expected):
    """Whether there is something to run it."""
    known = shutil.which("node") and subprocess.run(
        ["node", "-e", "require('better-sqlite3')"], cwd=folder, capture_output=True
    )
    if known and known.returncode == 0:
        compare(f"js block\n{content}", run(["node", "-e", content], folder), expected)
        return True
    print("README.md: the js block is not run: no node with better-sqlite3 here (make test-node has it)")
    return False


def check_links():
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        if "://" not in target and not (TOP / target).exists():
            sys.exit(f"README.md links to {target}, which is not there")


def main():
    count = 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "build").symlink_to(BUILD)
        (folder / "ext").symlink_to(TOP / "ext")
        run_sql([(c, e) for language, c, e in blocks() if language == "sql"], folder)
        for language, content, expected in blocks():
            count += 1
            if language == "python":
                compare(f"python block\n{content}", run(["/usr/bin/python3", "-c", content], folder), expected)
            elif language == "js":
                count -= not run_node(content, folder, expected)
            elif language == "c":
                (folder / "app.c").write_text(content)
            elif language == "sh":
                run_shell(content, folder, expected)
            elif language != "sql":
                sys.exit(f"README.md: no way to run a block of {language}")
    check_links()
    print(f"README.md: {count} blocks do what they say")


main()
