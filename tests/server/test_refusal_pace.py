"""Refusals of one address come at a limited rate, so that a flood of them costs little."""

from memory_mcp.server.middleware import pace
from memory_mcp.server.middleware.pace import RefusalPace


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_refusals_beyond_a_burst_are_delayed() -> None:
    clock = Clock()
    refusals = RefusalPace(clock)
    delays = [refusals.delay_s("192.0.2.1") for _ in range(pace.BURST + 3)]
    assert max(delays[: pace.BURST + 1]) <= 0
    assert [round(delay * pace.RATE_PER_S) for delay in delays[pace.BURST + 1 :]] == [1, 2]
    assert refusals.delay_s("192.0.2.2") <= 0
    clock.now += 3600
    assert refusals.delay_s("192.0.2.1") <= 0


def test_the_oldest_addresses_are_forgotten() -> None:
    refusals = RefusalPace(Clock())
    for number in range(pace.MAX_ADDRESSES + 10):
        refusals.delay_s(str(number))
    assert len(refusals._due_at) == pace.MAX_ADDRESSES
