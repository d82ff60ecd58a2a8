-- Which of the items that a turn changed ended in it, and who had posted each: where one is gone before another server
-- looks, those who follow its poster there are to know that they missed an end.

ALTER TABLE leaseway.change ADD COLUMN ended bigint[] NOT NULL DEFAULT '{}';
ALTER TABLE leaseway.change ADD COLUMN posters text[] NOT NULL DEFAULT '{}';

UPDATE leaseway.version SET number = 4;
