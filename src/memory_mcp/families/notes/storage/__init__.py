"""What the notes' file holds, a module for each part of it."""
