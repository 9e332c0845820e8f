import gc
import sys

gc.disable()  # as at every start: imports make many objects and no garbage

from memory_mcp.server.shared.process import main  # noqa: E402  # after that

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
