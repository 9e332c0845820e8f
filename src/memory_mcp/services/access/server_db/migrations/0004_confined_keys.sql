-- Owned by access/.
ALTER TABLE keys ADD COLUMN is_confined INTEGER NOT NULL DEFAULT 0;  -- 1: nothing outside its namespace exists for it
