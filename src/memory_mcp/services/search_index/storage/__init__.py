"""SQL of a search index."""
