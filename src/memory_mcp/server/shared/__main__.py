import sys

from memory_mcp.server.shared.process import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
