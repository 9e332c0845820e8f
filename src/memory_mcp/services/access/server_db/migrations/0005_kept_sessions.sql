-- Owned by sessions/. A session that no client named can be resumed by none: what it kept on purpose is deleted in time.
ALTER TABLE held_sessions ADD COLUMN is_named INTEGER NOT NULL DEFAULT 1;

CREATE TABLE kept_sessions (
    user_id    TEXT NOT NULL,
    session_id TEXT NOT NULL,
    ended_at   TEXT NOT NULL,
    PRIMARY KEY (user_id, session_id)
) STRICT;
