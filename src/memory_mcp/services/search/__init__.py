"""Search: queries for FTS5, ranking (pure functions) and vectors (cosine in process)."""
