-- Which session wrote each text last, and when: recall finds a text by what the same session wrote just before. The texts so
-- far get these facts when their family is searched next; their words and vectors stay.

ALTER TABLE texts ADD COLUMN session_id TEXT;  -- NULL: not known
ALTER TABLE texts ADD COLUMN written_at TEXT;  -- to the millisecond, in UTC

UPDATE texts SET has_facts = 0;
UPDATE text_groups SET version = NULL;
