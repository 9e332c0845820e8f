"""Real clients of older SDKs visit the real server, over every transport it has.

Each client lives in an environment of its own under .compat/, with the versions that clients/NAME.txt pins.
To update the pins of one: `uv pip compile --universal --python-version 3.11 --generate-hashes --no-annotate --no-header
clients/NAME.in -o clients/NAME.txt`.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

CLIENTS = ("mcp-1.8", "mcp-1.12", "mcp-1.30")
HERE = Path(__file__).parent / "clients"
ENVIRONMENTS = Path(__file__).parents[2] / ".compat"
BIN = Path(sys.executable).parent
SERVER = str(BIN / "memory-mcp")
VISIT_TIMEOUT_S = 60  # a visit takes about two seconds


@dataclass(frozen=True)
class Endpoint:
    """A transport and its target, as script.py takes them."""

    transport: str
    target: tuple[str, ...]


def main() -> int:
    parser = argparse.ArgumentParser(prog="make old-clients", description=__doc__)
    parser.add_argument("clients", nargs="*", metavar="CLIENT", help=f"{', '.join(CLIENTS)}; the default is all.")
    clients = parser.parse_args().clients or CLIENTS
    if unknown := set(clients) - set(CLIENTS):
        parser.error(f"unknown client: {', '.join(sorted(unknown))}")
    pythons = {client: install(client) for client in clients}
    with tempfile.TemporaryDirectory() as data_dir:
        key = create_key(data_dir)
        with http_server(data_dir) as url:
            endpoints = [
                Endpoint("stdio", (SERVER, "--data-dir", data_dir)),
                Endpoint("http", (url,)),
                Endpoint("sse", (f"{url}/sse",)),
            ]
            passed = [visit(client, pythons[client], endpoint, key) for client in clients for endpoint in endpoints]
    print(f"{passed.count(True)} passed, {passed.count(False)} failed")
    return 0 if all(passed) else 1


def install(client: str) -> Path:
    """The Python of the client's environment, which afterwards holds what its file pins and nothing else."""
    environment = ENVIRONMENTS / client
    uv = [str(BIN / "uv"), "--quiet"]
    subprocess.run([*uv, "venv", "--allow-existing", "--python", sys.executable, environment], check=True)
    pins = HERE / f"{client}.txt"
    subprocess.run([*uv, "pip", "sync", "--require-hashes", "--python", environment, pins], check=True)
    return environment / "bin" / "python"


def create_key(data_dir: str) -> str:
    command = [SERVER, "keys", "create", "--name", "old", "--data-dir", data_dir, "--json"]
    created = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    return str(created["key"])


@contextmanager
def http_server(data_dir: str) -> Iterator[str]:
    """A server on a free port, and the address that it prints when it is ready."""
    command = [SERVER, "serve", "--transport", "http", "--port", "0", "--data-dir", data_dir]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            yield next(found[1] for line in server.stdout if (found := re.search(r"MCP +(http\S+)", line)))
        finally:
            server.terminate()


def visit(client: str, python: Path, endpoint: Endpoint, key: str) -> bool:
    """Print how it went. A failed visit shows the output of the client and of a server of its own."""
    started = time.monotonic()
    command = [
        str(python),
        str(HERE / "script.py"),
        f"{client}-{endpoint.transport}",
        endpoint.transport,
        *endpoint.target,
    ]
    environment = os.environ | {"MEMORY_KEY": key}
    try:
        done = subprocess.run(command, env=environment, capture_output=True, timeout=VISIT_TIMEOUT_S)
    except subprocess.TimeoutExpired as exc:
        output = (exc.stderr or b"") + f"No end after {VISIT_TIMEOUT_S} seconds.\n".encode()
        done = subprocess.CompletedProcess(command, 1, b"", output)
    passed = done.returncode == 0
    spoke = done.stdout.decode().strip() or "-"
    took = time.monotonic() - started
    print(f"{client:<10}{endpoint.transport:<7}{spoke:<12}{'passed' if passed else 'FAILED'}  {took:.1f} s", flush=True)
    if not passed:
        print(done.stderr.decode(), file=sys.stderr, flush=True)
    return passed


if __name__ == "__main__":
    sys.exit(main())
