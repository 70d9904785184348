// An application in Node that loads the extension: with better-sqlite3, and with node:sqlite where Node has
// it; in the main thread and in two workers at once. Run by tests/node.sh, which sets NODE_PATH.
'use strict';

const assert = require('assert');
const fs = require('fs');
const os = require('os');
const path = require('path');
const { Worker, isMainThread, workerData } = require('worker_threads');

const extension = process.env.COLFAM_SO.replace(/\.so$/, '');

// The two libraries under one face; null without node:sqlite (Node 22.5, and 22.13 without a flag).
function openBetter(file) {
  const Database = require('better-sqlite3');
  const db = new Database(file);
  db.loadExtension(extension);
  return db;
}

function builtin() {
  try {
    process.removeAllListeners('warning');
    return require('node:sqlite');
  } catch {
    return null;
  }
}

function openBuiltin(file) {
  const db = new (builtin().DatabaseSync)(file, { allowExtension: true });
  db.enableLoadExtension(true);
  db.loadExtension(extension + '.so');
  db.enableLoadExtension(false);
  return db;
}

// Rows as plain objects: node:sqlite gives them no prototype.
function rows(db, sql, ...values) {
  return db.prepare(sql).all(...values).map((row) => ({ ...row }));
}

function fill(db) {
  db.exec(`CREATE VIRTUAL TABLE items USING colfam(id INTEGER PRIMARY KEY, name TEXT, data BLOB);
           CREATE TABLE totals(n INTEGER); BEGIN`);
  const insert = db.prepare('INSERT INTO items VALUES (?, ?, ?)');
  for (let i = 0; i < 1000; i++) insert.run(2 * i, `item ${2 * i}`, Buffer.from([i % 256]));
  db.exec("INSERT INTO totals VALUES (1000); COMMIT; INSERT INTO items(items) VALUES ('flush')");
}

function read(db) {
  const asked = JSON.stringify([1998, 3, 4, 0, 4]);
  const list = 'FROM items WHERE id IN (SELECT value FROM json_each(?))';
  assert.deepStrictEqual(rows(db, `SELECT id, name ${list}`, asked), [
    { id: 0, name: 'item 0' },
    { id: 4, name: 'item 4' },
    { id: 1998, name: 'item 1998' },
  ]);
  assert.match(rows(db, `EXPLAIN QUERY PLAN SELECT name ${list}`, asked)[0].detail, /:multi-get id$/);
  const exists = 'SELECT EXISTS (SELECT 1 FROM items WHERE id = ?) AS it';
  assert.deepStrictEqual([...rows(db, exists, 44), ...rows(db, exists, 45)], [{ it: 1 }, { it: 0 }]);
  assert.deepStrictEqual(Buffer.from(rows(db, 'SELECT data FROM items WHERE id = 300')[0].data), Buffer.from([150]));
  const last = [];
  for (const row of db.prepare('SELECT id FROM items ORDER BY id DESC').iterate()) {
    last.push(row.id);
    if (last.length === 3) break;
  }
  assert.deepStrictEqual(last, [1998, 1996, 1994]);
}

const counts = 'SELECT count(*) AS items, (SELECT n FROM totals) AS total FROM items';

function change(db) {
  db.exec('BEGIN; DELETE FROM items; UPDATE totals SET n = 0; SAVEPOINT s; INSERT INTO items(id) VALUES (7)');
  assert.deepStrictEqual(rows(db, counts), [{ items: 1, total: 0 }]);
  db.exec('ROLLBACK TO s');
  assert.deepStrictEqual(rows(db, counts), [{ items: 0, total: 0 }]);
  db.exec('ROLLBACK');
  assert.deepStrictEqual(rows(db, counts), [{ items: 1000, total: 1000 }]);
  db.exec('BEGIN; DELETE FROM items WHERE id < 10; UPDATE totals SET n = n - 5; COMMIT');
  assert.throws(() => db.exec('INSERT INTO items(id) VALUES (10)'), /UNIQUE constraint failed: items\.id/);
}

function scenario(open) {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'colfam-node-'));
  try {
    const file = path.join(folder, 'app.db');
    let db = open(file);
    const version = rows(db, 'SELECT sqlite_version() AS v')[0].v;
    fill(db);
    read(db);
    change(db);
    db.close();
    db = open(file);
    assert.deepStrictEqual(rows(db, counts), [{ items: 995, total: 995 }]);
    assert.deepStrictEqual(rows(db, "SELECT * FROM colfam_check('items')"), []);
    db.exec('DROP TABLE items');
    db.close();
    assert.deepStrictEqual(fs.readdirSync(folder), ['app.db']);
    return version;
  } finally {
    fs.rmSync(folder, { recursive: true });
  }
}

// One copy of SQLite a process: the extension refuses the second one (ext/colfam.c).
const open = { better: openBetter, builtin: openBuiltin };

function inWorkers(library) {
  const ended = (worker) =>
    new Promise((resolve, reject) => {
      worker.once('error', reject);
      worker.once('exit', (code) => (code ? reject(new Error(`exit code ${code}`)) : resolve()));
    });
  return Promise.all([1, 2].map(() => ended(new Worker(__filename, { workerData: library }))));
}

async function main() {
  const library = process.argv[2];
  if (library === 'builtin' && !builtin()) {
    console.log(`node ${process.version}: no node:sqlite`);
    return;
  }
  const version = scenario(open[library]);
  await inWorkers(library);
  const name = library === 'builtin' ? 'node:sqlite' : 'better-sqlite3';
  console.log(`node ${process.version}, ${name}, SQLite ${version}: main thread and two workers ok`);
}

if (isMainThread) {
  main().catch((error) => {
    console.error(error);
    process.exitCode = 1;
  });
} else {
  scenario(open[workerData]);
}
