"""The messages between relay and server, beside those of MCP. docs/shared-server.md describes them."""

VERSION = 1
KEY = "memory-mcp"  # of which each message has one of the values below
HELLO = "hello"  # by the relay
WELCOME, REFUSED, LEAVING = "welcome", "refused", "leaving"  # answers to it
ANSWER = "answer"  # to a hello with a verb: one request beside MCP
GOODBYE = "goodbye"  # a person has disconnected the client
PAUSED = "paused"  # a person has stopped the server
PREFIX = f'{{"{KEY}":'.encode()  # how lines with such messages begin
