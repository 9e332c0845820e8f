"""Networks that can be cut: a namespace of the kernel for each computer, or TCP proxies where that is not allowed."""

import os
import selectors
import shutil
import socket
import subprocess
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Literal, Protocol

PORT = 8766
Cut = Literal["silent", "noticed"]
"""Packets vanish, as behind a broken router, or the computer itself reports that it has no network."""


class Network(Protocol):
    """A hub and some nodes, each on a link of its own to the hub."""

    kind: str
    hub_host: str
    hub_port: int

    def url(self, node: int) -> str:
        """The hub's address, seen from a node."""

    def at(self, node: int | None, command: Sequence[str]) -> list[str]:
        """A command as it is started on a node, or (None) beside the hub."""

    def cut(self, node: int, how: Cut) -> None: ...

    def heal(self, node: int) -> None: ...

    def close(self) -> None: ...


def create_network(nodes: int, *, proxies: bool = False) -> Network:
    """Proxies where namespaces are not allowed, or on request."""
    if not proxies and os.geteuid() == 0 and shutil.which("ip"):
        with suppress(subprocess.CalledProcessError):
            return Namespaces(nodes)
    return Proxies(nodes)


class Namespaces:
    """A veth pair for each node, with one end at the hub."""

    kind = "network namespaces"
    hub_host = "0.0.0.0"  # noqa: S104  # of a namespace that leads nowhere else
    hub_port = PORT

    def __init__(self, nodes: int) -> None:
        self._name = f"mms{os.getpid()}"
        self._nodes = range(nodes)
        try:
            for space in (self._space(None), *map(self._space, self._nodes)):
                _ip("netns", "add", space)
                _ip("-n", space, "link", "set", "lo", "up")
            for node in self._nodes:
                self._connect(node)
        except subprocess.CalledProcessError:
            self.close()
            raise

    def url(self, node: int) -> str:
        return f"http://10.97.{node}.1:{PORT}"

    def at(self, node: int | None, command: Sequence[str]) -> list[str]:
        return ["ip", "netns", "exec", self._space(node), *command]

    def cut(self, node: int, how: Cut) -> None:
        space, end = (self._space(None), f"hub{node}") if how == "silent" else (self._space(node), "node")
        _ip("-n", space, "link", "set", end, "down")

    def heal(self, node: int) -> None:
        _ip("-n", self._space(None), "link", "set", f"hub{node}", "up")
        _ip("-n", self._space(node), "link", "set", "node", "up")

    def close(self) -> None:
        for space in (self._space(None), *map(self._space, self._nodes)):
            with suppress(subprocess.CalledProcessError):
                _ip("netns", "del", space)

    def _space(self, node: int | None) -> str:
        return f"{self._name}hub" if node is None else f"{self._name}node{node}"

    def _connect(self, node: int) -> None:
        hub, space = self._space(None), self._space(node)
        _ip("-n", hub, "link", "add", f"hub{node}", "type", "veth", "peer", "name", "node", "netns", space)
        _ip("-n", hub, "addr", "add", f"10.97.{node}.1/30", "dev", f"hub{node}")
        _ip("-n", space, "addr", "add", f"10.97.{node}.2/30", "dev", "node")
        self.heal(node)


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True)


class Proxies:
    """All on loopback, each node through a proxy that can stop passing anything on."""

    kind = "TCP proxies"
    hub_host = "127.0.0.1"

    def __init__(self, nodes: int) -> None:
        with socket.create_server(("127.0.0.1", 0)) as found:
            self.hub_port = found.getsockname()[1]
        self._proxies = [Proxy(self.hub_port) for _ in range(nodes)]

    def url(self, node: int) -> str:
        return f"http://127.0.0.1:{self._proxies[node].port}"

    def at(self, node: int | None, command: Sequence[str]) -> list[str]:
        return list(command)

    def cut(self, node: int, how: Cut) -> None:
        self._proxies[node].state = how

    def heal(self, node: int) -> None:
        self._proxies[node].state = None

    def close(self) -> None:
        for proxy in self._proxies:
            proxy.close()


class Proxy:
    """Passes bytes on to a port. While it is cut silently it holds them; when that is noticed it hangs up."""

    def __init__(self, target: int) -> None:
        self.state: Cut | None = None
        self._target = target
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        self._closed = False
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._closed = True
        self._listening.close()

    def _accept(self) -> None:
        while not self._closed:
            with suppress(OSError):
                client, _ = self._listening.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with suppress(OSError), client, socket.create_connection(("127.0.0.1", self._target)) as hub:
            _pass_on(client, hub, lambda: "noticed" if self._closed else self.state)


def _pass_on(one: socket.socket, other: socket.socket, state: Callable[[], Cut | None]) -> None:
    with selectors.DefaultSelector() as waiting:
        waiting.register(one, selectors.EVENT_READ, other)
        waiting.register(other, selectors.EVENT_READ, one)
        while (now := state()) != "noticed":
            ready = waiting.select(0.05) if now is None else ()
            for key, _ in ready:
                source: socket.socket = key.fileobj  # type: ignore[assignment]  # as it was registered
                piece = source.recv(65536)
                if not piece:
                    return
                key.data.sendall(piece)
            if now == "silent":
                threading.Event().wait(0.05)
