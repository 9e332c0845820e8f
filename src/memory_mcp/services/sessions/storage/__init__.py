"""SQL of sessions/: held sessions in server.db, connected clients in live.db."""
