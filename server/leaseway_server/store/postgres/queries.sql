-- The statements of a queue's turns and lists. $1 is the queue, unless it says otherwise; whatever is large is last.
-- Every name of ours has its schema, so that nothing depends on a search path.

-- name: begin
BEGIN ISOLATION LEVEL READ COMMITTED;

-- name: commit
COMMIT;

-- name: commit_light
SET LOCAL synchronous_commit = off; COMMIT;

-- name: load
-- The numbers come in order, and so the rows are locked. Each is looked for by itself, as in all that follows: there is
-- one way to find it then, whatever the planner knows, or knew once, of how large the table is.
SELECT found.* FROM unnest($2::bigint[]) AS asked (seq) CROSS JOIN LATERAL (
    SELECT {columns} FROM leaseway.item WHERE queue = $1 AND item.seq = asked.seq LIMIT 1 FOR UPDATE
) AS found;

-- name: look
SELECT found.* FROM unnest($2::bigint[]) AS asked (seq) CROSS JOIN LATERAL (
    SELECT {columns} FROM leaseway.item WHERE queue = $1 AND item.seq = asked.seq LIMIT 1
) AS found;

-- name: time
-- The clock and not `now()`, which is when the transaction began.
SELECT floor(extract(epoch FROM pg_catalog.clock_timestamp()) * 1000)::bigint, paused, move FROM leaseway.queue
WHERE id = $1;

-- name: pick_to_take
-- What another server has locked is left to it; the rest is locked. A pick ends with the body that makes it too long.
WITH picked AS MATERIALIZED (
    SELECT {columns} FROM leaseway.item
    WHERE queue = $1 AND ready = 1 AND (rank, due_at, seq) > ($2, $3, $4) AND seq <> ALL ($5::bigint[])
    ORDER BY rank, due_at, seq LIMIT $6 FOR UPDATE SKIP LOCKED
), sized AS (
    SELECT picked.*, body.value, sum(octet_length(body.value)) OVER so_far - octet_length(body.value) AS size
    FROM picked CROSS JOIN LATERAL (SELECT value FROM leaseway.body WHERE queue = $1 AND seq = picked.seq LIMIT 1) AS body
    WINDOW so_far AS (ORDER BY rank, due_at, picked.seq ROWS UNBOUNDED PRECEDING)
)
SELECT rank, due_at, seq, expires_at, value, {columns} FROM sized WHERE size <= $7 ORDER BY rank, due_at, seq;

-- name: pick_to_look
-- What is only looked at is not locked: most of it is taken by nobody.
WITH picked AS MATERIALIZED (
    SELECT rank, due_at, seq, expires_at FROM leaseway.item
    WHERE queue = $1 AND ready = 1 AND (rank, due_at, seq) > ($2, $3, $4) AND seq <> ALL ($5::bigint[])
    ORDER BY rank, due_at, seq LIMIT $6
), sized AS (
    SELECT picked.*, body.value, sum(octet_length(body.value)) OVER so_far - octet_length(body.value) AS size
    FROM picked CROSS JOIN LATERAL (SELECT value FROM leaseway.body WHERE queue = $1 AND seq = picked.seq LIMIT 1) AS body
    WINDOW so_far AS (ORDER BY rank, due_at, picked.seq ROWS UNBOUNDED PRECEDING)
)
SELECT rank, due_at, seq, expires_at, value FROM sized WHERE size <= $7 ORDER BY rank, due_at, seq;

-- name: pick_match
-- The same of the rows with one of the texts $8 in a column of `match`, by that column's index.
WITH picked AS MATERIALIZED (
    SELECT found.* FROM unnest($8::bytea[]) AS pinned (value) CROSS JOIN LATERAL (
        SELECT rank, due_at, seq, expires_at FROM leaseway.item
        WHERE queue = $1 AND ready = 1 AND {match} <> '' AND {match} = pinned.value
        AND (rank, due_at, seq) > ($2, $3, $4) AND seq <> ALL ($5::bigint[])
        ORDER BY rank, due_at, seq LIMIT $6
    ) AS found ORDER BY rank, due_at, seq LIMIT $6
), sized AS (
    SELECT picked.*, body.value, sum(octet_length(body.value)) OVER so_far - octet_length(body.value) AS size
    FROM picked CROSS JOIN LATERAL (SELECT value FROM leaseway.body WHERE queue = $1 AND seq = picked.seq LIMIT 1) AS body
    WINDOW so_far AS (ORDER BY rank, due_at, picked.seq ROWS UNBOUNDED PRECEDING)
)
SELECT rank, due_at, seq, expires_at, value FROM sized WHERE size <= $7 ORDER BY rank, due_at, seq;

