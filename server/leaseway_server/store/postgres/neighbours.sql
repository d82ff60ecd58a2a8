-- What servers tell each other. Times are ms since the epoch, by the database's clock.

-- name: beat
-- The time is that of the statement's arrival, and not later: what it reads is as of then. $4 is how long a server that
-- says nothing is alive. (One whose word is of so much later said it before the clock was set back.)
WITH now AS (
    SELECT floor(extract(epoch FROM pg_catalog.statement_timestamp()) * 1000)::bigint AS ms
), mine AS (
    INSERT INTO leaseway.server AS mine (epoch, name, version, started_at, beat_at) OVERRIDING SYSTEM VALUE
    SELECT $1, $2, $3, ms, ms FROM now ON CONFLICT (epoch) DO UPDATE SET beat_at = excluded.beat_at
)
SELECT floor(extract(epoch FROM pg_catalog.clock_timestamp()) * 1000)::bigint AS now,
    (SELECT coalesce(max(epoch), 0) FROM leaseway.server) AS newest,
    ARRAY(SELECT epoch FROM leaseway.server WHERE abs(beat_at - ms) < $4 AND epoch <> $1 ORDER BY epoch) AS alive,
    ARRAY(SELECT beat_at FROM leaseway.server WHERE abs(beat_at - ms) < $4 AND epoch <> $1 ORDER BY epoch) AS beats
FROM now;

-- name: leave
-- Its last turns are still to be read by others.
UPDATE leaseway.server SET beat_at = beat_at - $2 WHERE epoch = $1;

-- name: long_gone
SELECT epoch FROM leaseway.server
WHERE beat_at < floor(extract(epoch FROM pg_catalog.clock_timestamp()) * 1000)::bigint - $1 FOR UPDATE SKIP LOCKED;

-- name: forget
-- Of a server nothing is left; its share of the counts becomes that of server 0.
WITH gone AS (DELETE FROM leaseway.server WHERE epoch = $1),
    forgotten AS (DELETE FROM leaseway.change WHERE server = $1),
    shares AS (DELETE FROM leaseway.share WHERE server = $1 RETURNING *)
INSERT INTO leaseway.share AS mine (queue, server, pending, processing, finished, failed, dead, cancelled, expired)
SELECT queue, 0, pending, processing, finished, failed, dead, cancelled, expired FROM shares
ON CONFLICT (queue, server) DO UPDATE SET pending = mine.pending + excluded.pending,
    processing = mine.processing + excluded.processing, finished = mine.finished + excluded.finished,
    failed = mine.failed + excluded.failed, dead = mine.dead + excluded.dead,
    cancelled = mine.cancelled + excluded.cancelled, expired = mine.expired + excluded.expired;

-- name: forget_rates
DELETE FROM leaseway.activity
WHERE minute < floor(extract(epoch FROM pg_catalog.clock_timestamp()) * 1000)::bigint - $1;

-- name: shares
SELECT (SELECT paused FROM leaseway.queue WHERE id = $1), server, turn, workers, watched, pending, processing, finished,
    failed, dead, cancelled, expired
FROM leaseway.share WHERE queue = $1;

-- name: changes
-- $2 are servers, $3 the last turn of each that was read.
SELECT change.server, change.turn, change.seqs, change.ready, change.ended, change.posters
FROM unnest($2::integer[], $3::bigint[]) AS seen (server, turn)
JOIN leaseway.change ON change.queue = $1 AND change.server = seen.server AND change.turn > seen.turn
ORDER BY change.server, change.turn;

-- name: show
-- Also where the server was forgotten meanwhile, with its share.
INSERT INTO leaseway.share (queue, server, workers, watched, match)
SELECT $1, $2, $3, $4, match FROM leaseway.queue WHERE id = $1
ON CONFLICT (queue, server) DO UPDATE SET workers = excluded.workers, watched = excluded.watched;

-- name: count_rates
INSERT INTO leaseway.activity (queue, server, minute, posted, claimed, finished, failed, dead, requeued)
SELECT $1, $2, * FROM unnest($3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[],
    $9::bigint[])
ON CONFLICT (queue, server, minute) DO UPDATE SET posted = excluded.posted, claimed = excluded.claimed,
    finished = excluded.finished, failed = excluded.failed, dead = excluded.dead, requeued = excluded.requeued;

-- name: rates
SELECT minute, sum(posted)::bigint, sum(claimed)::bigint, sum(finished)::bigint, sum(failed)::bigint, sum(dead)::bigint,
    sum(requeued)::bigint
FROM leaseway.activity WHERE queue = $1 AND server <> $2 AND minute >= $3 GROUP BY minute;

-- name: hint
SELECT pg_catalog.pg_notify('leaseway', hint) FROM unnest($1::text[]) AS hint;
