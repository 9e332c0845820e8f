-- When each text was written and where it belongs. The texts so far get these facts when their family is searched next;
-- their words and vectors stay.

ALTER TABLE texts ADD COLUMN has_facts  INTEGER NOT NULL DEFAULT 0;  -- 0: the columns below are not filled yet
ALTER TABLE texts ADD COLUMN created_at TEXT;  -- to the millisecond, in UTC; NULL: not known, as are the others
ALTER TABLE texts ADD COLUMN updated_at TEXT;
ALTER TABLE texts ADD COLUMN namespace  TEXT;
ALTER TABLE texts ADD COLUMN source     TEXT;

UPDATE text_groups SET version = NULL;
