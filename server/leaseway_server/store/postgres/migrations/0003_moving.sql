-- Where a queue is moved to or from, and where the tokens were moved to (store/moved.py); '' where nobody moves them.
-- A server that does not know of it would serve what is elsewhere by now.

ALTER TABLE leaseway.queue ADD COLUMN move text COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE leaseway.access ADD COLUMN move text COLLATE "C" NOT NULL DEFAULT '';

UPDATE leaseway.version SET number = 3, oldest_reader = 3;
