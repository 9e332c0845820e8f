"""What one caller does beyond a rate is delayed, so that a flood of it costs the others little."""

from memory_mcp.server.middleware import pace
from memory_mcp.server.middleware.pace import Pace

RATE_PER_S, BURST = 20.0, 40


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_what_goes_beyond_a_burst_is_delayed() -> None:
    clock = Clock()
    refusals = Pace(RATE_PER_S, BURST, clock)
    delays = [refusals.delay_s("192.0.2.1") for _ in range(BURST + 3)]
    assert max(delays[: BURST + 1]) <= 0
    assert [round(delay * RATE_PER_S) for delay in delays[BURST + 1 :]] == [1, 2]
    assert refusals.delay_s("192.0.2.2") <= 0
    clock.now += 3600
    assert refusals.delay_s("192.0.2.1") <= 0


def test_the_oldest_callers_are_forgotten() -> None:
    refusals = Pace(RATE_PER_S, BURST, Clock())
    for number in range(pace.MAX_CALLERS + 10):
        refusals.delay_s(str(number))
    assert len(refusals._due_at) == pace.MAX_CALLERS
