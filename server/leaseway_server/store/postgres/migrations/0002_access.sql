-- How often tokens were added and revoked: a server reads them again where that has changed.
CREATE TABLE leaseway.access (
    changes bigint NOT NULL
) WITH (fillfactor = 20);

INSERT INTO leaseway.access (changes) VALUES (0);

UPDATE leaseway.version SET number = 2;