-- name: load_free
-- What another server has locked is left out. Whether a row is still ready is for who reads to see: in the condition it would have the planner look among all that are.
SELECT found.* FROM unnest($2::bigint[]) AS asked (seq) CROSS JOIN LATERAL (
    SELECT {columns} FROM leaseway.item WHERE queue = $1 AND item.seq = asked.seq LIMIT 1 FOR UPDATE SKIP LOCKED
) AS found;

-- name: come_due
SELECT {columns} FROM leaseway.item WHERE queue = $1 AND ready = 0 AND status = 'pending' AND due_at <= $2
ORDER BY due_at LIMIT $3 FOR UPDATE SKIP LOCKED;

-- name: outlived
SELECT {columns} FROM leaseway.item WHERE queue = $1 AND expires_at > 0 AND finished_at = 0 AND expires_at <= $2
ORDER BY expires_at LIMIT $3 FOR UPDATE SKIP LOCKED;

-- name: mine
SELECT {columns} FROM leaseway.item WHERE queue = $1 AND posted_by = $2 AND posted_by <> '' AND fetched_at = 0 AND seq < $3
ORDER BY seq DESC LIMIT $4;

-- name: newest
SELECT {columns} FROM leaseway.item WHERE queue = $1 AND seq < $2 ORDER BY seq DESC LIMIT $3;

-- name: bodies
SELECT asked.seq, value FROM unnest($2::bigint[]) AS asked (seq)
CROSS JOIN LATERAL (SELECT value FROM leaseway.body WHERE queue = $1 AND body.seq = asked.seq LIMIT 1) AS found;

-- name: body_sizes
SELECT asked.seq, octet_length(value) FROM unnest($2::bigint[]) AS asked (seq)
CROSS JOIN LATERAL (SELECT value FROM leaseway.body WHERE queue = $1 AND body.seq = asked.seq LIMIT 1) AS found;

-- name: results
SELECT asked.seq, value FROM unnest($2::bigint[]) AS asked (seq)
CROSS JOIN LATERAL (SELECT value FROM leaseway.result WHERE queue = $1 AND result.seq = asked.seq LIMIT 1) AS found;

-- name: numbers
-- $1 is how many.
SELECT pg_catalog.nextval('leaseway.number') FROM generate_series(1, $1);

-- name: insert
WITH written AS (
    INSERT INTO leaseway.item (queue, {names}) SELECT $1, * FROM unnest({arrays})
)
INSERT INTO leaseway.body (queue, seq, value) SELECT $1, * FROM unnest($2::bigint[], {bodies}::bytea[]);

-- name: insert_results
INSERT INTO leaseway.result (queue, seq, value) SELECT $1, * FROM unnest($2::bigint[], $3::bytea[]);

-- name: update
-- By the place of the row, which is locked.
UPDATE leaseway.item AS item SET {assignments} FROM unnest($2::bigint[], {arrays}) AS after (seq, {names})
CROSS JOIN LATERAL (SELECT ctid FROM leaseway.item WHERE queue = $1 AND seq = after.seq LIMIT 1) AS place
WHERE item.ctid = place.ctid;

-- name: stamp
-- One that another server has locked stays as it is: then the item is kept for longer.
WITH told AS MATERIALIZED (
    SELECT place.* FROM unnest($2::bigint[], $3::bigint[]) AS told (seq, rev) CROSS JOIN LATERAL (
        SELECT ctid FROM leaseway.item WHERE queue = $1 AND item.seq = told.seq AND item.rev = told.rev AND fetched_at = 0
        LIMIT 1 FOR UPDATE SKIP LOCKED
    ) AS place
)
UPDATE leaseway.item AS item SET fetched_at = $4 FROM told WHERE item.ctid = told.ctid RETURNING item.seq;

-- name: lock_keys
-- Who posts a key waits for who is about to post the same; $1 are locks of keys, in order, $2 is the queue's own.
SELECT CASE lock WHEN $2 THEN pg_catalog.pg_advisory_xact_lock_shared(lock) ELSE pg_catalog.pg_advisory_xact_lock(lock) END
FROM unnest($1::bigint[]) AS lock;

-- name: lock
-- One of all that only their number tells apart, until the turn is over.
SELECT pg_catalog.pg_advisory_xact_lock($1);

-- name: key_holders
-- Their numbers; then they are loaded.
SELECT holder.seq FROM unnest($2::text[], $3::text[]) AS asked (poster, key) CROSS JOIN LATERAL (
    SELECT seq FROM leaseway.item WHERE queue = $1 AND held = 1 AND item.key = asked.key AND posted_by = asked.poster OFFSET 0
) AS holder;

