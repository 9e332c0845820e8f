-- When a file's content last changed: its time on disk tells that it was written, also by a git checkout that changed nothing.
DELETE FROM stores;  -- a cache: the files are read again, with their contents' hashes

ALTER TABLE memories ADD COLUMN content_hash BLOB;   -- of the whole file, whatever its line ends
ALTER TABLE memories ADD COLUMN stated_at TEXT;      -- updated_at as the front matter has it; updated_at is the later of the two
ALTER TABLE memories ADD COLUMN changed_ns INTEGER;  -- the file's time when it was first seen with this content; NULL: always had it

-- Contents that files had before, so that a file that gets one back, or is moved, is not taken for a new one.
CREATE TABLE former_contents (
    store        INTEGER NOT NULL,
    content_hash BLOB NOT NULL,
    changed_ns   INTEGER,
    PRIMARY KEY (store, content_hash)
) WITHOUT ROWID;

CREATE TRIGGER memories_changed AFTER UPDATE OF content_hash ON memories WHEN old.content_hash IS NOT new.content_hash BEGIN
    DELETE FROM former_contents WHERE store = old.store AND content_hash = old.content_hash;
    INSERT INTO former_contents VALUES (old.store, old.content_hash, old.changed_ns);
END;

CREATE TRIGGER memories_deleted AFTER DELETE ON memories BEGIN
    DELETE FROM former_contents WHERE store = old.store AND content_hash = old.content_hash;
    INSERT INTO former_contents VALUES (old.store, old.content_hash, old.changed_ns);
END;

CREATE TRIGGER stores_deleted AFTER DELETE ON stores BEGIN
    DELETE FROM former_contents WHERE store = old.number;
END;
