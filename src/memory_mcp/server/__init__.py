"""Doors: how clients come in. The only code that knows the MCP SDK or HTTP."""
