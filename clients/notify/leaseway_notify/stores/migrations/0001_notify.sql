-- All that is kept of notifications. One script for both databases: what stands in braces is filled in for each.
--
-- Times are ms since the epoch, 0 where there was none; null is never written. Names compare by their bytes. What is JSON
-- is text that nothing here looks into.

CREATE TABLE {schema}recipient (
    id {text} NOT NULL PRIMARY KEY,
    address {text} NOT NULL,
    name {text} NOT NULL,
    zone {text} NOT NULL,
    preferences {text} NOT NULL              -- JSON
){strict};

CREATE TABLE {schema}working_on (
    recipient {text} NOT NULL,
    context {text} NOT NULL,
    until {integer} NOT NULL,
    PRIMARY KEY (recipient, context)
){strict};

CREATE INDEX working_on_over ON {schema}working_on (until);

CREATE TABLE {schema}subscription (
    endpoint {text} NOT NULL PRIMARY KEY,
    id {text} NOT NULL,
    recipient {text} NOT NULL,
    p256dh {text} NOT NULL,
    auth {text} NOT NULL
){strict};

CREATE INDEX subscription_of ON {schema}subscription (recipient);

-- Who holds a key, and until when: two equal events cannot both take it.
CREATE TABLE {schema}held_key (
    recipient {text} NOT NULL,
    dedupe_key {text} NOT NULL,
    notification_id {text} NOT NULL,
    held_until {integer} NOT NULL,
    PRIMARY KEY (recipient, dedupe_key)
){strict};

CREATE INDEX held_key_over ON {schema}held_key (held_until);

CREATE TABLE {schema}notification (
    id {text} NOT NULL PRIMARY KEY,
    type {text} NOT NULL,
    recipient {text} NOT NULL,
    title {text} NOT NULL,
    body {text} NOT NULL,
    actor {text} NOT NULL,
    context {text} NOT NULL,
    payload {text} NOT NULL,                 -- JSON
    dedupe_key {text} NOT NULL,
    group_key {text} NOT NULL,
    created_at {integer} NOT NULL,
    duplicate_of {text} NOT NULL
){strict};

CREATE INDEX notification_of_group ON {schema}notification (group_key, created_at) WHERE group_key <> '';

CREATE TABLE {schema}delivery (
    id {text} NOT NULL PRIMARY KEY,
    notification_id {text} NOT NULL,
    recipient {text} NOT NULL,
    channel {text} NOT NULL,
    status {text} NOT NULL,
    priority {text} NOT NULL,
    due_at {integer} NOT NULL,
    created_at {integer} NOT NULL,
    updated_at {integer} NOT NULL,
    reason {text} NOT NULL,
    batch_key {text} NOT NULL,
    lead {text} NOT NULL,
    fence {integer} NOT NULL,
    failures {integer} NOT NULL,
    error {text} NOT NULL,
    detail {text} NOT NULL,
    round {integer} NOT NULL,
    posted_at {integer} NOT NULL,
    UNIQUE (notification_id, channel)
){strict};

CREATE INDEX delivery_unposted ON {schema}delivery (id)
    WHERE posted_at = 0 AND status IN ('pending', 'scheduled');
CREATE INDEX delivery_silent ON {schema}delivery (updated_at)
    WHERE status IN ('pending', 'scheduled', 'processing');
CREATE INDEX delivery_of_batch ON {schema}delivery (batch_key)
    WHERE batch_key <> '' AND status IN ('pending', 'scheduled', 'processing');
CREATE INDEX delivery_led ON {schema}delivery (lead) WHERE lead <> '';
CREATE INDEX delivery_attention ON {schema}delivery (updated_at) WHERE status IN ('failed', 'dead');
CREATE INDEX delivery_settled ON {schema}delivery (updated_at)
    WHERE status IN ('sent', 'delivered', 'skipped', 'cancelled');
CREATE INDEX delivery_of ON {schema}delivery (recipient, created_at, id);
CREATE INDEX delivery_in_turn ON {schema}delivery (created_at, id);

CREATE TABLE {schema}inbox (
    number {number},
    notification_id {text} NOT NULL UNIQUE,
    recipient {text} NOT NULL,
    delivered_at {integer} NOT NULL,
    read_at {integer} NOT NULL,
    archived_at {integer} NOT NULL
){strict};

CREATE INDEX inbox_of ON {schema}inbox (recipient, number);
CREATE INDEX inbox_unread ON {schema}inbox (recipient) WHERE read_at = 0 AND archived_at = 0;
CREATE INDEX inbox_delivered ON {schema}inbox (delivered_at);

-- Places under an hourly cap: (key, hour, slot) is taken by one delivery.
CREATE TABLE {schema}place (
    cap_key {text} NOT NULL,
    hour {integer} NOT NULL,
    slot {integer} NOT NULL,
    delivery_id {text} NOT NULL,
    PRIMARY KEY (cap_key, hour, slot)
){strict};

CREATE INDEX place_over ON {schema}place (hour);

-- What tokens are made with: one row.
CREATE TABLE {schema}secret (
    number {integer} NOT NULL PRIMARY KEY,
    value {text} NOT NULL
){strict};

CREATE TABLE {schema}token (
    token {text} NOT NULL PRIMARY KEY,
    kind {text} NOT NULL,
    delivery_id {text} NOT NULL,
    recipient {text} NOT NULL,
    type {text} NOT NULL,
    channel {text} NOT NULL,
    expires_at {integer} NOT NULL,
    target {text} NOT NULL,
    used_at {integer} NOT NULL,
    uses {integer} NOT NULL
){strict};

CREATE INDEX token_over ON {schema}token (expires_at);
