#!/usr/bin/python3
"""Writes README.md's table of figures, between its two marks, from the records of the last `make bench`, full or QUICK.

A row is one case of a bench, a column the best lane of one store. Two ratios: of colfam through SQL, as an application
writes it, to SQLite; and of the best of colfam's columns to the best of the three other stores. Nothing is typed: a case
that was not run is left out.
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
OURS = ("colfam SQL", "packed keys", "colfam.h", "engine")
STORES = ("RocksDB", "LevelDB", "LMDB")
ORDERS = ("native", "sort-key encoder", "callback")
# From the disk the engine is held against its own single gets.
COLD = {"engine": "colfam C$", "floor": "colfam C get loop"}


def order(kind):
    """The lanes of one order of keys."""
    suffix = "" if kind == "native" else f", {kind}"
    ours = ", bytewise" if kind == "native" else suffix
    return {"colfam SQL": f"colfam{ours}$", "RocksDB": f"RocksDB{suffix}$", "LevelDB": f"LevelDB{suffix}$"}


# Titles of the cases that are shown, in this order: patterns, some with the lanes that are not those above and what is
# added to the title. Of a pattern with a group, which is a size, the largest that was run.
SHOWN = [
    r"100 present keys of 1024 B, values of 256 B",
    r"100 present keys of 1024 B, values of 1024 B",
    r"100 present keys of 1024 B, values of 4096 B",
    r"100 present keys of 1024 B, values of 16384 B",
    r"100 present keys of 1024 B, values of 65536 B",
    r"100 present keys of 16 B, values of 256 B",
    r"100 (?:present|absent) keys of 16 B, values of 100 B",
    (r"1000 keys of .*(?:from the disk|no cache)", COLD, ", floor: a loop of gets"),
    r"(?:absent|present) key of",
    r"absent keys in batches of 100",
    r"put, (?:0|100) % of keys there, store of 10000 rows",
    r"put, 100 % of keys there, store of (\d+)",
    r"a put, transaction of (\d+)",
    r"a get of a pending key, transaction of (\d+)",
    r"savepoint, 10 puts, rollback to it, transaction of (\d+)",
    r"memory beyond keys and values, an entry, transaction of (\d+)",
    *(
        (rf"a {what} by order, (?!the engine)", order(kind), f", {kind}")
        for what in ("put", "random get")
        for kind in ORDERS
    ),
    r"an array of (?:10|1000) numbers",
    r"a transaction of (?:1|100|1000) random rows, synchronous NORMAL",
    r"a transaction of 100 random rows, synchronous FULL",
    r"written a commit of 100 rows by its thread, synchronous NORMAL",
    r"(?:p99\.9|the longest) of COMMIT of 100 rows, synchronous NORMAL",
    r"a row, loading",
    r"on disk a row of",
    r"a row, full scan",
    r"a range of",
    r"a random get inside",
    r"growth: a row, loading (\d+) rows in transactions",
    r"growth: bytes written a byte.* loading (\d+) rows in transactions",
    r"a point SELECT in(?:side)? a transaction.* of \d{5,}",
    r"revalidating an unchanged view",
    r"a fresh process: open",
]


def read(path):
    """What run it was; cases {title: (bench, unit, {lane: median})}; goals {bench: [met]}."""
    run, cases, goals = ("full", "?"), {}, {}
    for line in Path(path).read_text().splitlines():
        kind, *fields = line.split("\t")
        if kind == "run":
            run = tuple(fields)
        elif kind == "lane":
            bench, title, unit, lane, median = fields[:5]
            cases.setdefault(title, (bench, unit, {}))[2][lane] = float(median)
        elif kind == "goal":
            goals.setdefault(fields[0], []).append(fields[-1] == "1")
    return run, cases, goals


def chosen(pattern, cases):
    found = [(re.match(pattern, title), title) for title in cases]
    found = [(match, title) for match, title in found if match]
    if found and found[0][0].groups():
        return [max(found, key=lambda one: int(one[0].group(1)))[1]]
    return [title for _, title in found]


def number(value):
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def best(lanes, pattern, callback):
    """(median, lane) of the best lane of a column."""
    found = [
        (median, lane)
        for lane, median in lanes.items()
        if re.match(pattern, lane) and "not counted" not in lane and (callback or "callback" not in lane)
    ]
    return min(found, default=None)


def ratio(ours, others):
    ours, others = [min((cell[0] for cell in some if cell), default=None) for some in (ours, others)]
    return f"{ours / others:.2f}" if ours and others else ""


def row(title, case, special, suffix):
    bench, unit, lanes = case
    is_order = special not in (None, COLD)
    patterns = {column: special.get(column, "$") for column in COLUMNS} if is_order else {**COLUMNS, **(special or {})}
    cells = {column: best(lanes, pattern, is_order) for column, pattern in patterns.items()}
    texts = [
        "" if not cell else number(cell[0]) + (" (hashed key)" if "hashed" in cell[1] else "") for cell in cells.values()
    ]
    texts.append(ratio([cells["colfam SQL"]], [cells["SQLite"]]))
    texts.append(ratio([cells[column] for column in OURS], [cells[column] for column in STORES]))
    return f"| {bench} | {title}{suffix} | {unit} | " + " | ".join(texts) + " |"


def met(goals):
    """How many goals are met, in all and bench by bench."""
    parts = [f"{bench} {sum(some)} of {len(some)}" for bench, some in sorted(goals.items())]
    every = [one for some in goals.values() for one in some]
    return f"{sum(every)} of {len(every)} goals of the benches are met ({', '.join(parts)})."


def table(run, cases, goals):
    scale, processors = run
    rows = []
    for shown in SHOWN:
        pattern, special, suffix = (shown, None, "") if isinstance(shown, str) else shown
        rows += [line for title in chosen(pattern, cases) if (line := row(title, cases[title], special, suffix)) not in rows]
    if len(rows) > ROWS_MAX:
        sys.exit(f"{len(rows)} rows are too many for a table: choose fewer in SHOWN")
    return "\n".join(
        [
            BEGIN,
            f"Measured by `make bench{' QUICK=1' if scale == 'quick' else ''}` on {processors} processors"
            f"{', on smaller tables than the full run' if scale == 'quick' else ', the full run'}: medians of rounds in turns "
            "(growth: one run), less is better; versions and settings are printed there. colfam SQL is the way an application "
            "writes it (IN, EXISTS, a statement a row), packed keys are many in one argument, colfam.h is for C inside the "
            "application's transaction, the engine stands alone, without SQL and log; the floor is what SQLite itself costs "
            "with a table in memory, or the limit. SQL : SQLite is the first of these columns to SQLite's; colfam : store is "
            "the best of colfam's four to the best of RocksDB, LevelDB and LMDB, which know no SQL. An empty cell: there is "
            f"no such way, or it is not measured. {met(goals)} A goal is a ratio or a limit, named with each figure that "
            "`make bench` prints, and so is what was reached.",
            "",
            "| | work | unit | " + " | ".join(COLUMNS) + " | SQL : SQLite | colfam : store |",
            "|---|---|---|" + "---|" * (len(COLUMNS) + 2),
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
