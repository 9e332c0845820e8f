-- What another program changes or deletes, foreign keys or not, leaves the index of words. The next one to open the file
-- indexes what is there then.
CREATE TRIGGER indexed_entities_text_au AFTER UPDATE OF id, name, entity_type ON entities BEGIN
    DELETE FROM indexed WHERE entity_id = old.id AND observation_id IS NULL;
END;
CREATE TRIGGER indexed_entities_ad AFTER DELETE ON entities BEGIN
    DELETE FROM indexed WHERE entity_id = old.id;
END;
CREATE TRIGGER indexed_observations_text_au AFTER UPDATE OF id, entity_id, content ON observations BEGIN
    DELETE FROM indexed WHERE observation_id = old.id;
END;
CREATE TRIGGER indexed_observations_ad AFTER DELETE ON observations BEGIN
    DELETE FROM indexed WHERE observation_id = old.id;
END;
