"""Files: locks, atomic writes, and folders that no path can leave."""
