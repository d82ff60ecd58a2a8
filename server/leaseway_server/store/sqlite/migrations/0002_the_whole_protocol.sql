-- Keys, attempts that ended, counts, the pause, retention, and what a queue's configuration names in `match`.

ALTER TABLE item ADD COLUMN key TEXT NOT NULL DEFAULT '';

-- 1 while the item's key is held, and it may not be pruned.
ALTER TABLE item ADD COLUMN held INTEGER NOT NULL DEFAULT 0;

-- The members that `match` names, in its order, as texts that are equal where the values are (core/criteria.py); '' is
-- a member that is missing, or an array or object. Written once, with the item.
ALTER TABLE item ADD COLUMN match_1 TEXT NOT NULL DEFAULT '';
ALTER TABLE item ADD COLUMN match_2 TEXT NOT NULL DEFAULT '';
ALTER TABLE item ADD COLUMN match_3 TEXT NOT NULL DEFAULT '';
ALTER TABLE item ADD COLUMN match_4 TEXT NOT NULL DEFAULT '';
ALTER TABLE item ADD COLUMN match_5 TEXT NOT NULL DEFAULT '';
ALTER TABLE item ADD COLUMN match_6 TEXT NOT NULL DEFAULT '';
ALTER TABLE item ADD COLUMN match_7 TEXT NOT NULL DEFAULT '';
ALTER TABLE item ADD COLUMN match_8 TEXT NOT NULL DEFAULT '';

CREATE INDEX item_match_1 ON item (match_1, rank, due_at, seq) WHERE ready = 1 AND match_1 <> '';
CREATE INDEX item_match_2 ON item (match_2, rank, due_at, seq) WHERE ready = 1 AND match_2 <> '';
CREATE INDEX item_match_3 ON item (match_3, rank, due_at, seq) WHERE ready = 1 AND match_3 <> '';
CREATE INDEX item_match_4 ON item (match_4, rank, due_at, seq) WHERE ready = 1 AND match_4 <> '';
CREATE INDEX item_match_5 ON item (match_5, rank, due_at, seq) WHERE ready = 1 AND match_5 <> '';
CREATE INDEX item_match_6 ON item (match_6, rank, due_at, seq) WHERE ready = 1 AND match_6 <> '';
CREATE INDEX item_match_7 ON item (match_7, rank, due_at, seq) WHERE ready = 1 AND match_7 <> '';
CREATE INDEX item_match_8 ON item (match_8, rank, due_at, seq) WHERE ready = 1 AND match_8 <> '';

-- What may be pruned, by the time that its retention counts from: finished items that a producer was told by the time
-- of that, all others by their end.
CREATE INDEX item_ended ON item (status, CASE status WHEN 'finished' THEN fetched_at ELSE 0 END, finished_at)
    WHERE finished_at > 0 AND held = 0;

-- What a user's `mine` begins with: all that it has open, and all ends that it was not told.
CREATE INDEX item_mine ON item (posted_by, seq) WHERE fetched_at = 0 AND posted_by <> '';

-- Ends that a person looks for among many that went well.
CREATE INDEX item_trouble ON item (status, seq) WHERE status IN ('failed', 'dead', 'cancelled', 'expired');

-- What is looked for by its key, whether that is still held or not.
CREATE INDEX item_key ON item (key, seq) WHERE key <> '';

-- Keys that are held. `poster` is '' where the queue's posters share their keys. `until` is 0 while the item is open.
CREATE TABLE held_key (
    poster TEXT    NOT NULL,
    key    TEXT    NOT NULL,
    seq    INTEGER NOT NULL,
    until  INTEGER NOT NULL,
    PRIMARY KEY (poster, key)
) STRICT, WITHOUT ROWID;

CREATE INDEX held_key_until ON held_key (until) WHERE until > 0;

-- Attempts that were lost, parted, failed or released.
CREATE TABLE attempt (
    seq        INTEGER NOT NULL,
    attempts   INTEGER NOT NULL,
    worker     TEXT    NOT NULL,
    started_at INTEGER NOT NULL,
    ended_at   INTEGER NOT NULL,
    ending     TEXT    NOT NULL,
    error      TEXT    NOT NULL,
    PRIMARY KEY (seq, attempts)
) STRICT, WITHOUT ROWID;

-- How many items there are of each status: nobody counts rows.
CREATE TABLE count (status TEXT PRIMARY KEY, number INTEGER NOT NULL) STRICT, WITHOUT ROWID;

INSERT INTO count SELECT status, count(*) FROM item GROUP BY status;

ALTER TABLE state ADD COLUMN paused INTEGER NOT NULL DEFAULT 0;

-- The paths that `match_1` and so on were computed for, a JSON array.
ALTER TABLE state ADD COLUMN match TEXT NOT NULL DEFAULT '[]';