-- name: shared_key_holders
SELECT holder.seq FROM unnest($2::text[]) AS asked (key) CROSS JOIN LATERAL (
    SELECT seq FROM leaseway.item
    WHERE queue = $1 AND held = 1 AND item.key = asked.key AND (finished_at = 0 OR posted_at > $3) LIMIT 1
) AS holder;

-- name: past_keys
SELECT {columns} FROM leaseway.item WHERE queue = $1 AND held = 1 AND finished_at > 0 AND posted_at <= $2
ORDER BY posted_at LIMIT $3 FOR UPDATE SKIP LOCKED;

-- name: oldest_passing_key
SELECT min(posted_at) FROM leaseway.item WHERE queue = $1 AND held = 1 AND finished_at > 0;

-- name: next_due
SELECT min(due_at) FROM leaseway.item WHERE queue = $1 AND ready = 0 AND status = 'pending';

-- name: next_expiry
SELECT min(expires_at) FROM leaseway.item WHERE queue = $1 AND expires_at > 0 AND finished_at = 0;

-- name: outstayed
-- What a producer was not told, and what need not be: all but finished items have 0 in the index.
WITH found AS MATERIALIZED (
    SELECT {columns} FROM leaseway.item
    WHERE queue = $1 AND status = $2 AND CASE status WHEN 'finished' THEN fetched_at ELSE 0 END = 0
    AND finished_at <= $3 AND finished_at > 0 AND held = 0
    ORDER BY finished_at, seq LIMIT $4 FOR UPDATE SKIP LOCKED
), large AS (
    SELECT found.*, coalesce((SELECT octet_length(value) FROM leaseway.body WHERE queue = $1 AND seq = found.seq), 0)
        + coalesce((SELECT octet_length(value) FROM leaseway.result WHERE queue = $1 AND seq = found.seq), 0) AS size
    FROM found
), sized AS (
    SELECT large.*, sum(size) OVER (ORDER BY finished_at, seq ROWS UNBOUNDED PRECEDING) - size AS so_far FROM large
)
SELECT {columns} FROM sized WHERE so_far <= $5 ORDER BY finished_at, seq;

-- name: outstayed_fetched
WITH found AS MATERIALIZED (
    SELECT {columns} FROM leaseway.item
    WHERE queue = $1 AND status = $2 AND CASE status WHEN 'finished' THEN fetched_at ELSE 0 END BETWEEN 1 AND $3
    AND finished_at > 0 AND held = 0
    ORDER BY CASE status WHEN 'finished' THEN fetched_at ELSE 0 END, finished_at, seq LIMIT $4 FOR UPDATE SKIP LOCKED
), large AS (
    SELECT found.*, coalesce((SELECT octet_length(value) FROM leaseway.body WHERE queue = $1 AND seq = found.seq), 0)
        + coalesce((SELECT octet_length(value) FROM leaseway.result WHERE queue = $1 AND seq = found.seq), 0) AS size
    FROM found
), sized AS (
    SELECT large.*, sum(size) OVER (ORDER BY fetched_at, finished_at, seq ROWS UNBOUNDED PRECEDING) - size AS so_far
    FROM large
)
SELECT {columns} FROM sized WHERE so_far <= $5 ORDER BY fetched_at, finished_at, seq;

-- name: delete
WITH bodies AS (
    DELETE FROM leaseway.body WHERE ctid = ANY (ARRAY(
        SELECT place.ctid FROM unnest($2::bigint[]) AS gone (seq)
        CROSS JOIN LATERAL (SELECT ctid FROM leaseway.body WHERE queue = $1 AND body.seq = gone.seq LIMIT 1) AS place
    ))
), results AS (
    DELETE FROM leaseway.result WHERE ctid = ANY (ARRAY(
        SELECT place.ctid FROM unnest($2::bigint[]) AS gone (seq)
        CROSS JOIN LATERAL (SELECT ctid FROM leaseway.result WHERE queue = $1 AND result.seq = gone.seq LIMIT 1) AS place
    ))
), attempts AS (
    DELETE FROM leaseway.attempt WHERE ctid = ANY (ARRAY(
        SELECT place.ctid FROM unnest($2::bigint[]) AS gone (seq)
        CROSS JOIN LATERAL (SELECT ctid FROM leaseway.attempt WHERE queue = $1 AND attempt.seq = gone.seq OFFSET 0) AS place
    ))
)
DELETE FROM leaseway.item WHERE ctid = ANY (ARRAY(
    SELECT place.ctid FROM unnest($2::bigint[]) AS gone (seq)
    CROSS JOIN LATERAL (SELECT ctid FROM leaseway.item WHERE queue = $1 AND item.seq = gone.seq LIMIT 1) AS place
));

