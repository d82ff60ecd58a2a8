-- When each token was last used, ms since the epoch, to about a minute; 0: never.

ALTER TABLE token ADD COLUMN used_at INTEGER NOT NULL DEFAULT 0;
