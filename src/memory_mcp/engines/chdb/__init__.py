"""The chDB engine: one process for each open portal, shared by all servers, behind a SQL policy and a sandbox."""
