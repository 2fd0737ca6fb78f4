-- Which server sends the push tasks of a queue, and until when no other one may.
CREATE TABLE dispatchers (
    queue text PRIMARY KEY,
    server text NOT NULL,
    until_usec bigint NOT NULL
);
