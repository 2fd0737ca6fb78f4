-- Only PostgreSQL, which several servers share, has totals and lease calls in tables.
DROP TABLE balance;
DROP TABLE calls;
