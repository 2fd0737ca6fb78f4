-- How many tasks a queue has and their size: the sum of its parts. Each connection adds to a part of
-- its own, so that none waits for another.
ALTER TABLE balance RENAME TO totals;

-- The times of the latest lease calls of a queue, where their rate is limited: one row, whose lock
-- decides which of several calls is the first.
DROP TABLE calls;
CREATE TABLE lease_calls (
    queue text COLLATE "C" NOT NULL PRIMARY KEY,
    usecs bigint[] NOT NULL
);

-- The time of the database.
CREATE FUNCTION clock_usec() RETURNS bigint LANGUAGE sql VOLATILE
AS 'SELECT CAST(extract(epoch FROM clock_timestamp()) * 1000000 AS bigint)';

-- The part of totals and lease counts to which a connection adds.
CREATE FUNCTION own_part() RETURNS integer LANGUAGE sql STABLE
AS 'SELECT mod(pg_backend_pid(), 64)';
