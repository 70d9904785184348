#!/usr/bin/python3
"""What no program has run of engine/ and ext/ (`make cov`, after the programs): tests/cov.py BUILD.

Asks gcovr for the counts of all builds of a source together (for loading, linking, crash tests), prints
lines and branches of each file, and writes every line and branch that was not taken into
BUILD/cov.txt, with its text. The exit code is 1 below BRANCHES_LEAST.

A branch is one way out of one condition, each operand of && and || for itself. What is not counted is
named in EXCLUDED.
"""
import json
import re
import subprocess
import sys

BRANCHES_LEAST = 85.0
EXCLUDED = {}  # regular expression of a line: the reason


def measured(build):
    command = ["gcovr", "--root", ".", "--object-directory", build, "--json", "-", "--exclude-unreachable-branches",
               "--filter", "engine/", "--filter", "ext/", build]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)["files"]


def share(part, whole):
    return 100.0 * part / whole if whole else 100.0


def look_at(file):
    """Totals of a file, and what is missing, as text."""
    source = open(file["file"], encoding="utf-8").read().split("\n")
    lines = lines_run = branches = branches_run = 0
    missing = []
    for line in file["lines"]:
        if line.get("gcovr/noncode"):
            continue
        text = source[line["line_number"] - 1].strip()
        place = f"{file['file']}:{line['line_number']}"
        lines += 1
        if line["count"]:
            lines_run += 1
        else:
            missing.append(f"{place}: not run: {text}")
        if any(re.search(pattern, text) for pattern in EXCLUDED):
            continue
        ways = [branch["count"] > 0 for branch in line["branches"]]
        branches += len(ways)
        branches_run += sum(ways)
        if line["count"] and not all(ways):
            which = "".join("+" if way else "-" for way in ways)
            missing.append(f"{place}: branches {which}: {text}")
    return (lines, lines_run, branches, branches_run), missing


def main(build):
    total = (0, 0, 0, 0)
    missing = []
    print(f"{'lines':>7} {'branches':>9}  file")
    for file in sorted(measured(build), key=lambda file: file["file"]):
        counts, here = look_at(file)
        total = tuple(a + b for a, b in zip(total, counts))
        missing += here
        print(f"{share(counts[1], counts[0]):6.1f}% {share(counts[3], counts[2]):8.1f}%  {file['file']}")
    with open(f"{build}/cov.txt", "w", encoding="utf-8") as report:
        report.write("\n".join(missing) + "\n")
    lines, branches = share(total[1], total[0]), share(total[3], total[2])
    print(f"{lines:6.1f}% {branches:8.1f}%  of {total[0]} lines and {total[2]} branches")
    print(f"missing: {len(missing)} places, in {build}/cov.txt")
    return 0 if branches >= BRANCHES_LEAST else 1


sys.exit(main(sys.argv[1]))
