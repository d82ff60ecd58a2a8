-- What a move asks of a file. {…} is a table's, see tables.py.

-- name: read
SELECT {columns} FROM {table} WHERE ({key}) > ({key_marks}) ORDER BY {key} LIMIT ?;

-- name: last
SELECT {key} FROM {table} ORDER BY {key_down} LIMIT 1;

-- name: write
INSERT INTO {table} ({columns}) VALUES ({marks});

-- name: facts
SELECT id_key, paused, match, next_seq, move FROM state;

-- name: holds
SELECT EXISTS (SELECT 1 FROM item) OR EXISTS (SELECT 1 FROM body) OR EXISTS (SELECT 1 FROM result)
    OR EXISTS (SELECT 1 FROM attempt);

-- name: mark
UPDATE state SET move = ?;

-- name: forget_state
DELETE FROM state;

-- name: begin
INSERT INTO state (id_key, next_seq, epoch, paused, match, move) VALUES (?, ?, ?, ?, ?, ?);

-- name: counts
SELECT status, number FROM count;

-- name: forget_counts
DELETE FROM count;

-- name: count
INSERT INTO count (status, number) VALUES (?, ?);

-- name: tokens
SELECT hash, id, user, queues, rights, created_at, expires_at, used_at FROM token ORDER BY hash;

-- name: add_token
INSERT INTO token (hash, id, user, queues, rights, created_at, expires_at, used_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?);

-- name: remove_token
DELETE FROM token WHERE hash = ?;

-- name: unmark_tokens
DELETE FROM move;

-- name: mark_tokens
INSERT INTO move (mark) VALUES (?);
