"""The relay: the process that a client starts over stdio. It moves messages between the client and the shared server of
its data directory.

It imports little of the standard library and nothing else, so that it starts in a few hundredths of a second and takes
little memory. docs/shared-server.md describes the protocol between the two.
"""
