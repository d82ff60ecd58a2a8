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

-- name: pick_match_same_moment
-- The same of the rows with one text in a column of `match`, by that column's index.
SELECT {columns}, body.value FROM item JOIN body USING (seq)
WHERE ready = 1 AND {match} <> '' AND {match} = ? AND rank = ? AND due_at = ? AND seq > ? ORDER BY seq LIMIT ?;

-- name: pick_match_same_rank
SELECT {columns}, body.value FROM item JOIN body USING (seq)
WHERE ready = 1 AND {match} <> '' AND {match} = ? AND rank = ? AND due_at > ? ORDER BY due_at, seq LIMIT ?;

-- name: pick_match_lower_rank
SELECT {columns}, body.value FROM item JOIN body USING (seq)
WHERE ready = 1 AND {match} <> '' AND {match} = ? AND rank > ? ORDER BY rank, due_at, seq LIMIT ?;

-- name: come_due
SELECT {columns} FROM item WHERE ready = 0 AND status = 'pending' AND due_at <= ? ORDER BY due_at LIMIT ?;

-- name: outlived
SELECT {columns} FROM item WHERE expires_at > 0 AND finished_at = 0 AND expires_at <= ? ORDER BY expires_at LIMIT ?;

-- name: bodies
SELECT seq, value FROM body WHERE seq IN (SELECT value FROM json_each(?));

-- name: results
SELECT seq, value FROM result WHERE seq IN (SELECT value FROM json_each(?));

-- name: insert_item
INSERT INTO item ({columns}{matches}) VALUES ({marks}{match_marks});

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

-- name: one_result
SELECT value FROM result WHERE seq = ?;

-- name: floor_all
SELECT seq FROM item WHERE seq < :before ORDER BY seq DESC LIMIT 1 OFFSET :looked_at;

-- name: floor_key
SELECT seq FROM item WHERE key <> '' AND key = :source AND seq < :before ORDER BY seq DESC LIMIT 1 OFFSET :looked_at;

-- name: floor_trouble
SELECT seq FROM item WHERE status IN ('failed', 'dead', 'cancelled', 'expired') AND status = :source
AND seq < :before ORDER BY seq DESC LIMIT 1 OFFSET :looked_at;

-- name: page_all
SELECT {columns} FROM item WHERE seq < :before AND seq >= :floor AND {wanted} ORDER BY seq DESC LIMIT :limit;

-- name: page_key
SELECT {columns} FROM item WHERE key <> '' AND key = :source
AND seq < :before AND seq >= :floor AND {wanted} ORDER BY seq DESC LIMIT :limit;

-- name: page_trouble
SELECT {columns} FROM item WHERE status IN ('failed', 'dead', 'cancelled', 'expired') AND status = :source
AND seq < :before AND seq >= :floor AND {wanted} ORDER BY seq DESC LIMIT :limit;

-- name: wanted
-- What `Filter.admits` says; each list is a JSON array, which takes anything where it is empty.
(:status = '[]' OR status IN (SELECT value FROM json_each(:status)))
AND (:posted_by = '[]' OR posted_by IN (SELECT value FROM json_each(:posted_by)))
AND (:key = '[]' OR key IN (SELECT value FROM json_each(:key)))
AND (:label = '[]' OR CASE WHEN status = 'pending' AND due_at > :now
    THEN iif(attempts > 0, 'retrying', 'scheduled') ELSE status END IN (SELECT value FROM json_each(:label)));

-- name: ahead_same_moment
-- How many ready items stand before a position, of each kind at most so many: the mirror of the three steps of a pick.
SELECT count(*) FROM (SELECT 1 FROM item WHERE ready = 1 AND rank = ? AND due_at = ? AND seq < ? LIMIT ?);

-- name: ahead_same_rank
SELECT count(*) FROM (SELECT 1 FROM item WHERE ready = 1 AND rank = ? AND due_at < ? LIMIT ?);

-- name: ahead_higher_rank
SELECT count(*) FROM (SELECT 1 FROM item WHERE ready = 1 AND rank < ? LIMIT ?);

-- name: matched
SELECT match FROM state;

-- name: set_matched
UPDATE state SET match = ?;

-- name: to_match
-- All that a claim may yet take, also after a retry.
SELECT seq, value FROM item JOIN body USING (seq) WHERE seq > ? AND status <> 'finished' ORDER BY seq LIMIT ?;

-- name: set_match
UPDATE item SET match_1 = ?, match_2 = ?, match_3 = ?, match_4 = ?, match_5 = ?, match_6 = ?, match_7 = ?, match_8 = ?
WHERE seq = ?;
