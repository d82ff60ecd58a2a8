-- One text for both databases: parameters are $1, $2, …; `{in $1}` is a parameter that holds a list, `{schema}` stands
-- before each table. Where more than one writes at a time `{for_update}` locks rows against all, `{for_change}` against
-- who changes them too, and `{for_staying}` only against who deletes them.

-- ── Recipients ──

-- name: recipients
SELECT id, address, name, zone, preferences FROM {schema}recipient WHERE id {in $1};

-- name: subscriptions
SELECT id, endpoint, p256dh, auth, recipient FROM {schema}subscription WHERE recipient {in $1} ORDER BY id;

-- name: working_on
SELECT recipient, context, until FROM {schema}working_on WHERE recipient {in $1};

-- name: save_recipient
INSERT INTO {schema}recipient (id, address, name, zone, preferences) VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (id) DO UPDATE SET address = excluded.address, name = excluded.name, zone = excluded.zone,
    preferences = excluded.preferences;

-- name: save_contact
INSERT INTO {schema}recipient (id, address, name, zone, preferences) VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (id) DO UPDATE SET address = excluded.address, name = excluded.name, zone = excluded.zone;

-- name: lock_recipient
SELECT preferences FROM {schema}recipient WHERE id = $1 {for_change};

-- name: stay
-- None of them is forgotten before this transaction ends. All else may be done with them meanwhile.
SELECT id FROM {schema}recipient WHERE id {in $1} ORDER BY id {for_staying};

-- name: part_with
-- Who writes something for the recipient is waited for, so that it is dropped too.
SELECT id FROM {schema}recipient WHERE id = $1 {for_update};

-- name: set_preferences
UPDATE {schema}recipient SET preferences = $2 WHERE id = $1;

-- name: forget_notifications
DELETE FROM {schema}notification WHERE id IN (SELECT notification_id FROM {schema}delivery WHERE recipient = $1
    UNION SELECT notification_id FROM {schema}inbox WHERE recipient = $1);

-- name: forget_deliveries
DELETE FROM {schema}delivery WHERE recipient = $1;

-- name: forget_inbox
DELETE FROM {schema}inbox WHERE recipient = $1;

-- name: forget_keys
DELETE FROM {schema}held_key WHERE recipient = $1;

-- name: forget_tokens
DELETE FROM {schema}token WHERE recipient = $1;

-- name: forget_recipient
DELETE FROM {schema}recipient WHERE id = $1;

-- name: forget_subscriptions
DELETE FROM {schema}subscription WHERE recipient = $1;

-- name: save_subscription
INSERT INTO {schema}subscription (endpoint, id, recipient, p256dh, auth) VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (endpoint) DO UPDATE SET id = excluded.id, recipient = excluded.recipient, p256dh = excluded.p256dh,
    auth = excluded.auth;

-- name: remove_subscription
DELETE FROM {schema}subscription WHERE endpoint = $1;

-- name: forget_work
DELETE FROM {schema}working_on WHERE recipient = $1;

-- name: save_work
INSERT INTO {schema}working_on (recipient, context, until) VALUES ($1, $2, $3)
ON CONFLICT (recipient, context) DO UPDATE SET until = excluded.until;

-- ── Planning ──

-- name: insert_notification
INSERT INTO {schema}notification ({notification}) VALUES ({notification_values}) ON CONFLICT (id) DO NOTHING;

-- name: take_key
-- A key that somebody holds stays theirs until its time is over; then one of those who want it gets it.
INSERT INTO {schema}held_key (recipient, dedupe_key, notification_id, held_until) VALUES ($1, $2, $3, $5)
ON CONFLICT (recipient, dedupe_key) DO UPDATE SET notification_id = excluded.notification_id,
    held_until = excluded.held_until
WHERE held_key.held_until <= $4;

-- name: holder
SELECT notification_id FROM {schema}held_key WHERE recipient = $1 AND dedupe_key = $2;

-- name: set_duplicate
UPDATE {schema}notification SET duplicate_of = $2 WHERE id = $1;

-- name: insert_delivery
INSERT INTO {schema}delivery ({delivery}) VALUES ({delivery_values});

-- name: notification
SELECT {notification} FROM {schema}notification WHERE id = $1;

-- name: deliveries_of
SELECT {delivery} FROM {schema}delivery WHERE notification_id = $1;

-- ── The outbox ──

-- name: unposted
SELECT {delivery} FROM {schema}delivery
WHERE posted_at = 0 AND status IN ('pending', 'scheduled') AND id > $1 ORDER BY id LIMIT $2;

-- name: mark_posted
UPDATE {schema}delivery SET posted_at = $2 WHERE id {in $1};

-- name: silent
SELECT {delivery} FROM {schema}delivery WHERE status IN ('pending', 'scheduled', 'processing')
AND updated_at < $1 AND due_at < $1 AND posted_at < $1 ORDER BY updated_at LIMIT $2;

-- name: give_up
UPDATE {schema}delivery SET status = 'dead', error = $2, lead = '', updated_at = $3
WHERE id = $1 AND status IN ('pending', 'scheduled', 'processing') AND updated_at < $4;

