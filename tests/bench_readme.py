#!/usr/bin/python3
"""Writes README.md's table of figures, between its two marks, from the records of the last `make bench`.

A line is one case of a bench, a column the best lane of one store; the ratio is that of colfam through SQL (where a
case has none, of its C side) to the best of the other stores. Nothing is typed: a case that was not run is left out.
"""

import re
import sys
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent
BEGIN, END = "<!-- figures: make bench, make bench-readme -->", "<!-- end of figures -->"

# Columns and the lanes that belong to each.
COLUMNS = {
    "colfam SQL": r"colfam (SQL|OR REPLACE$|INSERT$)",
    "colfam C": r"colfam(\.h| C)",
    "RocksDB": r"RocksDB",
    "LevelDB": r"LevelDB",
    "LMDB": r"LMDB",
    "SQLite": r"SQLite",
    "floor": r"floor",
}
PEERS = ("RocksDB", "LevelDB", "LMDB", "SQLite")

# Titles of the cases that are shown, in this order.
SHOWN = [
    r"100 present keys of 1024 B, values of (256|4096) B",
    r"100 present keys of 16 B, values of 100 B",
    r"100 absent keys of 16 B, values of 100 B",
    r"(absent|present) key of",
    r"put, (50|100) % of keys there, store of 10000",
    r"a put, transaction of 1000000",
    r"a get of a pending key, transaction of 1000000",
    r"savepoint, 10 puts, rollback to it, transaction of 1000000",
    r"a transaction of (1|100|1000) random rows, synchronous NORMAL",
    r"a transaction of 100 random rows, synchronous FULL",
    r"written a commit of 100 rows by its thread, synchronous NORMAL",
    r"a row, loading",
    r"on disk a row of",
    r"a row, full scan",
    r"a range of",
    r"a random get inside",
    r"growth: (a row|bytes written|memory)",
    r"a point SELECT in(side)? a transaction",
    r"a fresh process: open",
]


def read(path):
    """What run it was; cases {title: (bench, unit, {lane: median})}; goals [(text, met)]."""
    run, cases, goals = ("full", "?"), {}, []
    for line in Path(path).read_text().splitlines():
        kind, *fields = line.split("\t")
        if kind == "run":
            run = tuple(fields)
        elif kind == "lane":
            bench, title, unit, lane, median = fields[:5]
            cases.setdefault(title, (bench, unit, {}))[2][lane] = float(median)
        elif kind == "goal":
            goals.append(fields[-1] == "1")
    return run, cases, goals


def number(value):
    if value is None:
        return ""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def line(title, case):
    bench, unit, lanes = case
    cells = {}
    for column, pattern in COLUMNS.items():
        found = [median for lane, median in lanes.items() if re.match(pattern, lane) and "not counted" not in lane]
        cells[column] = min(found, default=None)
    ours = cells["colfam SQL"] or cells["colfam C"]
    best = min((cells[peer] for peer in PEERS if cells[peer]), default=None)
    ratio = f"{ours / best:.2f}" if ours and best else ""
    return f"| {bench} | {title} | {unit} | " + " | ".join(number(cell) for cell in cells.values()) + f" | {ratio} |"


def table(run, cases, goals):
    scale, processors = run
    shown = [title for pattern in SHOWN for title in cases if re.match(pattern, title)]
    return "\n".join(
        [
            BEGIN,
            f"Measured by `make bench{' QUICK=1' if scale == 'quick' else ''}` on {processors} processors: medians of rounds in turns; "
            f"settings are printed there. {sum(goals)} of {len(goals)} goals of the benches are met.",
            "",
            "| | work | unit | " + " | ".join(COLUMNS) + " | colfam : best peer |",
            "|---|---|---|" + "---|" * len(COLUMNS) + "---|",
            *(line(title, cases[title]) for title in shown),
            END,
        ]
    )


def main():
    readme = TOP / "README.md"
    text = readme.read_text()
    if BEGIN not in text or END not in text:
        sys.exit("README.md has not the two marks")
    before, rest = text.split(BEGIN, 1)
    after = rest.split(END, 1)[1]
    readme.write_text(before + table(*read(sys.argv[1])) + after)


main()
