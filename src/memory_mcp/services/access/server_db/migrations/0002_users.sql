-- Owned by access/.
ALTER TABLE users ADD COLUMN name TEXT;  -- what people call them; the local user is called local
UPDATE users SET name = id;
CREATE UNIQUE INDEX users_by_name ON users (name);

ALTER TABLE keys ADD COLUMN namespace TEXT NOT NULL DEFAULT 'default';  -- of notes that name none