-- ── Execution ──

-- name: sending
SELECT {sending} FROM {schema}delivery AS d JOIN {schema}notification AS n ON n.id = d.notification_id WHERE d.id = $1;

-- name: begin
UPDATE {schema}delivery SET status = 'processing', fence = $2, updated_at = $3,
    lead = CASE WHEN batch_key = '' THEN '' ELSE id END
WHERE id = $1 AND fence <= $2 AND status IN ('pending', 'scheduled', 'processing') AND (lead = '' OR lead = id);

-- name: lock_batch
-- In one order, so that two who are at it wait for each other. A key is a short hash, and who names a context can make
-- one that is another's too: what is not the recipient's own is never taken along.
SELECT id FROM {schema}delivery WHERE batch_key = $1 AND batch_key <> '' AND recipient = $2
AND status IN ('pending', 'scheduled', 'processing') ORDER BY id {for_update};

-- name: take_along
UPDATE {schema}delivery SET lead = $2, status = 'processing', updated_at = $3
WHERE id IN (SELECT id FROM {schema}delivery WHERE batch_key = $1 AND batch_key <> '' AND recipient = $5
    AND status IN ('pending', 'scheduled', 'processing') AND (lead = '' OR lead = $2) AND id <> $2
    ORDER BY lead DESC, created_at, id LIMIT $4);

-- name: led
SELECT {sending} FROM {schema}delivery AS d JOIN {schema}notification AS n ON n.id = d.notification_id
WHERE d.lead = $1 AND d.lead <> '' AND d.id <> $1 AND d.status = 'processing' ORDER BY d.created_at, d.id;

-- name: lock_begun
SELECT id FROM {schema}delivery WHERE id = $1 AND fence = $2 AND status {in $3} AND (lead = '' OR lead = id)
{for_update};

-- name: ids_led
SELECT id FROM {schema}delivery WHERE lead = $1 AND id <> $1 AND status = 'processing' ORDER BY id;

-- name: change
UPDATE {schema}delivery SET status = $2, reason = $3, error = $4, failures = failures + $5,
    due_at = COALESCE($6, due_at), batch_key = COALESCE($7, batch_key), lead = CASE WHEN $5 > 0 THEN lead ELSE '' END,
    detail = $8, updated_at = $9
WHERE id {in $1} AND status {in $10};

-- name: cancel
UPDATE {schema}delivery SET status = 'cancelled', lead = '', updated_at = $2
WHERE id = $1 AND status IN ('pending', 'scheduled', 'processing');

-- name: free_led
UPDATE {schema}delivery SET lead = '', status = 'pending', updated_at = $2
WHERE lead = $1 AND id <> $1 AND status IN ('pending', 'scheduled', 'processing');

-- name: newer_sent
SELECT 1 FROM {schema}notification AS n JOIN {schema}delivery AS d ON d.notification_id = n.id
WHERE n.group_key = $1 AND n.group_key <> '' AND n.type = $2 AND d.channel = $3 AND n.created_at > $4 AND n.recipient = $5
AND d.status IN ('sent', 'delivered') LIMIT 1;

-- ── Looking ──

-- name: deliveries
SELECT {sending} FROM {schema}delivery AS d JOIN {schema}notification AS n ON n.id = d.notification_id
WHERE ($1 = '' OR d.recipient = $1) AND ($2 = '' OR d.channel = $2) AND ($3 = '' OR d.notification_id = $3)
AND ($4 = '' OR $4 = CASE WHEN d.status IN ('pending', 'scheduled') AND d.failures > 0 THEN 'retrying' ELSE d.status END)
AND ($5 = '' OR (d.created_at, d.id) < (SELECT created_at, id FROM {schema}delivery WHERE id = $5))
ORDER BY d.created_at DESC, d.id DESC LIMIT $6;

-- name: attention
SELECT {sending} FROM {schema}delivery AS d JOIN {schema}notification AS n ON n.id = d.notification_id
WHERE d.status IN ('failed', 'dead')
AND ($1 = '' OR (d.updated_at, d.id) < (SELECT updated_at, id FROM {schema}delivery WHERE id = $1))
ORDER BY d.updated_at DESC, d.id DESC LIMIT $2;

-- name: reopen
UPDATE {schema}delivery SET status = 'pending', reason = '', error = '', failures = 0, fence = 0, lead = '',
    round = round + 1, posted_at = 0, due_at = $2, updated_at = $2
WHERE id = $1 AND status IN ('failed', 'dead');

-- name: counts
SELECT status, count(*) AS many FROM {schema}delivery
WHERE status IN ('pending', 'scheduled', 'processing', 'failed', 'dead') GROUP BY status;

-- ── The inbox ──

-- name: put_in_inbox
INSERT INTO {schema}inbox (notification_id, recipient, delivered_at, read_at, archived_at) VALUES ($1, $2, $3, 0, 0)
ON CONFLICT (notification_id) DO NOTHING;

-- name: inbox_entry
SELECT {entry} FROM {schema}inbox AS i JOIN {schema}notification AS n ON n.id = i.notification_id
WHERE i.notification_id = $1;

