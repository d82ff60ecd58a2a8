-- name: tokens
SELECT hash, id, user, queues, rights, created_at, expires_at, used_at FROM token ORDER BY created_at, id;

-- name: add
INSERT INTO token (hash, id, user, queues, rights, created_at, expires_at) VALUES (?, ?, ?, ?, ?, ?, ?);

-- name: revoke
DELETE FROM token WHERE id = ?;

-- name: used
UPDATE token SET used_at = max(used_at, ?) WHERE id = ?;

-- name: moved
SELECT mark FROM move;
