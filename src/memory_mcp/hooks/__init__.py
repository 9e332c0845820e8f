"""`memory-mcp hook EVENT`: what clients call. It imports the standard library alone, so that it starts fast."""
