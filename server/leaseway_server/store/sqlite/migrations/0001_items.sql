-- Items, with what is large beside them: a row that is claimed and renewed is written often, its body never again.
-- Null is written as 0 and '' (core/model.py). `rank` is minus the priority, so that all orders are ascending.

CREATE TABLE item (
    seq           INTEGER PRIMARY KEY,
    status        TEXT    NOT NULL,
    ready         INTEGER NOT NULL,
    rank          INTEGER NOT NULL,
    due_at        INTEGER NOT NULL,
    posted_by     TEXT    NOT NULL,
    posted_at     INTEGER NOT NULL,
    updated_at    INTEGER NOT NULL,
    started_at    INTEGER NOT NULL,
    finished_at   INTEGER NOT NULL,
    fetched_at    INTEGER NOT NULL,
    expires_at    INTEGER NOT NULL,
    lease_until   INTEGER NOT NULL,
    progress_at   INTEGER NOT NULL,
    attempts      INTEGER NOT NULL,
    attempts_base INTEGER NOT NULL,
    failures      INTEGER NOT NULL,
    losses        INTEGER NOT NULL,
    max_attempts  INTEGER NOT NULL,
    rev           INTEGER NOT NULL,
    ending        TEXT    NOT NULL,
    holder        INTEGER NOT NULL,
    lease_user    TEXT    NOT NULL,
    worker        TEXT    NOT NULL,
    meta          TEXT    NOT NULL,
    progress      TEXT    NOT NULL,
    error         TEXT    NOT NULL
) STRICT;

CREATE TABLE body (seq INTEGER PRIMARY KEY, value TEXT NOT NULL) STRICT;

CREATE TABLE result (seq INTEGER PRIMARY KEY, value TEXT NOT NULL) STRICT;

-- What a claim may take, in the order of claims. No row that is due later stands here: it would be stepped over each time.
CREATE INDEX item_ready ON item (rank, due_at, seq) WHERE ready = 1;

-- What comes due later.
CREATE INDEX item_later ON item (due_at) WHERE ready = 0 AND status = 'pending';

-- What has a time to live and is not terminal.
CREATE INDEX item_expiry ON item (expires_at) WHERE expires_at > 0 AND finished_at = 0;

-- One row. `next_seq`: no row number below it was not given out before a start. `epoch` counts the starts.
CREATE TABLE state (
    id_key   BLOB    NOT NULL,
    next_seq INTEGER NOT NULL,
    epoch    INTEGER NOT NULL
) STRICT;
