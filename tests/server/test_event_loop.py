"""The event loop of a server over HTTP, and the threads that it shares the interpreter with."""

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from memory_mcp.server import event_loop, http_server
from memory_mcp.server.event_loop import LOOP_WAITS_S, THREAD_WAITS_S
from memory_mcp.settings import Settings
from memory_mcp.system import operating_system

MAX_LOOKS = 10_000_000  # at the interval, until the loop waits


@pytest.fixture(autouse=True)
def _restored_interval() -> Iterator[None]:
    before = sys.getswitchinterval()
    yield
    sys.setswitchinterval(before)


@pytest.mark.skipif(not operating_system.THIS.is_posix, reason="the event loop of Windows has no selector")
def test_threads_give_way_soon_to_a_loop_that_waits_and_late_interrupt_one_that_runs() -> None:
    def sees_waiting_loop() -> bool:
        return any(sys.getswitchinterval() == pytest.approx(LOOP_WAITS_S) for _ in range(MAX_LOOKS))

    async def main() -> tuple[float, bool, float]:
        before = sys.getswitchinterval()
        seen = await asyncio.get_running_loop().run_in_executor(None, sees_waiting_loop)
        return before, seen, sys.getswitchinterval()

    with asyncio.Runner(loop_factory=event_loop.new_event_loop) as runner:
        before, seen, after = runner.run(main())
    assert seen
    assert (before, after) == pytest.approx((THREAD_WAITS_S, THREAD_WAITS_S))


def test_a_server_over_http_runs_in_it(tmp_path: Path) -> None:
    config = http_server.config(None, Settings(data_dir=tmp_path, transport="http"))
    assert config.get_loop_factory() is event_loop.new_event_loop