-- name: save_attempts
INSERT INTO leaseway.attempt (queue, seq, attempts, worker, started_at, ended_at, ending, error)
SELECT $1, * FROM unnest($2::bigint[], $3::int[], $4::text[], $5::bigint[], $6::bigint[], $7::text[], $8::bytea[])
ON CONFLICT (queue, seq, attempts) DO UPDATE SET worker = excluded.worker, started_at = excluded.started_at,
    ended_at = excluded.ended_at, ending = excluded.ending, error = excluded.error;

-- name: forget_attempts
DELETE FROM leaseway.attempt WHERE ctid = ANY (ARRAY(
    SELECT place.ctid FROM unnest($2::bigint[], $3::int[]) AS gone (seq, attempts) CROSS JOIN LATERAL (
        SELECT ctid FROM leaseway.attempt
        WHERE queue = $1 AND attempt.seq = gone.seq AND attempt.attempts = gone.attempts LIMIT 1
    ) AS place
));

-- name: attempts
-- The newest of each item, as far as there is room for them; $3 is what each counts as beside its texts.
SELECT seq, attempts, worker, started_at, ended_at, ending, error FROM (
    SELECT found.*, sum(octet_length(error) + octet_length(worker) + $3)
        OVER (PARTITION BY found.seq ORDER BY attempts DESC ROWS UNBOUNDED PRECEDING) AS size
    FROM unnest($2::bigint[]) AS asked (seq)
    CROSS JOIN LATERAL (SELECT * FROM leaseway.attempt WHERE queue = $1 AND attempt.seq = asked.seq OFFSET 0) AS found
) AS sized WHERE size <= $4 ORDER BY seq, attempts;

-- name: pause
UPDATE leaseway.queue SET paused = $2 WHERE id = $1;

-- name: oldest_ready
-- The earliest of each priority stands at the head of its part of the index: one step a priority, however many wait.
WITH RECURSIVE head (rank, due_at) AS (
    (SELECT rank, due_at FROM leaseway.item WHERE queue = $1 AND ready = 1 ORDER BY rank, due_at, seq LIMIT 1)
    UNION ALL
    SELECT next.rank, next.due_at FROM head CROSS JOIN LATERAL (
        SELECT item.rank, item.due_at FROM leaseway.item
        WHERE queue = $1 AND ready = 1 AND item.rank > head.rank ORDER BY item.rank, item.due_at, item.seq LIMIT 1
    ) AS next
)
SELECT min(due_at) FROM head;

-- name: number_turn
-- What the turn adds to this server's share of the counts, and its number: who finds it knows that all of it is there.
-- What follows is written where other servers are to know: the rows that changed, those that became ready, those that
-- ended, and who had posted these.
WITH counted AS (
    INSERT INTO leaseway.share AS mine
        (queue, server, turn, pending, processing, finished, failed, dead, cancelled, expired)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
    ON CONFLICT (queue, server) DO UPDATE SET turn = excluded.turn, pending = mine.pending + excluded.pending,
        processing = mine.processing + excluded.processing, finished = mine.finished + excluded.finished,
        failed = mine.failed + excluded.failed, dead = mine.dead + excluded.dead,
        cancelled = mine.cancelled + excluded.cancelled, expired = mine.expired + excluded.expired
)
INSERT INTO leaseway.change (queue, server, turn, at, seqs, ready, ended, posters)
SELECT $1, $2, $3, floor(extract(epoch FROM pg_catalog.clock_timestamp()) * 1000)::bigint, $11::bigint[], $12::bigint[],
    $13::bigint[], $14::text[]
WHERE $15;

-- name: last_turn
-- Waits until the transaction that may have written it is over.
SELECT turn FROM leaseway.share WHERE queue = $1 AND server = $2 FOR UPDATE;

-- name: forget_changes
DELETE FROM leaseway.change WHERE queue = $1 AND server = $2
AND at < floor(extract(epoch FROM pg_catalog.clock_timestamp()) * 1000)::bigint - $3;

-- name: queue
-- $1 is its name. It is locked: a move marks it before or after this server is seen to have it, and not meanwhile.
SELECT id, id_key, move FROM leaseway.queue WHERE name = $1 FOR UPDATE;

-- name: settle
-- What was moved here is served: it is this store's own now.
UPDATE leaseway.queue SET move = '' WHERE id = $1 AND move <> '';

-- name: new_queue
INSERT INTO leaseway.queue (name, id_key) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING RETURNING id;

