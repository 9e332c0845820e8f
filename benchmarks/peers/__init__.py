"""Memory MCP next to other memory servers, in one run: `make bench-peers`."""
