"""Imported last by the process that tests/processes.py forks: what every forked process would do again."""

import gc

import anyio._backends._asyncio
import bcrypt
import httpx2

from memory_mcp.cli.main import command
from tests.certificates import share_certificates

IMPORTED = (anyio, bcrypt)  # by servers when they start
command()
share_certificates()
httpx2.Client().close()
gc.collect()
gc.freeze()  # a collection in a forked process would copy every page that it looks at
