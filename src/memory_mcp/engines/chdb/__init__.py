"""The chDB engine: one process for each open portal, shared by all servers on the machine, behind a wall."""
