"""SQL of the notes' file, a module for each part of it."""
