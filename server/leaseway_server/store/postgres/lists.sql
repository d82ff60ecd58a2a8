-- Looking through a queue without holding up its turns. $1 is the queue, $2 the row number that a page begins before.

-- name: last_number
SELECT last_value FROM leaseway.number;

-- name: floor_all
-- The last row to be looked at, where there are more than $3 of them.
SELECT seq FROM leaseway.item WHERE queue = $1 AND seq < $2 ORDER BY seq DESC LIMIT 1 OFFSET $3;

-- name: floor_key
SELECT max(last.seq) FROM unnest($4::text[]) AS source (value) CROSS JOIN LATERAL (
    SELECT seq FROM leaseway.item WHERE queue = $1 AND key <> '' AND key = source.value AND seq < $2
    ORDER BY seq DESC LIMIT 1 OFFSET $3
) AS last;

-- name: floor_trouble
SELECT max(last.seq) FROM unnest($4::text[]) AS source (value) CROSS JOIN LATERAL (
    SELECT seq FROM leaseway.item
    WHERE queue = $1 AND status <> 'pending' AND status <> 'processing' AND status <> 'finished' AND status = source.value
    AND seq < $2 ORDER BY seq DESC LIMIT 1 OFFSET $3
) AS last;

-- name: wanted
-- What `Filter.admits` says at the time $6; each list takes anything where it is empty.
($7::text[] = '{}' OR status = ANY ($7)) AND ($8::text[] = '{}' OR posted_by = ANY ($8))
AND ($9::text[] = '{}' OR key = ANY ($9))
AND ($10::text[] = '{}' OR CASE WHEN status = 'pending' AND due_at > $6
    THEN CASE WHEN attempts > 0 THEN 'retrying' ELSE 'scheduled' END ELSE status END = ANY ($10));

-- name: page_all
SELECT {columns} FROM leaseway.item WHERE queue = $1 AND seq < $2 AND seq >= $3 AND $4::text[] IS NOT NULL AND {wanted}
ORDER BY seq DESC LIMIT $5;

-- name: page_key
SELECT found.* FROM unnest($4::text[]) AS source (value) CROSS JOIN LATERAL (
    SELECT {columns} FROM leaseway.item
    WHERE queue = $1 AND key <> '' AND key = source.value AND seq < $2 AND seq >= $3 AND {wanted}
    ORDER BY seq DESC LIMIT $5
) AS found ORDER BY seq DESC LIMIT $5;

-- name: page_trouble
SELECT found.* FROM unnest($4::text[]) AS source (value) CROSS JOIN LATERAL (
    SELECT {columns} FROM leaseway.item
    WHERE queue = $1 AND status <> 'pending' AND status <> 'processing' AND status <> 'finished' AND status = source.value
    AND seq < $2 AND seq >= $3 AND {wanted}
    ORDER BY seq DESC LIMIT $5
) AS found ORDER BY seq DESC LIMIT $5;

-- name: some_results
-- The results of these rows, the newest first, up to the one that makes them too long.
SELECT seq, value FROM (
    SELECT found.*, sum(octet_length(value)) OVER (ORDER BY seq DESC ROWS UNBOUNDED PRECEDING) - octet_length(value) AS size
    FROM unnest($2::bigint[]) AS asked (number)
    CROSS JOIN LATERAL (SELECT * FROM leaseway.result WHERE queue = $1 AND seq = asked.number LIMIT 1) AS found
) AS sized WHERE size <= $3;

-- name: ahead
-- How many ready items stand before a position; at most $5 of them are counted.
SELECT count(*) FROM (
    SELECT FROM leaseway.item WHERE queue = $1 AND ready = 1 AND (rank, due_at, seq) < ($2, $3, $4)
    ORDER BY rank, due_at, seq LIMIT $5
) AS before;
