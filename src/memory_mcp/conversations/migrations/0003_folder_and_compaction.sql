-- is_unfinished = 1 says from now on that the transcript may have messages that are not stored.
ALTER TABLE conversations ADD COLUMN folder TEXT;        -- where the client works
ALTER TABLE conversations ADD COLUMN compacted_at TEXT;  -- what was said before is no longer in front of the model
