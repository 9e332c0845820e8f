-- The triggers of earlier versions deleted from the words index, which needs SQLite 3.43. These only write down what has
-- changed, in plain tables: another program may write with any SQLite that has FTS5. storage.index_changes does the rest,
-- in the same transaction for our own writes and before the next search for those of other programs.
DROP TRIGGER indexed_ad;
DROP TRIGGER indexed_entities_au;
DROP TRIGGER indexed_observations_au;
DROP TRIGGER indexed_entities_text_au;
DROP TRIGGER indexed_entities_ad;
DROP TRIGGER indexed_observations_text_au;
DROP TRIGGER indexed_observations_ad;

-- No constraint: a conflict clause of the statement that fires a trigger also holds inside the trigger.
CREATE TABLE unindexed (id TEXT NOT NULL);            -- of an entity or observation that was written or deleted
CREATE TABLE unindexed_numbers (number INTEGER NOT NULL);  -- of rows of the words index that stand for nothing now

CREATE TRIGGER indexed_ad AFTER DELETE ON indexed BEGIN
    INSERT INTO unindexed_numbers VALUES (old.number);
END;

-- REPLACE deletes the row it replaces without firing a trigger for the deletion.
CREATE TRIGGER unindexed_entities_bi BEFORE INSERT ON entities BEGIN
    INSERT INTO unindexed SELECT id FROM entities WHERE name = new.name AND deleted_at IS NULL;
END;
CREATE TRIGGER unindexed_entities_ai AFTER INSERT ON entities BEGIN
    INSERT INTO unindexed VALUES (new.id);
END;
CREATE TRIGGER unindexed_entities_au AFTER UPDATE OF id, name, entity_type, deleted_at ON entities BEGIN
    INSERT INTO unindexed VALUES (old.id), (new.id);
END;
CREATE TRIGGER unindexed_entities_ad AFTER DELETE ON entities BEGIN
    INSERT INTO unindexed VALUES (old.id);
END;
CREATE TRIGGER unindexed_observations_bi BEFORE INSERT ON observations BEGIN
    INSERT INTO unindexed SELECT id FROM observations
    WHERE entity_id = new.entity_id AND content = new.content AND deleted_at IS NULL;
END;
CREATE TRIGGER unindexed_observations_ai AFTER INSERT ON observations BEGIN
    INSERT INTO unindexed VALUES (new.id);
END;
CREATE TRIGGER unindexed_observations_au AFTER UPDATE OF id, entity_id, content, deleted_at ON observations BEGIN
    INSERT INTO unindexed VALUES (old.id), (new.id);
END;
CREATE TRIGGER unindexed_observations_ad AFTER DELETE ON observations BEGIN
    INSERT INTO unindexed VALUES (old.id);
END;
