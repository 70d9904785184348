#!/usr/bin/python3
"""What no program has run of engine/ and ext/ (`make cov`, after the programs): tests/cov.py BUILD.

Adds up what gcov says of all builds of a source (for loading, linking, crash tests), prints lines and branches
of each file, and writes every line and branch that was not taken into BUILD/cov.txt, with its text. The
last line is the size of the tests, against the size of the code. The exit code is 1 when less than
BRANCHES_LEAST percent or TESTS_LEAST is reached.

A branch is one way out of one condition, each operand of && and || for itself.
"""
import itertools
import json
import pathlib
import re
import subprocess
import sys

BRANCHES_LEAST = 85.0
TESTS_LEAST = 1.5


def reports(build):
    """What gcov says of each object that ran: the same source may be there several times."""
    counts = [str(path.resolve()) for path in pathlib.Path(build).rglob("*.gcda")]
    said = subprocess.run(["gcov", "--json-format", "--branch-probabilities", "--stdout", *counts], check=True,
                          stdout=subprocess.PIPE).stdout
    return (file for line in said.splitlines() for file in json.loads(line)["files"])


def measured(build):
    """{file: {line: [times, [times of each branch]]}}, all builds together."""
    files = {}
    for file in reports(build):
        if not file["file"].startswith(("engine/", "ext/")):
            continue
        lines = files.setdefault(file["file"], {})
        for line in file["lines"]:
            known = lines.setdefault(line["line_number"], [0, []])
            known[0] += line["count"]
            branches = [branch["count"] for branch in line["branches"]]
            known[1] = [a + b for a, b in itertools.zip_longest(known[1], branches, fillvalue=0)]
    return files


def share(part, whole):
    return 100.0 * part / whole if whole else 100.0


def look_at(name, counts):
    """Totals of a file, and what is missing, as text."""
    source = open(name, encoding="utf-8").read().split("\n")
    lines = lines_run = branches = branches_run = 0
    missing = []
    for number, (times, ways) in sorted(counts.items()):
        text = source[number - 1].strip()
        place = f"{name}:{number}"
        lines += 1
        lines_run += times > 0
        if not times:
            missing.append(f"{place}: not run: {text}")
        branches += len(ways)
        branches_run += sum(way > 0 for way in ways)
        if times and not all(ways):
            which = "".join("+" if way else "-" for way in ways)
            missing.append(f"{place}: branches {which}: {text}")
    return (lines, lines_run, branches, branches_run), missing


def code_lines(*folders):
    """Lines of C without comments and empty ones; benches are not tests."""
    texts_and_comments = re.compile(r"(\"(?:\\.|[^\"\\\n])*\")|/\*.*?\*/|//[^\n]*", re.DOTALL)
    count = 0
    for file in (file for folder in folders for file in pathlib.Path(folder).glob("*.[ch]")
                 if not file.name.startswith("bench")):
        text = texts_and_comments.sub(r"\1", file.read_text(encoding="utf-8"))
        count += sum(1 for line in text.split("\n") if line.strip())
    return count


def main(build):
    total = (0, 0, 0, 0)
    missing = []
    print(f"{'lines':>7} {'branches':>9}  file")
    for name, lines in sorted(measured(build).items()):
        counts, here = look_at(name, lines)
        total = tuple(a + b for a, b in zip(total, counts))
        missing += here
        print(f"{share(counts[1], counts[0]):6.1f}% {share(counts[3], counts[2]):8.1f}%  {name}")
    with open(f"{build}/cov.txt", "w", encoding="utf-8") as report:
        report.write("\n".join(missing) + "\n")
    lines, branches = share(total[1], total[0]), share(total[3], total[2])
    print(f"{lines:6.1f}% {branches:8.1f}%  of {total[0]} lines and {total[2]} branches")
    print(f"missing: {len(missing)} places, in {build}/cov.txt")
    code, tests = code_lines("engine", "ext"), code_lines("tests")
    print(f"test : code = {tests} : {code} lines = {tests / code:.2f}")
    return 0 if branches >= BRANCHES_LEAST and tests / code >= TESTS_LEAST else 1


sys.exit(main(sys.argv[1]))
