-- name: encoding
SELECT pg_catalog.current_setting('server_encoding');

-- name: lock
SELECT pg_catalog.pg_advisory_xact_lock(1279607123, 0);

-- name: is_there
SELECT EXISTS (SELECT FROM pg_catalog.pg_namespace WHERE nspname = 'leaseway');

-- name: make
CREATE SCHEMA leaseway;

-- name: tables
-- Whatever holds rows, or looks as if it did.
SELECT relname FROM pg_catalog.pg_class JOIN pg_catalog.pg_namespace AS space ON space.oid = relnamespace
WHERE nspname = 'leaseway' AND relkind IN ('r', 'p', 'v', 'm', 'f');

-- name: is_ours
SELECT count(*) FROM pg_catalog.pg_attribute JOIN pg_catalog.pg_class AS class ON class.oid = attrelid
JOIN pg_catalog.pg_namespace AS space ON space.oid = relnamespace
WHERE nspname = 'leaseway' AND relname = 'version' AND relkind = 'r' AND attname IN ('number', 'oldest_reader')
AND atttypid = 'pg_catalog.int4'::pg_catalog.regtype;

-- name: version
SELECT number, oldest_reader FROM leaseway.version;

-- name: not_allowed
SELECT relname FROM pg_catalog.pg_class AS class JOIN pg_catalog.pg_namespace AS space ON space.oid = relnamespace
WHERE nspname = 'leaseway' AND relkind = 'r' AND relname <> 'version' AND NOT (
    pg_catalog.has_table_privilege(class.oid, 'SELECT') AND pg_catalog.has_table_privilege(class.oid, 'INSERT')
    AND pg_catalog.has_table_privilege(class.oid, 'UPDATE') AND pg_catalog.has_table_privilege(class.oid, 'DELETE')
) ORDER BY relname;

-- name: is_read_only
SELECT pg_catalog.current_setting('transaction_read_only') = 'on';

-- name: may_make
-- The schema, or within it what a newer version adds.
SELECT CASE WHEN EXISTS (SELECT FROM pg_catalog.pg_namespace WHERE nspname = 'leaseway')
    THEN pg_catalog.has_schema_privilege('leaseway', 'CREATE')
    ELSE pg_catalog.has_database_privilege(current_database(), 'CREATE') END;

-- name: who
SELECT current_user::text, current_database()::text;

-- name: found
SELECT ARRAY (SELECT name::text FROM leaseway.queue ORDER BY name), (
    SELECT count(*) FROM leaseway.server
    WHERE abs(beat_at - floor(extract(epoch FROM pg_catalog.clock_timestamp()) * 1000)) < $1::bigint
);

-- name: identity
SELECT pg_catalog.pg_postmaster_start_time()::text, oid FROM pg_catalog.pg_database WHERE datname = current_database();
