-- The triggers of version 1 deleted from the words index, which needs SQLite 3.43. These only write down which memories
-- have changed, in plain tables: another program may write with any SQLite that has FTS5. storage.index_changes does the
-- rest, in the same transaction for our own writes and before the next search for those of other programs.
DROP TRIGGER session_words_ad;
DROP TRIGGER session_words_au;
DROP TRIGGER vault_words_au;
DROP TRIGGER vault_words_ad;

-- No constraint: a conflict clause of the statement that fires a trigger also holds inside the trigger.
CREATE TABLE session_unindexed (memory_id INTEGER NOT NULL);
CREATE TABLE vault_unindexed (memory_id INTEGER NOT NULL);

-- INSERT OR REPLACE deletes the row it replaces without firing a trigger for the deletion.
CREATE TRIGGER session_unindexed_bi BEFORE INSERT ON session_memories BEGIN
    INSERT INTO session_unindexed SELECT id FROM session_memories WHERE session_id = new.session_id AND key = new.key;
END;
CREATE TRIGGER session_unindexed_ai AFTER INSERT ON session_memories BEGIN
    INSERT INTO session_unindexed VALUES (new.id);
END;
CREATE TRIGGER session_unindexed_au AFTER UPDATE ON session_memories BEGIN
    INSERT INTO session_unindexed VALUES (old.id), (new.id);
END;
CREATE TRIGGER session_unindexed_ad AFTER DELETE ON session_memories BEGIN
    INSERT INTO session_unindexed VALUES (old.id);
END;
CREATE TRIGGER vault_unindexed_bi BEFORE INSERT ON vault_memories BEGIN
    INSERT INTO vault_unindexed SELECT id FROM vault_memories WHERE key = new.key;
END;
CREATE TRIGGER vault_unindexed_ai AFTER INSERT ON vault_memories BEGIN
    INSERT INTO vault_unindexed VALUES (new.id);
END;
CREATE TRIGGER vault_unindexed_au AFTER UPDATE OF id, key, content, tags ON vault_memories BEGIN
    INSERT INTO vault_unindexed VALUES (old.id), (new.id);
END;
CREATE TRIGGER vault_unindexed_ad AFTER DELETE ON vault_memories BEGIN
    INSERT INTO vault_unindexed VALUES (old.id);
END;
