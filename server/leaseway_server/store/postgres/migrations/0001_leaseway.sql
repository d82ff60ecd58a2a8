-- All that Leaseway keeps, for all queues, in the schema `leaseway`, which is there when this begins.
--
-- Null is written as 0 and '' (core/model.py). What clients wrote as JSON, and the texts of `match`, which may hold a
-- U+0000, are bytea: UTF-8. Names and keys compare by their bytes, whatever the database's collation is. Times are ms
-- since the epoch. Columns stand in the order that wastes no room between them.
--
-- A later script may only add (expand), as long as a server that knows less may run beside it; what it takes away
-- (contract) raises `oldest_reader` to the first version that does without it.

CREATE TABLE leaseway.version (
    number        integer NOT NULL,
    oldest_reader integer NOT NULL
);

INSERT INTO leaseway.version (number, oldest_reader) VALUES (1, 1);

-- Row numbers, of all queues. What was given out stays so, whatever becomes of its transaction.
CREATE SEQUENCE leaseway.number AS bigint;

-- `id_key` is hex. `match`: the paths that `match_1` and so on are computed for, a JSON array; null while that is under way.
-- `move`: where the queue is moved to or from (store/moved.py); '' where nobody moves it.
CREATE TABLE leaseway.queue (
    id     integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name   text COLLATE "C" NOT NULL UNIQUE,
    id_key text COLLATE "C" NOT NULL,
    paused boolean NOT NULL DEFAULT false,
    match  text COLLATE "C" NOT NULL DEFAULT '[]',
    move   text COLLATE "C" NOT NULL DEFAULT ''
);

-- One row a server process that runs; `beat_at` by the database's clock.
CREATE TABLE leaseway.server (
    epoch      integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name       text COLLATE "C" NOT NULL,
    version    text COLLATE "C" NOT NULL,
    started_at bigint NOT NULL,
    beat_at    bigint NOT NULL
) WITH (fillfactor = 20);

-- What one server contributes to a queue's counts: they are summed when they are read, since one row for all would be
-- what every turn waits for. Server 0 has what was left by those that are gone. `turn` numbers the committed turns;
-- `match` is the queue's, as the server uses it; '' while it does not serve yet.
CREATE TABLE leaseway.share (
    turn       bigint NOT NULL DEFAULT 0,
    pending    bigint NOT NULL DEFAULT 0,
    processing bigint NOT NULL DEFAULT 0,
    finished   bigint NOT NULL DEFAULT 0,
    failed     bigint NOT NULL DEFAULT 0,
    dead       bigint NOT NULL DEFAULT 0,
    cancelled  bigint NOT NULL DEFAULT 0,
    expired    bigint NOT NULL DEFAULT 0,
    queue      integer NOT NULL,
    server     integer NOT NULL,
    workers    integer NOT NULL DEFAULT 0,
    watched    boolean NOT NULL DEFAULT false,
    match      text COLLATE "C" NOT NULL DEFAULT '',
    PRIMARY KEY (queue, server)
) WITH (fillfactor = 20, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_scale_factor = 0,
        autovacuum_vacuum_cost_delay = 0);

-- What a turn changed, while other servers live: `ready` became ready and was not handed out, `ended` ended in it and
-- had been posted by `posters`. Where one is gone before another server looks, those who follow its poster there are to
-- know that they missed an end.
CREATE TABLE leaseway.change (
    turn    bigint NOT NULL,
    at      bigint NOT NULL,
    queue   integer NOT NULL,
    server  integer NOT NULL,
    seqs    bigint[] NOT NULL,
    ready   bigint[] NOT NULL,
    ended   bigint[] NOT NULL,
    posters text[] NOT NULL,
    PRIMARY KEY (queue, server, turn)
) WITH (autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_cost_delay = 0);

-- What happened in each minute of the last hour.
CREATE TABLE leaseway.activity (
    minute   bigint NOT NULL,
    posted   bigint NOT NULL DEFAULT 0,
    claimed  bigint NOT NULL DEFAULT 0,
    finished bigint NOT NULL DEFAULT 0,
    failed   bigint NOT NULL DEFAULT 0,
    dead     bigint NOT NULL DEFAULT 0,
    requeued bigint NOT NULL DEFAULT 0,
    queue    integer NOT NULL,
    server   integer NOT NULL,
    PRIMARY KEY (queue, server, minute)
) WITH (fillfactor = 50);

