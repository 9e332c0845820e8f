"""The machine around this process: operating system, paths, sockets, terminal, installation."""
