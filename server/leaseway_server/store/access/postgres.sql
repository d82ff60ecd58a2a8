-- name: changes
SELECT changes FROM leaseway.access;

-- name: tokens
SELECT hash, id, user_name, queues, rights, created_at, expires_at, used_at FROM leaseway.token ORDER BY created_at, id;

-- name: changed
UPDATE leaseway.access SET changes = changes + 1;

-- name: add
INSERT INTO leaseway.token (hash, id, user_name, queues, rights, created_at, expires_at)
VALUES ($1, $2, $3, $4, $5, $6, $7);

-- name: revoke
WITH gone AS (DELETE FROM leaseway.token WHERE id = $1 RETURNING id),
unused AS (DELETE FROM leaseway.ticket WHERE token IN (SELECT id FROM gone))
SELECT count(*) FROM gone;

-- name: used
UPDATE leaseway.token SET used_at = greatest(used_at, used.at)
FROM unnest($1::text[], $2::bigint[]) AS used (id, at) WHERE token.id = used.id;

-- name: lock_token
SELECT id FROM leaseway.token WHERE id = $1 FOR UPDATE;

-- name: over
DELETE FROM leaseway.ticket WHERE hash IN (
    SELECT hash FROM leaseway.ticket WHERE ends_at <= $1 ORDER BY ends_at LIMIT 1000 FOR UPDATE SKIP LOCKED
);

-- name: issue
INSERT INTO leaseway.ticket (hash, queue, token, issued_at, ends_at)
SELECT $1, $2, $3, $4, $5 WHERE (
    SELECT count(*) FROM leaseway.ticket WHERE queue = $2 AND token = $3 AND ends_at > $4
) < $6
RETURNING hash;

-- name: redeem
WITH used AS (DELETE FROM leaseway.ticket WHERE hash = $1 AND queue = $2 RETURNING token, ends_at)
SELECT hash, id, user_name, queues, rights, created_at, expires_at, used_at
FROM leaseway.token JOIN used ON used.token = token.id WHERE used.ends_at > $3;

-- name: moved
SELECT move FROM leaseway.access;
