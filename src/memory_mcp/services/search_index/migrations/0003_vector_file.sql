-- Which file of packed vectors, a cache beside this one, belongs to this database.
CREATE TABLE vector_file (
    only_one INTEGER PRIMARY KEY CHECK (only_one = 1),
    token    TEXT    NOT NULL  -- random; the file has the same
);
