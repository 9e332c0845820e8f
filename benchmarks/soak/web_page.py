"""An open page of the web app, without a browser: its stream of changes, and the requests of Home again and again."""

import asyncio
import re
from pathlib import Path

import httpx

from benchmarks.soak.servers import run_json

HOME = ("/api/overview", "/api/recent?limit=30&text=true", "/api/notes/attention")
INTERVAL_S = 5.0  # between two visits of Home
TIMEOUT_S = 60.0


class WebPage:
    def __init__(self, port: int, data_dir: Path, user: str) -> None:
        self.changes = 0  # events of the stream
        self.visits = 0
        self.failed: list[str] = []
        link = str(run_json("users", "link", user, data_dir=data_dir)["link"])
        self._sign_in = re.sub(r"^http://[^/]+", "", link)
        self._client = httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=TIMEOUT_S)
        self._tasks: list[asyncio.Task[None]] = []

    async def open(self) -> None:
        """Raises RuntimeError if the sign-in link is not accepted."""
        if (await self._client.get(self._sign_in)).status_code != httpx.codes.SEE_OTHER:
            raise RuntimeError("The sign-in link is not accepted.")
        self._tasks = [asyncio.create_task(self._listen()), asyncio.create_task(self._visit())]

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._client.aclose()

    async def _listen(self) -> None:
        try:
            async with self._client.stream("GET", "/api/events", timeout=None) as stream:
                stream.raise_for_status()
                async for line in stream.aiter_lines():
                    self.changes += line == "event: change"
            self.failed.append("the server has closed a page's stream of changes")
        except httpx.HTTPError as exc:
            self.failed.append(f"a page's stream of changes broke: {exc!r}")

    async def _visit(self) -> None:
        while True:
            for path in HOME:
                try:
                    (await self._client.get(path)).raise_for_status()
                except httpx.HTTPError as exc:
                    self.failed.append(f"{path}: {exc!r}")
            self.visits += 1
            await asyncio.sleep(INTERVAL_S)
