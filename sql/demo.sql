-- The main job of colfam on real data, in the plain sqlite3 shell: `make demo`, or from the top folder
-- `sqlite3 -batch < sql/demo.sql`. The data is the Unicode character database (Debian: unicode-data).
-- tests/demo_check.sh recomputes from the same file everything that is printed here.

.bail on
.shell rm -rf ./build/demo.db ./build/demo.db-*
.open ./build/demo.db
.load ./build/colfam

-- The file's lines are CODE;NAME;... with CODE in hexadecimal. They wait in a temporary table.
CREATE TEMP TABLE lines(
  hex, name, category, combining, bidi, decomposition, decimal, digit, numeric, mirrored, old_name,
  comment, upper, lower, title);
.mode list
.separator ";"
.import --schema temp /usr/share/unicode/UnicodeData.txt lines
.separator "|"
CREATE TEMP TABLE source AS
  WITH padded AS (SELECT substr('00000' || hex, -6) AS h, '123456789ABCDEF' AS d, * FROM lines)
  SELECT (instr(d, substr(h, 1, 1)) << 20) + (instr(d, substr(h, 2, 1)) << 16)
       + (instr(d, substr(h, 3, 1)) << 12) + (instr(d, substr(h, 4, 1)) << 8)
       + (instr(d, substr(h, 5, 1)) << 4) + instr(d, substr(h, 6, 1)) AS code,
         name, category, combining, bidi, decomposition, decimal, digit, numeric, mirrored, old_name,
         comment, upper, lower, title
  FROM padded;

.print "== Load: a colfam table beside an ordinary one, in one transaction"
CREATE VIRTUAL TABLE characters USING colfam(
  code INTEGER PRIMARY KEY, name TEXT NOT NULL, category TEXT NOT NULL, combining INTEGER, bidi TEXT,
  decomposition TEXT, decimal TEXT, digit TEXT, numeric TEXT, mirrored TEXT, old_name TEXT,
  comment TEXT, upper TEXT, lower TEXT, title TEXT);
CREATE TABLE ordinary(
  code INTEGER PRIMARY KEY, name TEXT NOT NULL, category TEXT NOT NULL, combining INTEGER, bidi TEXT,
  decomposition TEXT, decimal TEXT, digit TEXT, numeric TEXT, mirrored TEXT, old_name TEXT,
  comment TEXT, upper TEXT, lower TEXT, title TEXT);
BEGIN;
INSERT INTO characters SELECT * FROM source;
INSERT INTO ordinary SELECT * FROM source;
COMMIT;
CREATE TEMP VIEW differing AS
  SELECT count(*) AS rows FROM (
    SELECT * FROM (SELECT * FROM characters EXCEPT SELECT * FROM ordinary)
    UNION ALL
    SELECT * FROM (SELECT * FROM ordinary EXCEPT SELECT * FROM characters));
SELECT printf('characters: %d rows; ordinary: %d rows; rows that differ: %d',
              (SELECT count(*) FROM characters), (SELECT count(*) FROM ordinary), rows) FROM differing;
-- So far the rows are in the log. Small databases may leave them there; here they go into a sorted file.
INSERT INTO characters(characters) VALUES ('flush');
SELECT printf('after a flush: %d file, %d rows, code %s to %s', count(*), sum(rows), min(smallest),
              max(largest)) FROM colfam_files('characters');

-- Counters are shown as what moved since they were noted.
CREATE TEMP TABLE noted(name TEXT PRIMARY KEY, value INTEGER);
CREATE TEMP VIEW moved AS
  SELECT now.name, now.value - noted.value AS moved, now.meaning
  FROM colfam_stats AS now JOIN noted USING (name)
  WHERE now.table_name = 'characters';

.print
.print "== EXISTS of unassigned code points: the filter answers, no block is read"
REPLACE INTO noted SELECT name, value FROM colfam_stats WHERE table_name = 'characters';
CREATE TEMP TABLE unassigned(code);
INSERT INTO unassigned VALUES (888), (889), (896), (907), (909), (930), (1328), (1367), (1368), (1419);
EXPLAIN QUERY PLAN
SELECT count(*) FROM unassigned
WHERE EXISTS (SELECT 1 FROM characters WHERE characters.code = unassigned.code);
SELECT printf('of %d code points %d are assigned', (SELECT count(*) FROM unassigned), count(*))
FROM unassigned
WHERE EXISTS (SELECT 1 FROM characters WHERE characters.code = unassigned.code);
.mode column
.headers on
SELECT * FROM moved WHERE name IN ('probes', 'probe_absent', 'blocks_read') ORDER BY name;
.mode list
.headers off

.print
.print "== EXISTS of assigned code points: the probe goes on to the key, no value is touched"
REPLACE INTO noted SELECT name, value FROM colfam_stats WHERE table_name = 'characters';
CREATE TEMP TABLE assigned(code);
INSERT INTO assigned VALUES (65), (233), (937), (1046), (8364), (9731), (9835), (65533), (128512), (129419);
EXPLAIN QUERY PLAN
SELECT count(*) FROM assigned
WHERE EXISTS (SELECT 1 FROM characters WHERE characters.code = assigned.code);
SELECT printf('of %d code points %d are assigned', (SELECT count(*) FROM assigned), count(*))
FROM assigned
WHERE EXISTS (SELECT 1 FROM characters WHERE characters.code = assigned.code);
.mode column
.headers on
SELECT * FROM moved WHERE name IN ('probes', 'probe_absent') ORDER BY name;
.mode list
.headers off

