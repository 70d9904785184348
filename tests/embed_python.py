#!/usr/bin/python3
"""An application in Python that loads the extension with the sqlite3 module of the standard library."""

import os
import sqlite3
import tempfile
import unittest

EXTENSION = os.environ.get("COLFAM_SO", os.path.abspath("build/colfam.so"))


def connect(path):
    db = sqlite3.connect(path, isolation_level=None)
    db.enable_load_extension(True)
    db.load_extension(EXTENSION.removesuffix(".so"))
    db.enable_load_extension(False)
    return db


class Embedding(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.path = os.path.join(self.folder.name, "embed.db")
        self.db = connect(self.path)
        self.db.execute("CREATE VIRTUAL TABLE items USING colfam(id INTEGER PRIMARY KEY, name TEXT, b BLOB)")
        self.db.execute("CREATE TABLE totals(n INTEGER)")

    def tearDown(self):
        self.db.close()
        self.folder.cleanup()

    def rows(self, sql, *values):
        return self.db.execute(sql, values).fetchall()

    def fill(self):
        self.db.execute("BEGIN")
        self.db.executemany(
            "INSERT INTO items VALUES (?, ?, ?)", ((2 * i, f"item {2 * i}", bytes([i % 256])) for i in range(5000))
        )
        self.db.execute("INSERT INTO totals VALUES (5000)")
        self.db.execute("COMMIT")
        self.db.execute("INSERT INTO items(items) VALUES ('flush')")

    def test_lookups(self):
        self.fill()
        asked = [9998, 3, 4, 0]
        marks = ",".join("?" * len(asked))
        self.assertEqual(
            self.rows(f"SELECT id, name, b FROM items WHERE id IN ({marks})", *asked),
            [(0, "item 0", b"\0"), (4, "item 4", b"\2"), (9998, "item 9998", b"\x87")],
        )
        plan = self.rows(f"EXPLAIN QUERY PLAN SELECT name FROM items WHERE id IN ({marks})", *asked)
        self.assertIn("multi-get id", plan[0][3])
        self.assertEqual(self.rows("SELECT EXISTS (SELECT 1 FROM items WHERE id = ?)", 44), [(1,)])
        self.assertEqual(self.rows("SELECT EXISTS (SELECT 1 FROM items WHERE id = ?)", 45), [(0,)])

    def test_rollback_then_atomic_commit_then_reopen(self):
        self.fill()
        self.db.execute("BEGIN")
        self.db.execute("DELETE FROM items")
        self.db.execute("DELETE FROM totals")
        self.assertEqual(self.rows("SELECT count(*) FROM items"), [(0,)])
        self.db.execute("ROLLBACK")
        self.assertEqual(self.rows("SELECT count(*), (SELECT n FROM totals) FROM items"), [(5000, 5000)])
        self.db.execute("BEGIN")
        self.db.execute("DELETE FROM items WHERE id < 10")
        self.db.execute("UPDATE totals SET n = n - 5")
        self.db.execute("COMMIT")
        self.db.close()
        self.db = connect(self.path)
        self.assertEqual(self.rows("SELECT count(*), (SELECT n FROM totals) FROM items"), [(4995, 4995)])
        self.assertEqual(self.rows("SELECT min(id) FROM items"), [(10,)])
        self.assertEqual(self.rows("SELECT * FROM colfam_check('items')"), [])

    def test_error_is_an_exception_with_sqlite_wording(self):
        self.fill()
        with self.assertRaisesRegex(sqlite3.IntegrityError, "UNIQUE constraint failed: items.id"):
            self.db.execute("INSERT INTO items VALUES (4, 'again', NULL)")


if __name__ == "__main__":
    unittest.main()
