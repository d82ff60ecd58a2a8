-- name: load
SELECT {columns} FROM item WHERE seq IN (SELECT value FROM json_each(?)) ORDER BY seq;

-- name: pick_same_moment
-- The rows behind a position, in three steps: a comparison of all three columns at once would use only two of the
-- index, and step over all rows that were posted in one moment again and again. The columns are those of `Candidate`.
-- What is to be skipped is left out here, and not by who reads: its body may be large.
SELECT rank, due_at, seq, expires_at, body.value FROM item JOIN body USING (seq)
WHERE ready = 1 AND rank = ? AND due_at = ? AND seq > ?
AND seq NOT IN (SELECT value FROM json_each(?)) ORDER BY seq LIMIT ?;

-- name: pick_same_rank
SELECT rank, due_at, seq, expires_at, body.value FROM item JOIN body USING (seq)
WHERE ready = 1 AND rank = ? AND due_at > ?
AND seq NOT IN (SELECT value FROM json_each(?)) ORDER BY due_at, seq LIMIT ?;

-- name: pick_lower_rank
SELECT rank, due_at, seq, expires_at, body.value FROM item JOIN body USING (seq)
WHERE ready = 1 AND rank > ?
AND seq NOT IN (SELECT value FROM json_each(?)) ORDER BY rank, due_at, seq LIMIT ?;

-- name: pick_match_same_moment
-- The same of the rows with one text in a column of `match`, by that column's index.
SELECT rank, due_at, seq, expires_at, body.value FROM item JOIN body USING (seq)
WHERE ready = 1 AND {match} <> '' AND {match} = ? AND rank = ? AND due_at = ? AND seq > ?
AND seq NOT IN (SELECT value FROM json_each(?)) ORDER BY seq LIMIT ?;

-- name: pick_match_same_rank
SELECT rank, due_at, seq, expires_at, body.value FROM item JOIN body USING (seq)
WHERE ready = 1 AND {match} <> '' AND {match} = ? AND rank = ? AND due_at > ?
AND seq NOT IN (SELECT value FROM json_each(?)) ORDER BY due_at, seq LIMIT ?;

-- name: pick_match_lower_rank
SELECT rank, due_at, seq, expires_at, body.value FROM item JOIN body USING (seq)
WHERE ready = 1 AND {match} <> '' AND {match} = ? AND rank > ?
AND seq NOT IN (SELECT value FROM json_each(?)) ORDER BY rank, due_at, seq LIMIT ?;

-- name: come_due
SELECT {columns} FROM item WHERE ready = 0 AND status = 'pending' AND due_at <= ? ORDER BY due_at LIMIT ?;

-- name: outlived
SELECT {columns} FROM item WHERE expires_at > 0 AND finished_at = 0 AND expires_at <= ? ORDER BY expires_at LIMIT ?;

-- name: mine
SELECT {columns} FROM item WHERE posted_by = ? AND posted_by <> '' AND fetched_at = 0 AND seq < ?
ORDER BY seq DESC LIMIT ?;

-- name: newest
SELECT {columns} FROM item WHERE seq < ? ORDER BY seq DESC LIMIT ?;

-- name: bodies
SELECT seq, value FROM body WHERE seq IN (SELECT value FROM json_each(?));

-- name: body_sizes
SELECT seq, length(CAST(value AS BLOB)) FROM body WHERE seq IN (SELECT value FROM json_each(?));

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

-- name: key_holders
-- Texts may travel in a JSON parameter here, since a key has no controls.
SELECT {columns} FROM item WHERE seq IN (
    SELECT seq FROM json_each(?) CROSS JOIN item
    ON held = 1 AND item.key = json_extract(value, '$[1]') AND posted_by = json_extract(value, '$[0]')
);

-- name: shared_key_holders
SELECT {columns} FROM item WHERE seq IN (
    SELECT (
        SELECT seq FROM item
        WHERE held = 1 AND item.key = json_each.value AND (finished_at = 0 OR posted_at > ?2) LIMIT 1
    ) FROM json_each(?1)
);

-- name: past_keys
SELECT {columns} FROM item WHERE held = 1 AND finished_at > 0 AND posted_at <= ? ORDER BY posted_at LIMIT ?;