.print
.print "== An IN-list is one batched multi-get"
REPLACE INTO noted SELECT name, value FROM colfam_stats WHERE table_name = 'characters';
EXPLAIN QUERY PLAN
SELECT name FROM characters WHERE code IN (65, 233, 937, 1046, 8364, 9731, 128512, 888);
SELECT printf('U+%04X', code), char(code), category, name FROM characters
WHERE code IN (65, 233, 937, 1046, 8364, 9731, 128512, 888);
.mode column
.headers on
SELECT * FROM moved
WHERE name IN ('gets', 'multi_gets', 'multi_get_keys', 'multi_get_filter_passes', 'multi_get_blocks')
ORDER BY name;
.mode list
.headers off

.print
.print "== A range is one seek and a walk, in either direction"
EXPLAIN QUERY PLAN
SELECT name FROM characters WHERE code BETWEEN 9812 AND 9823 ORDER BY code DESC LIMIT 4;
SELECT printf('U+%04X', code), char(code), name FROM characters
WHERE code BETWEEN 9812 AND 9823 ORDER BY code DESC LIMIT 4;

.print
.print "== A savepoint is rolled back: only what was written since it is undone"
BEGIN;
INSERT INTO characters(code, name, category) VALUES (57345, 'FIRST OF OURS', 'Co');
SAVEPOINT capitals;
DELETE FROM characters WHERE category = 'Lu';
SELECT printf('without capital letters: %d rows', count(*)) FROM characters;
ROLLBACK TO capitals;
SELECT printf('rolled back to the savepoint: %d rows', count(*)) FROM characters;
ROLLBACK;
SELECT printf('rolled back altogether: %d rows', count(*)) FROM characters;

.print
.print "== One commit over both tables: all of it or nothing"
BEGIN;
INSERT INTO characters(code, name, category) VALUES (57345, 'LOST', 'Co');
INSERT INTO ordinary(code, name, category) VALUES (57345, 'LOST', 'Co');
ROLLBACK;
BEGIN;
UPDATE characters SET comment = 'seen in the demo' WHERE code = 9731;
UPDATE ordinary SET comment = 'seen in the demo' WHERE code = 9731;
INSERT INTO characters(code, name, category) VALUES (57345, 'FIRST OF OURS', 'Co');
INSERT INTO ordinary(code, name, category) VALUES (57345, 'FIRST OF OURS', 'Co');
DELETE FROM characters WHERE code = 65;
DELETE FROM ordinary WHERE code = 65;
COMMIT;
SELECT printf('characters: %d rows; ordinary: %d rows; rows that differ: %d',
              (SELECT count(*) FROM characters), (SELECT count(*) FROM ordinary), rows) FROM differing;

.print
.print "== Rows loaded a second, each table alone in a transaction, its commit included"
CREATE VIRTUAL TABLE timed_colfam USING colfam(
  code INTEGER PRIMARY KEY, name TEXT NOT NULL, category TEXT NOT NULL, combining INTEGER, bidi TEXT,
  decomposition TEXT, decimal TEXT, digit TEXT, numeric TEXT, mirrored TEXT, old_name TEXT,
  comment TEXT, upper TEXT, lower TEXT, title TEXT);
CREATE TABLE timed_ordinary(
  code INTEGER PRIMARY KEY, name TEXT NOT NULL, category TEXT NOT NULL, combining INTEGER, bidi TEXT,
  decomposition TEXT, decimal TEXT, digit TEXT, numeric TEXT, mirrored TEXT, old_name TEXT,
  comment TEXT, upper TEXT, lower TEXT, title TEXT);
CREATE TEMP TABLE clock(step TEXT PRIMARY KEY, day REAL);
INSERT INTO clock VALUES ('start', julianday('now'));
INSERT INTO timed_colfam SELECT * FROM source;
INSERT INTO clock VALUES ('colfam', julianday('now'));
INSERT INTO timed_ordinary SELECT * FROM source;
INSERT INTO clock VALUES ('ordinary', julianday('now'));
.mode column
.headers on
WITH t AS (SELECT step, (day - lag(day) OVER (ORDER BY day)) * 86400 AS seconds FROM clock)
SELECT step AS "table", printf('%.3f', seconds) AS seconds,
       printf('%d', (SELECT count(*) FROM source) / max(seconds, 0.001)) AS rows_a_second
FROM t WHERE seconds IS NOT NULL;
.mode list
.headers off
DROP TABLE timed_colfam;
DROP TABLE timed_ordinary;

.print
.print "== Closed and opened again"
.open ./build/demo.db
.load ./build/colfam
SELECT printf('characters: %d rows; ordinary: %d rows; rows that differ: %d',
              (SELECT count(*) FROM characters), (SELECT count(*) FROM ordinary),
              (SELECT count(*) FROM (SELECT * FROM characters EXCEPT SELECT * FROM ordinary))
              + (SELECT count(*) FROM (SELECT * FROM ordinary EXCEPT SELECT * FROM characters)));
SELECT printf('U+%04X', code), name, comment FROM characters WHERE code IN (65, 9731, 57345);
SELECT printf('problems found by colfam_check: %d', count(*)) FROM colfam_check('characters');

.print
.print "== Bytes on disk"
INSERT INTO characters(characters) VALUES ('compact');
.mode column
.headers on
SELECT 'ordinary table' AS what, sum(pgsize) AS bytes FROM dbstat WHERE name = 'ordinary'
UNION ALL
SELECT 'characters, sorted files', sum(bytes) FROM colfam_files('characters')
UNION ALL
SELECT 'characters, shadow tables', sum(pgsize) FROM dbstat
WHERE name IN ('characters_cflog', 'characters_cffile', 'characters_cfmeta');
.mode list
.headers off
