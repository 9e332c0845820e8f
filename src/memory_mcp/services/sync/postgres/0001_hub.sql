-- What a hub stores for its users: one merged record of each note, and the state of each node. The tenant is the user.
CREATE TABLE changes (
    tenant  tenant_id,
    user_id text COLLATE "C" NOT NULL,
    seq     bigint NOT NULL,                  -- of the user's last change
    PRIMARY KEY (tenant, user_id)
) WITH (fillfactor = 50);

CREATE TABLE records (
    tenant    tenant_id,
    user_id   text COLLATE "C" NOT NULL,
    id        text COLLATE "C" NOT NULL,      -- of the note
    namespace text COLLATE "C",               -- where it is now; NULL for a deletion of an unknown note
    record    text COLLATE "C" NOT NULL,      -- JSON, see sync/records.py
    PRIMARY KEY (tenant, user_id, id)
);

-- Every namespace a note has ever been in: a node that syncs one of them learns where the note went.
CREATE TABLE places (
    tenant    tenant_id,
    user_id   text COLLATE "C" NOT NULL,
    id        text COLLATE "C" NOT NULL,
    namespace text COLLATE "C" NOT NULL,
    seq       bigint NOT NULL,                -- of the note's last change
    node      text COLLATE "C" NOT NULL,      -- that sent this change
    PRIMARY KEY (tenant, user_id, id, namespace)
);
CREATE INDEX places_by_seq ON places (tenant, user_id, namespace, seq, node);

-- A node shows the ticket it was given last. One that shows another is a copy, or was restored to an earlier state.
CREATE TABLE nodes (
    tenant  tenant_id,
    user_id text COLLATE "C" NOT NULL,
    node    text COLLATE "C" NOT NULL,
    ticket  text COLLATE "C" NOT NULL,        -- the latest
    former  text COLLATE "C",                 -- the one before it, in case the answer was lost; NULL: the first
    doubt   bigint NOT NULL DEFAULT 0,        -- the user's last change when the node last showed the former ticket
    PRIMARY KEY (tenant, user_id, node)
);

CREATE TABLE namespaces (
    tenant    tenant_id,
    user_id   text COLLATE "C" NOT NULL,
    namespace text COLLATE "C" NOT NULL,
    seal      text COLLATE "C",               -- the fingerprint of the secret; NULL: the hub can read the notes
    PRIMARY KEY (tenant, user_id, namespace)
);