-- name: oldest_passing_key
SELECT min(posted_at) FROM item WHERE held = 1 AND finished_at > 0;

-- name: next_due
SELECT min(due_at) FROM item WHERE ready = 0 AND status = 'pending';

-- name: next_expiry
SELECT min(expires_at) FROM item WHERE expires_at > 0 AND finished_at = 0;

-- name: outstayed
-- What a producer was not told, and what need not be: all but finished items have 0 in the index. The last column is how
-- large they are.
SELECT {columns}, length(body.value) + coalesce((SELECT length(value) FROM result WHERE seq = item.seq), 0)
FROM item JOIN body USING (seq)
WHERE status = ? AND CASE status WHEN 'finished' THEN fetched_at ELSE 0 END = 0
  AND finished_at <= ? AND finished_at > 0 AND held = 0
ORDER BY finished_at, seq LIMIT ?;

-- name: outstayed_fetched
SELECT {columns}, length(body.value) + coalesce((SELECT length(value) FROM result WHERE seq = item.seq), 0)
FROM item JOIN body USING (seq)
WHERE status = ? AND CASE status WHEN 'finished' THEN fetched_at ELSE 0 END BETWEEN 1 AND ?
  AND finished_at > 0 AND held = 0
ORDER BY CASE status WHEN 'finished' THEN fetched_at ELSE 0 END, finished_at, seq LIMIT ?;

-- name: delete_items
DELETE FROM item WHERE seq IN (SELECT value FROM json_each(?));

-- name: delete_bodies
DELETE FROM body WHERE seq IN (SELECT value FROM json_each(?));

-- name: delete_results
DELETE FROM result WHERE seq IN (SELECT value FROM json_each(?));

-- name: delete_attempts
DELETE FROM attempt WHERE seq IN (SELECT value FROM json_each(?));

-- name: save_attempt
INSERT OR REPLACE INTO attempt (seq, attempts, worker, started_at, ended_at, ending, error)
VALUES (?, ?, ?, ?, ?, ?, ?);

-- name: forget_attempt
DELETE FROM attempt WHERE seq = ? AND attempts = ?;

-- name: attempts
SELECT attempts, worker, started_at, ended_at, ending, error FROM attempt WHERE seq = ? ORDER BY attempts DESC;

-- name: count
INSERT INTO count (status, number) VALUES (?, ?)
ON CONFLICT (status) DO UPDATE SET number = number + excluded.number;

-- name: counts
SELECT status, number FROM count;

-- name: pause
UPDATE state SET paused = ?;

-- name: paused
SELECT paused FROM state;

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


-- name: leases
SELECT {columns} FROM item WHERE status = 'processing';

-- name: state
SELECT id_key, next_seq, epoch FROM state;

-- name: new_state
INSERT INTO state (id_key, next_seq, epoch) VALUES (?, 1, 0);

-- name: start
-- What was moved here is served: it is this store's own now.
UPDATE state SET epoch = epoch + 1, move = '';

-- name: moved
SELECT move FROM state;

-- name: reserve
UPDATE state SET next_seq = ?;

-- name: one_result
SELECT value FROM result WHERE seq = ?;

-- name: floor_all
SELECT seq FROM item WHERE seq < :before ORDER BY seq DESC LIMIT 1 OFFSET :looked_at;

-- name: floor_key
SELECT seq FROM item WHERE key <> '' AND key = :source AND seq < :before ORDER BY seq DESC LIMIT 1 OFFSET :looked_at;

-- name: floor_trouble
SELECT seq FROM item WHERE status <> 'pending' AND status <> 'processing' AND status <> 'finished' AND status = :source
AND seq < :before ORDER BY seq DESC LIMIT 1 OFFSET :looked_at;

-- name: page_all
SELECT {columns} FROM item WHERE seq < :before AND seq >= :floor AND {wanted} ORDER BY seq DESC LIMIT :limit;

-- name: page_key
SELECT {columns} FROM item WHERE key <> '' AND key = :source
AND seq < :before AND seq >= :floor AND {wanted} ORDER BY seq DESC LIMIT :limit;

-- name: page_trouble
SELECT {columns} FROM item WHERE status <> 'pending' AND status <> 'processing' AND status <> 'finished' AND status = :source
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
