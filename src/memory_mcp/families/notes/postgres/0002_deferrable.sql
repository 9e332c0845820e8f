-- A note may refer to a later one, so a move of notes checks these at its end.
ALTER TABLE notes ALTER CONSTRAINT notes_tenant_superseded_by_fkey DEFERRABLE INITIALLY IMMEDIATE;
ALTER TABLE notes ALTER CONSTRAINT notes_tenant_previous_fkey DEFERRABLE INITIALLY IMMEDIATE;
