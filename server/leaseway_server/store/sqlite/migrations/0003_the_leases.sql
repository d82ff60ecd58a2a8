-- Who holds what, read once at the start: without this index, by a look at each item that is kept. It is as small as the
-- number of leases, and written by what begins and ends one; not by a renewal, nor by progress.
CREATE INDEX item_leased ON item (status) WHERE status = 'processing';
