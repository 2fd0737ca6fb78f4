-- Push tasks: `request` and `attempts` are JSON that only the package reads. `finished` is the number
-- of the last attempt that ended, by which states are counted; a pull task has none of them.
ALTER TABLE tasks ADD COLUMN request TEXT;
ALTER TABLE tasks ADD COLUMN attempts TEXT;
ALTER TABLE tasks ADD COLUMN finished INTEGER;
ALTER TABLE exhausted ADD COLUMN request TEXT;
ALTER TABLE exhausted ADD COLUMN attempts TEXT;

-- The status of an attempt.
ALTER TABLE events ADD COLUMN status INTEGER;
