-- name: load
SELECT {columns} FROM item WHERE seq IN (SELECT value FROM json_each(?)) ORDER BY seq;

-- name: pick_same_moment
-- The rows behind a position, in three steps: a comparison of all three columns at once would use only two of the
-- index, and step over all rows that were posted in one moment again and again.
SELECT {columns}, body.value FROM item JOIN body USING (seq)
WHERE ready = 1 AND rank = ? AND due_at = ? AND seq > ? ORDER BY seq LIMIT ?;

-- name: pick_same_rank
SELECT {columns}, body.value FROM item JOIN body USING (seq)
WHERE ready = 1 AND rank = ? AND due_at > ? ORDER BY due_at, seq LIMIT ?;

-- name: pick_lower_rank
SELECT {columns}, body.value FROM item JOIN body USING (seq)
WHERE ready = 1 AND rank > ? ORDER BY rank, due_at, seq LIMIT ?;

-- name: come_due
SELECT {columns} FROM item WHERE ready = 0 AND status = 'pending' AND due_at <= ? ORDER BY due_at LIMIT ?;

-- name: outlived
SELECT {columns} FROM item WHERE expires_at > 0 AND finished_at = 0 AND expires_at <= ? ORDER BY expires_at LIMIT ?;

-- name: bodies
SELECT seq, value FROM body WHERE seq IN (SELECT value FROM json_each(?));

-- name: results
SELECT seq, value FROM result WHERE seq IN (SELECT value FROM json_each(?));

-- name: insert_item
INSERT INTO item ({columns}) VALUES ({marks});

-- name: insert_body
INSERT INTO body (seq, value) VALUES (?, ?);

-- name: insert_result
INSERT INTO result (seq, value) VALUES (?, ?);

-- name: stamp
UPDATE item SET fetched_at = ? WHERE seq = ? AND rev = ? AND fetched_at = 0;

-- name: next_due
SELECT min(due_at) FROM item WHERE ready = 0 AND status = 'pending';

-- name: next_expiry
SELECT min(expires_at) FROM item WHERE expires_at > 0 AND finished_at = 0;

-- name: oldest_ready
-- The earliest of each priority stands at the head of its part of the index: one step a priority, however many wait.
WITH RECURSIVE head (rank, due_at) AS (
    SELECT * FROM (SELECT rank, due_at FROM item WHERE ready = 1 ORDER BY rank, due_at, seq LIMIT 1)
    UNION ALL
    SELECT next.rank, next.due_at FROM head CROSS JOIN item AS next ON next.seq = (
        SELECT seq FROM item WHERE ready = 1 AND rank > head.rank ORDER BY rank, due_at, seq LIMIT 1
    )
)
SELECT min(due_at) FROM head;

-- name: pending
SELECT (SELECT count(*) FROM item WHERE ready = 1)
     + (SELECT count(*) FROM item WHERE ready = 0 AND status = 'pending');

-- name: leases
SELECT {columns} FROM item WHERE status = 'processing';

-- name: state
SELECT id_key, next_seq, epoch FROM state;

-- name: new_state
INSERT INTO state (id_key, next_seq, epoch) VALUES (?, 1, 0);

-- name: start
UPDATE state SET epoch = epoch + 1;

-- name: reserve
UPDATE state SET next_seq = ?;
