-- What a move asks of a database. {…} is a table's, see tables.py; $1 is the queue's number, unless it says otherwise.

-- name: read
-- A slice ends with the row that makes it too long.
WITH found AS MATERIALIZED (
    SELECT {columns} FROM leaseway.{table} WHERE queue = $1 AND ({key}) > ({key_marks}) ORDER BY {key} LIMIT {rows}
), sized AS (
    SELECT *, sum({size}) OVER (ORDER BY {key} ROWS UNBOUNDED PRECEDING) - ({size}) AS size FROM found
)
SELECT {columns} FROM sized WHERE size <= {characters} ORDER BY {key};

-- name: last
SELECT {key} FROM leaseway.{table} WHERE queue = $1 ORDER BY {key_down} LIMIT 1;

-- name: queues
SELECT name FROM leaseway.queue ORDER BY name;

-- name: facts
-- $1 is the queue's name. Of what is not served nobody takes a number.
SELECT id, id_key, paused, match, move, (SELECT last_value + 1 FROM leaseway.number) FROM leaseway.queue WHERE name = $1;

-- name: holds
SELECT EXISTS (SELECT FROM leaseway.item WHERE queue = $1) OR EXISTS (SELECT FROM leaseway.body WHERE queue = $1)
    OR EXISTS (SELECT FROM leaseway.result WHERE queue = $1) OR EXISTS (SELECT FROM leaseway.attempt WHERE queue = $1);

-- name: let_turns_end
-- Every turn has looked at its queue: those that are under way end first, and all others see what is written now.
LOCK TABLE leaseway.queue IN ACCESS EXCLUSIVE MODE;

-- name: lock
-- $1 is the queue's name. No server opens it from here on.
SELECT id FROM leaseway.queue WHERE name = $1 FOR UPDATE;

-- name: served_by
-- $2 is how long a server that says nothing is alive.
SELECT server.name FROM leaseway.share JOIN leaseway.server ON epoch = share.server
WHERE share.queue = $1 AND abs(beat_at - floor(extract(epoch FROM pg_catalog.clock_timestamp()) * 1000)::bigint) < $2
ORDER BY server.name LIMIT 1;

-- name: mark
UPDATE leaseway.queue SET move = $2 WHERE id = $1;

-- name: make
-- $1 is the queue's name.
INSERT INTO leaseway.queue (name, id_key) VALUES ($1, '') ON CONFLICT (name) DO NOTHING;

-- name: begin
UPDATE leaseway.queue SET id_key = $2, paused = $3, match = $4, move = $5 WHERE id = $1;

-- name: raise_numbers
-- To $1, where that is clearly ahead ($2); nobody takes as many in the time of the statement.
SELECT pg_catalog.setval('leaseway.number', $1) FROM leaseway.number WHERE $1 > last_value + $2::bigint;

-- name: skip_numbers
-- The rest of the way to $1 is gone one by one, since other servers may take some meanwhile.
SELECT count(pg_catalog.nextval('leaseway.number'))
FROM leaseway.number, LATERAL generate_series(1, $1 - last_value) AS skipped;

-- name: new_epoch
-- One that no server has, ever.
SELECT pg_catalog.nextval(pg_catalog.pg_get_serial_sequence('leaseway.server', 'epoch'));

-- name: counts
SELECT coalesce(sum(pending), 0)::bigint, coalesce(sum(processing), 0)::bigint, coalesce(sum(finished), 0)::bigint,
    coalesce(sum(failed), 0)::bigint, coalesce(sum(dead), 0)::bigint, coalesce(sum(cancelled), 0)::bigint,
    coalesce(sum(expired), 0)::bigint
FROM leaseway.share WHERE queue = $1;

-- name: forget_counts
DELETE FROM leaseway.share WHERE queue = $1;

-- name: count
INSERT INTO leaseway.share (queue, server, pending, processing, finished, failed, dead, cancelled, expired)
VALUES ($1, 0, $2, $3, $4, $5, $6, $7, $8);

-- name: analyze
ANALYZE leaseway.item, leaseway.body, leaseway.result, leaseway.attempt;

-- name: remove_rows
-- So many ($2) at once.
WITH gone AS (
    DELETE FROM leaseway.{table} WHERE queue = $1 AND ({key}) IN (
        SELECT {key} FROM leaseway.{table} WHERE queue = $1 ORDER BY {key} LIMIT $2
    ) RETURNING 1
) SELECT count(*) FROM gone;

-- name: remove_queue
WITH shares AS (DELETE FROM leaseway.share WHERE queue = $1), changes AS (DELETE FROM leaseway.change WHERE queue = $1),
    minutes AS (DELETE FROM leaseway.activity WHERE queue = $1)
DELETE FROM leaseway.queue WHERE id = $1;

-- name: tokens
SELECT hash, id, user_name, queues, rights, created_at, expires_at, used_at FROM leaseway.token ORDER BY hash;

-- name: add_tokens
INSERT INTO leaseway.token (hash, id, user_name, queues, rights, created_at, expires_at, used_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8);

-- name: remove_tokens
-- $1 are hashes; tickets go with their tokens.
WITH gone AS (DELETE FROM leaseway.token WHERE hash = ANY ($1::text[]) RETURNING id)
DELETE FROM leaseway.ticket WHERE token IN (SELECT id FROM gone);

-- name: changed_tokens
UPDATE leaseway.access SET changes = changes + 1;

-- name: mark_tokens
UPDATE leaseway.access SET move = $1;
