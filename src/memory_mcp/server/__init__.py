"""The servers: MCP over stdio and HTTP, REST, the web app and the hub. The only code that uses the MCP SDK or HTTP."""
