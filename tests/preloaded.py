"""Imported last by the process that tests/processes.py forks: what every forked process would do again."""

import gc

from memory_mcp.cli.main import command

command()
gc.collect()
gc.freeze()  # a collection in a forked process would copy every page that it looks at
