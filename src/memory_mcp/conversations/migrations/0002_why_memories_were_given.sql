ALTER TABLE given_memories ADD COLUMN project TEXT NOT NULL DEFAULT '';
ALTER TABLE given_memories ADD COLUMN why TEXT NOT NULL DEFAULT '';  -- such as the heading of a digest
