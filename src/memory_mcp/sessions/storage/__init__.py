"""SQL of sessions/: what servers hold in server.db, who is connected in live.db."""
