"""SQL of access/: users, keys, sign-ins and the audit log in server.db, rate limits in live.db."""
