"""The relay: what a client starts over stdio. It moves messages between the client and the shared server of its data
directory.

It imports the standard library only, so that it starts in a few hundredths of a second and takes little memory.
docs/shared-server.md describes the protocol between the two.
"""
