"""The shared server: one process per data directory, which serves all its stdio clients through their relays."""
