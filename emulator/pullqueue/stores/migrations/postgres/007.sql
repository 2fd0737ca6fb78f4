-- The last run of each cron job, by its schedule, target and URL.
CREATE TABLE cron_runs (
    job text COLLATE "C" NOT NULL PRIMARY KEY,
    started_usec bigint NOT NULL,
    status integer,
    reason text
);
