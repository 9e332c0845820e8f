"""Where and how data is kept: SQLite, chDB and plain files. Engines know a technique and no family."""