-- name: inbox
SELECT {entry} FROM {schema}inbox AS i JOIN {schema}notification AS n ON n.id = i.notification_id
WHERE i.recipient = $1 AND (i.number < $2 OR $2 = 0) AND (i.archived_at > 0) = ($3 > 0) AND ($4 = 0 OR i.read_at = 0)
ORDER BY i.number DESC LIMIT $5;

-- name: unread
SELECT count(*) AS many FROM {schema}inbox WHERE recipient = $1 AND read_at = 0 AND archived_at = 0;

-- name: mark_read
UPDATE {schema}inbox SET read_at = $3 WHERE recipient = $1 AND read_at = 0 AND notification_id {in $2};

-- name: mark_read_all
UPDATE {schema}inbox SET read_at = $2 WHERE recipient = $1 AND read_at = 0;

-- name: mark_unread
UPDATE {schema}inbox SET read_at = 0 WHERE recipient = $1 AND read_at > 0 AND notification_id {in $2};

-- name: mark_unread_all
UPDATE {schema}inbox SET read_at = 0 WHERE recipient = $1 AND read_at > 0;

-- name: mark_archive
UPDATE {schema}inbox SET archived_at = $3 WHERE recipient = $1 AND archived_at = 0 AND notification_id {in $2};

-- name: mark_archive_all
UPDATE {schema}inbox SET archived_at = $2 WHERE recipient = $1 AND archived_at = 0;

-- name: mark_unarchive
UPDATE {schema}inbox SET archived_at = 0 WHERE recipient = $1 AND archived_at > 0 AND notification_id {in $2};

-- name: mark_unarchive_all
UPDATE {schema}inbox SET archived_at = 0 WHERE recipient = $1 AND archived_at > 0;

-- name: is_read
SELECT 1 FROM {schema}inbox WHERE notification_id = $1 AND (read_at > 0 OR archived_at > 0);

-- ── Caps and tokens ──

-- name: places
SELECT slot, delivery_id FROM {schema}place WHERE cap_key = $1 AND hour = $2 ORDER BY slot;

-- name: take_place
INSERT INTO {schema}place (cap_key, hour, slot, delivery_id) VALUES ($1, $2, $3, $4)
ON CONFLICT (cap_key, hour, slot) DO NOTHING;

-- name: keep_secret
INSERT INTO {schema}secret (number, value) VALUES (1, $1) ON CONFLICT (number) DO NOTHING;

-- name: secret
SELECT value FROM {schema}secret;

-- name: insert_token
INSERT INTO {schema}token ({token}) VALUES ({token_values}) ON CONFLICT (token) DO NOTHING;

-- name: use_token
UPDATE {schema}token SET uses = uses + 1, used_at = CASE WHEN used_at = 0 THEN $2 ELSE used_at END
WHERE token = $1 AND expires_at > $2 RETURNING {token};

-- ── Keeping house ──

-- name: drop_tokens
DELETE FROM {schema}token WHERE token IN (
    SELECT token FROM {schema}token WHERE expires_at < $1 ORDER BY expires_at LIMIT $2);

-- name: drop_work
DELETE FROM {schema}working_on WHERE (recipient, context) IN (
    SELECT recipient, context FROM {schema}working_on WHERE until < $1 ORDER BY until LIMIT $2);

-- name: drop_keys
DELETE FROM {schema}held_key WHERE (recipient, dedupe_key) IN (
    SELECT recipient, dedupe_key FROM {schema}held_key WHERE held_until < $1 ORDER BY held_until LIMIT $2);

-- name: drop_places
DELETE FROM {schema}place WHERE (cap_key, hour, slot) IN (
    SELECT cap_key, hour, slot FROM {schema}place WHERE hour < $1 ORDER BY hour LIMIT $2);

-- name: drop_dead
DELETE FROM {schema}delivery WHERE id IN (
    SELECT id FROM {schema}delivery WHERE status IN ('failed', 'dead') AND updated_at < $1
    ORDER BY updated_at LIMIT $2) RETURNING notification_id;

-- name: drop_settled
DELETE FROM {schema}delivery WHERE id IN (
    SELECT id FROM {schema}delivery WHERE status IN ('sent', 'delivered', 'skipped', 'cancelled') AND updated_at < $1
    ORDER BY updated_at LIMIT $2) RETURNING notification_id;

-- name: drop_inbox
DELETE FROM {schema}inbox WHERE number IN (
    SELECT number FROM {schema}inbox WHERE delivered_at < $1 ORDER BY delivered_at LIMIT $2) RETURNING notification_id;

-- name: lock_notifications
-- Two who drop parts of one come here one after the other, and the later one sees that nothing is left of it.
SELECT id FROM {schema}notification WHERE id {in $1} ORDER BY id {for_update};

-- name: drop_notifications
DELETE FROM {schema}notification WHERE id {in $1}
AND NOT EXISTS (SELECT 1 FROM {schema}delivery WHERE notification_id = {schema}notification.id)
AND NOT EXISTS (SELECT 1 FROM {schema}inbox WHERE notification_id = {schema}notification.id);
