-- Tokens. A token's secret is nowhere: `hash` is its SHA-256, in hex.

CREATE TABLE token (
    id TEXT PRIMARY KEY,
    hash TEXT NOT NULL UNIQUE,
    user TEXT NOT NULL,
    queues TEXT,                     -- a JSON array of names; NULL: all
    rights TEXT,                     -- a JSON array of rights; NULL: all that the user has
    created_at INTEGER NOT NULL,     -- ms since the epoch
    expires_at INTEGER NOT NULL      -- the same; 0: never
) STRICT;
