-- Who holds a key, and for how long, follows from the items: `held`, `posted_by`, `posted_at` and the configuration, which
-- may change. A table beside them would say what was configured when it was written.

DROP TABLE held_key;

CREATE INDEX item_holder ON item (key, posted_by) WHERE held = 1;

-- Whose key is held for the window only.
CREATE INDEX item_passing ON item (posted_at) WHERE held = 1 AND finished_at > 0;