-- name: new_share
INSERT INTO leaseway.share (queue, server) VALUES ($1, $2) ON CONFLICT (queue, server) DO NOTHING;

-- name: numbers_are_behind
-- Behind the clock ($1 is how many bits a ms has), by more than $2.
SELECT wanted > last_value + $2 FROM (
    SELECT floor(extract(epoch FROM pg_catalog.clock_timestamp()) * 1000)::bigint << $1 AS wanted
) AS clock, leaseway.number;

-- name: raise_numbers
-- Numbers begin where none was before, though the database be an old copy, or a standby that was behind: an id never
-- names two items. Whoever takes numbers meanwhile takes less than the clock is ahead.
SELECT pg_catalog.setval('leaseway.number', wanted) FROM (
    SELECT floor(extract(epoch FROM pg_catalog.clock_timestamp()) * 1000)::bigint << $1 AS wanted
) AS clock, leaseway.number WHERE wanted > last_value + $2;

-- name: counts
SELECT coalesce(sum(pending), 0)::bigint AS pending, coalesce(sum(processing), 0)::bigint AS processing,
    coalesce(sum(finished), 0)::bigint AS finished, coalesce(sum(failed), 0)::bigint AS failed,
    coalesce(sum(dead), 0)::bigint AS dead, coalesce(sum(cancelled), 0)::bigint AS cancelled,
    coalesce(sum(expired), 0)::bigint AS expired
FROM leaseway.share WHERE queue = $1;

-- name: leases
-- What no other server that lives looks after: it is $2's own, or nobody's, or was taken over HTTP ($3 and what is below).
SELECT {columns} FROM leaseway.item WHERE queue = $1 AND status = 'processing' AND (holder <= $3 OR NOT EXISTS (
    SELECT FROM leaseway.server WHERE epoch = holder >> 32 AND epoch <> $2
    AND abs(beat_at - floor(extract(epoch FROM pg_catalog.clock_timestamp()) * 1000)::bigint) < $4
));

-- name: matched
SELECT match FROM leaseway.queue WHERE id = $1;

-- name: serve_matched
UPDATE leaseway.share SET match = $3 WHERE queue = $1 AND server = $2;

-- name: others_match
-- Whether a server that lives serves the queue by other members.
SELECT EXISTS (
    SELECT FROM leaseway.share JOIN leaseway.server ON epoch = share.server
    WHERE queue = $1 AND epoch <> $2 AND match <> '' AND match <> $3
    AND abs(beat_at - floor(extract(epoch FROM pg_catalog.clock_timestamp()) * 1000)::bigint) < $4
);

-- name: lock_queue
SELECT FROM leaseway.queue WHERE id = $1 FOR UPDATE;

-- name: set_matched
UPDATE leaseway.queue SET match = $2 WHERE id = $1;

-- name: to_match
-- All that a claim may yet take, also after a retry; a slice ends with the body that makes it too long.
WITH found AS MATERIALIZED (
    SELECT seq FROM leaseway.item WHERE queue = $1 AND seq > $2 AND status <> 'finished' ORDER BY seq LIMIT $3 FOR UPDATE
), sized AS (
    SELECT found.seq, value, sum(octet_length(value)) OVER (ORDER BY found.seq ROWS UNBOUNDED PRECEDING)
        - octet_length(value) AS size
    FROM found CROSS JOIN LATERAL (SELECT value FROM leaseway.body WHERE queue = $1 AND seq = found.seq LIMIT 1) AS body
)
SELECT seq, value FROM sized WHERE size <= $4 ORDER BY seq;

-- name: set_match
UPDATE leaseway.item AS item SET match_1 = m.match_1, match_2 = m.match_2, match_3 = m.match_3, match_4 = m.match_4,
    match_5 = m.match_5, match_6 = m.match_6, match_7 = m.match_7, match_8 = m.match_8
FROM unnest($2::bigint[], $3::bytea[], $4::bytea[], $5::bytea[], $6::bytea[], $7::bytea[], $8::bytea[], $9::bytea[],
    $10::bytea[]) AS m (seq, match_1, match_2, match_3, match_4, match_5, match_6, match_7, match_8)
CROSS JOIN LATERAL (SELECT ctid FROM leaseway.item WHERE queue = $1 AND seq = m.seq LIMIT 1) AS place
WHERE item.ctid = place.ctid;

-- name: enter
-- $1 is the server's name, $2 its version.
INSERT INTO leaseway.server (name, version, started_at, beat_at)
SELECT $1, $2, now, now FROM (
    SELECT floor(extract(epoch FROM pg_catalog.clock_timestamp()) * 1000)::bigint AS now
) AS clock RETURNING epoch;