-- A token's secret is nowhere: `hash` is its SHA-256, in hex. `queues` and `rights` are JSON arrays; NULL is all.
CREATE TABLE leaseway.token (
    created_at bigint NOT NULL,
    expires_at bigint NOT NULL,
    used_at    bigint NOT NULL DEFAULT 0,
    id         text COLLATE "C" PRIMARY KEY,
    hash       text COLLATE "C" NOT NULL UNIQUE,
    user_name  text COLLATE "C" NOT NULL,
    queues     text COLLATE "C",
    rights     text COLLATE "C"
) WITH (fillfactor = 50);

-- How often tokens were added and revoked: a server reads them again where that has changed. `move` is as a queue's.
CREATE TABLE leaseway.access (
    changes bigint NOT NULL,
    move    text COLLATE "C" NOT NULL DEFAULT ''
) WITH (fillfactor = 20);

INSERT INTO leaseway.access (changes) VALUES (0);

-- Tickets that were not used yet, by the hash of their secret; `token` is whose they are.
CREATE TABLE leaseway.ticket (
    issued_at bigint NOT NULL,
    ends_at   bigint NOT NULL,
    hash      text COLLATE "C" PRIMARY KEY,
    queue     text COLLATE "C" NOT NULL,
    token     text COLLATE "C" NOT NULL
);

CREATE INDEX ticket_token ON leaseway.ticket (queue, token);
CREATE INDEX ticket_end ON leaseway.ticket (ends_at);

-- Items, with what is large beside them: a row that is claimed and renewed is written often, its body never again.
-- `rank` is minus the priority, so that all orders are ascending. There is room in a page for the next version of a row,
-- which then needs no new entry in any index where no indexed column differs: a renewal, and progress.
-- A post names what is not null in it, and no more: that is about half.
CREATE TABLE leaseway.item (
    seq           bigint NOT NULL,
    due_at        bigint NOT NULL DEFAULT 0,
    posted_at     bigint NOT NULL DEFAULT 0,
    updated_at    bigint NOT NULL DEFAULT 0,
    started_at    bigint NOT NULL DEFAULT 0,
    finished_at   bigint NOT NULL DEFAULT 0,
    fetched_at    bigint NOT NULL DEFAULT 0,
    expires_at    bigint NOT NULL DEFAULT 0,
    lease_until   bigint NOT NULL DEFAULT 0,
    progress_at   bigint NOT NULL DEFAULT 0,
    holder        bigint NOT NULL DEFAULT 0,
    rev           bigint NOT NULL DEFAULT 0,
    queue         integer NOT NULL,
    rank          integer NOT NULL DEFAULT 0,
    attempts      integer NOT NULL DEFAULT 0,
    attempts_base integer NOT NULL DEFAULT 0,
    failures      integer NOT NULL DEFAULT 0,
    losses        integer NOT NULL DEFAULT 0,
    max_attempts  integer NOT NULL DEFAULT 0,
    ready         smallint NOT NULL DEFAULT 0,
    held          smallint NOT NULL DEFAULT 0,
    status        text COLLATE "C" NOT NULL,
    ending        text COLLATE "C" NOT NULL DEFAULT '',
    posted_by     text COLLATE "C" NOT NULL DEFAULT '',
    lease_user    text COLLATE "C" NOT NULL DEFAULT '',
    worker        text COLLATE "C" NOT NULL DEFAULT '',
    key           text COLLATE "C" NOT NULL DEFAULT '',
    meta          bytea NOT NULL DEFAULT '',
    progress      bytea NOT NULL DEFAULT '',
    error         bytea NOT NULL DEFAULT '',
    match_1       bytea NOT NULL DEFAULT '',
    match_2       bytea NOT NULL DEFAULT '',
    match_3       bytea NOT NULL DEFAULT '',
    match_4       bytea NOT NULL DEFAULT '',
    match_5       bytea NOT NULL DEFAULT '',
    match_6       bytea NOT NULL DEFAULT '',
    match_7       bytea NOT NULL DEFAULT '',
    match_8       bytea NOT NULL DEFAULT '',
    PRIMARY KEY (queue, seq)
) WITH (fillfactor = 75, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_scale_factor = 0.02,
        autovacuum_analyze_threshold = 2000, autovacuum_vacuum_cost_delay = 0);

