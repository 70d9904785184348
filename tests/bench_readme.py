#!/usr/bin/python3
"""Writes README.md's table of figures, between its two marks, from the records of the last `make bench`, full or QUICK.

A row is one case of a bench, a column the best lane of one store; the ratio is that of colfam through SQL (where a case
has none: of its C side) to the best of the other stores. Nothing is typed: a case that was not run is left out.
"""

import re
import sys
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent
BEGIN, END = "<!-- figures: make bench, make bench-readme -->", "<!-- end of figures -->"
ROWS_MAX = 46

# Columns and the lanes that belong to each.
COLUMNS = {
    "colfam SQL": r"colfam (SQL|OR REPLACE$|INSERT$)(?!.* packed)",
    "packed keys": r"colfam SQL packed$",
    "colfam.h": r"colfam\.h",
    "engine": r"colfam C|colfam bulk$",
    "RocksDB": r"RocksDB",
    "LevelDB": r"LevelDB",
    "LMDB": r"LMDB",
    "SQLite": r"SQLite",
    "floor": r"floor (?!packed)|floor$|limit: (one|log)",
}
OURS = (("colfam SQL", "packed keys"), ("colfam.h",), ("engine",))
ORDERS = ("native", "sort-key encoder", "callback")
PEERS = ("RocksDB", "LevelDB", "LMDB", "SQLite")


def order(kind):
    """The lanes of one order of keys."""
    if kind == "native":
        return {"colfam SQL": "colfam, bytewise$", "RocksDB": "RocksDB$", "LevelDB": "LevelDB$"}
    return {"colfam SQL": f"colfam, {kind}$", "RocksDB": f"RocksDB, {kind}$", "LevelDB": f"LevelDB, {kind}$"}


# Titles of the cases that are shown, in this order: (pattern, lanes when they are not those above). Of a pattern
# with a group, which is a size, the largest that was run.
SHOWN = [
    (r"100 present keys of 1024 B, values of 256 B", None),
    (r"100 present keys of 1024 B, values of 1024 B", None),
    (r"100 present keys of 1024 B, values of 4096 B", None),
    (r"100 present keys of 1024 B, values of 16384 B", None),
    (r"100 present keys of 1024 B, values of 65536 B", None),
    (r"100 present keys of 16 B, values of 256 B", None),
    (r"100 (?:present|absent) keys of 16 B, values of 100 B", None),
    (r"1000 keys of .*(?:from the disk|no cache)", None),
    (r"(?:absent|present) key of", None),
    (r"absent keys in batches of 100", None),
    (r"put, (?:0|100) % of keys there, store of 10000 rows", None),
    (r"put, 100 % of keys there, store of (\d+)", None),
    (r"a put, transaction of (\d+)", None),
    (r"a get of a pending key, transaction of (\d+)", None),
    (r"savepoint, 10 puts, rollback to it, transaction of (\d+)", None),
    (r"memory beyond keys and values, an entry, transaction of (\d+)", None),
    *((rf"a {what} by order, (?!the engine)", kind) for what in ("put", "random get") for kind in ORDERS),
    (r"an array of (?:10|1000) numbers", None),
    (r"a transaction of (?:1|100|1000) random rows, synchronous NORMAL", None),
    (r"a transaction of 100 random rows, synchronous FULL", None),
    (r"written a commit of 100 rows by its thread, synchronous NORMAL", None),
    (r"(?:p99\.9|the longest) of COMMIT of 100 rows, synchronous NORMAL", None),
    (r"a row, loading", None),
    (r"on disk a row of", None),
    (r"a row, full scan", None),
    (r"a range of", None),
    (r"a random get inside", None),
    (r"growth: a row, loading (\d+) rows in transactions", None),
    (r"growth: bytes written a byte.* loading (\d+) rows in transactions", None),
    (r"a point SELECT in(?:side)? a transaction.* of \d{5,}", None),
    (r"revalidating an unchanged view", None),
    (r"a fresh process: open", None),
]


def read(path):
    """What run it was; cases {title: (bench, unit, {lane: median})}; goals [met]."""
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


def chosen(pattern, cases):
    found = [(re.match(pattern, title), title) for title in cases]
    found = [(match, title) for match, title in found if match]
    if found and found[0][0].groups():
        return [max(found, key=lambda one: int(one[0].group(1)))[1]]
    return [title for _, title in found]


def number(value):
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def best(lanes, pattern, special):
    """(median, lane) of the best lane of a column."""
    found = [
        (median, lane)
        for lane, median in lanes.items()
        if re.match(pattern, lane) and "not counted" not in lane and (special or "callback" not in lane)
    ]
    return min(found, default=None)


def row(title, case, special):
    bench, unit, lanes = case
    patterns = {column: order(special).get(column, "$") if special else lane for column, lane in COLUMNS.items()}
    cells = {column: best(lanes, pattern, special) for column, pattern in patterns.items()}
    ours = next((min(some) for some in ([cells[c] for c in kind if cells[c]] for kind in OURS) if some), None)
    peer = min((cells[c] for c in PEERS if cells[c]), default=None)
    ratio = f"{ours[0] / peer[0]:.2f}" if ours and peer and peer[0] else ""
    texts = [
        "" if not cell else number(cell[0]) + (" (hashed key)" if "hashed" in cell[1] else "") for cell in cells.values()
    ]
    return f"| {bench} | {title}{f', {special}' if special else ''} | {unit} | " + " | ".join(texts) + f" | {ratio} |"


def table(run, cases, goals):
    scale, processors = run
    rows = []
    for pattern, special in SHOWN:
        rows += [line for title in chosen(pattern, cases) if (line := row(title, cases[title], special)) not in rows]
    if len(rows) > ROWS_MAX:
        sys.exit(f"{len(rows)} rows are too many for a table: choose fewer in SHOWN")
    return "\n".join(
        [
            BEGIN,
            f"Measured by `make bench{' QUICK=1' if scale == 'quick' else ''}` on {processors} processors"
            f"{', on smaller tables than the full run' if scale == 'quick' else ', the full run'}: medians of rounds in turns "
            "(growth: one run), less is better; versions and settings are printed there. colfam SQL is the way an application "
            "writes it (IN, EXISTS, a statement a row), packed keys are many in one argument, colfam.h is for C inside the "
            "application's transaction, the engine stands alone, without SQL and log; the floor is what SQLite itself costs, "
            f"or the limit. {sum(goals)} of {len(goals)} goals of the benches are met.",
            "",
            "| | work | unit | " + " | ".join(COLUMNS) + " | colfam : best peer |",
            "|---|---|---|" + "---|" * len(COLUMNS) + "---|",
            *rows,
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
