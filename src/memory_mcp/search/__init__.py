"""Search: words (what to hand to FTS5), ranking (pure functions), vectors (cosine in process)."""