-- What a claim may take, in the order of claims. No row that is due later stands here: it would be stepped over each time.
CREATE INDEX item_ready ON leaseway.item (queue, rank, due_at, seq) WHERE ready = 1;

-- The same by what the queue's configuration names in `match`.
CREATE INDEX item_match_1 ON leaseway.item (queue, match_1, rank, due_at, seq) WHERE ready = 1 AND match_1 <> '';
CREATE INDEX item_match_2 ON leaseway.item (queue, match_2, rank, due_at, seq) WHERE ready = 1 AND match_2 <> '';
CREATE INDEX item_match_3 ON leaseway.item (queue, match_3, rank, due_at, seq) WHERE ready = 1 AND match_3 <> '';
CREATE INDEX item_match_4 ON leaseway.item (queue, match_4, rank, due_at, seq) WHERE ready = 1 AND match_4 <> '';
CREATE INDEX item_match_5 ON leaseway.item (queue, match_5, rank, due_at, seq) WHERE ready = 1 AND match_5 <> '';
CREATE INDEX item_match_6 ON leaseway.item (queue, match_6, rank, due_at, seq) WHERE ready = 1 AND match_6 <> '';
CREATE INDEX item_match_7 ON leaseway.item (queue, match_7, rank, due_at, seq) WHERE ready = 1 AND match_7 <> '';
CREATE INDEX item_match_8 ON leaseway.item (queue, match_8, rank, due_at, seq) WHERE ready = 1 AND match_8 <> '';

-- What comes due later.
CREATE INDEX item_later ON leaseway.item (queue, due_at) WHERE ready = 0 AND status = 'pending';

-- What has a time to live and is not terminal.
CREATE INDEX item_expiry ON leaseway.item (queue, expires_at) WHERE expires_at > 0 AND finished_at = 0;

-- Who holds what: read at a start, and when a server is gone.
CREATE INDEX item_leased ON leaseway.item (queue, holder) WHERE status = 'processing';

-- What may be pruned, by the time that its retention counts from: finished items that a producer was told by the time
-- of that, all others by their end.
CREATE INDEX item_ended ON leaseway.item
    (queue, status, (CASE status WHEN 'finished' THEN fetched_at ELSE 0 END), finished_at, seq)
    WHERE finished_at > 0 AND held = 0;

-- What a user's `mine` begins with: all that it has open, and all ends that it was not told.
CREATE INDEX item_mine ON leaseway.item (queue, posted_by, seq) WHERE fetched_at = 0 AND posted_by <> '';

-- Ends that a person looks for among many that went well.
CREATE INDEX item_trouble ON leaseway.item (queue, status, seq)
    WHERE status <> 'pending' AND status <> 'processing' AND status <> 'finished';

-- What is looked for by its key, whether that is still held or not.
CREATE INDEX item_key ON leaseway.item (queue, key, seq) WHERE key <> '';

-- Who holds a key.
CREATE INDEX item_holder ON leaseway.item (queue, key, posted_by) WHERE held = 1;

-- Whose key is held for the window only.
CREATE INDEX item_passing ON leaseway.item (queue, posted_at) WHERE held = 1 AND finished_at > 0;

CREATE TABLE leaseway.body (
    seq   bigint NOT NULL,
    queue integer NOT NULL,
    value bytea NOT NULL,
    PRIMARY KEY (queue, seq)
) WITH (autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);

CREATE TABLE leaseway.result (
    seq   bigint NOT NULL,
    queue integer NOT NULL,
    value bytea NOT NULL,
    PRIMARY KEY (queue, seq)
) WITH (autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);

-- Attempts that were lost, parted, failed or released.
CREATE TABLE leaseway.attempt (
    seq        bigint NOT NULL,
    started_at bigint NOT NULL,
    ended_at   bigint NOT NULL,
    queue      integer NOT NULL,
    attempts   integer NOT NULL,
    worker     text COLLATE "C" NOT NULL,
    ending     text COLLATE "C" NOT NULL,
    error      bytea NOT NULL,
    PRIMARY KEY (queue, seq, attempts)
);
