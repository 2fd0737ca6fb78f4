-- Which call an operation was part of: JSON that only the package reads; NULL: of none, or it is not
-- known.
ALTER TABLE events ADD COLUMN origin TEXT;
