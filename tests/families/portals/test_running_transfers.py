"""One user has a share of the imports and exports that a server runs at once."""

from contextlib import ExitStack

import pytest

from memory_mcp.errors import Unavailable
from memory_mcp.families.portals.transfer_folders import RunningTransfers


def test_one_user_does_not_take_all_transfers() -> None:
    running = RunningTransfers("exports", max_total=3, max_per_user=2)
    with ExitStack() as eve, ExitStack() as ann:
        eve.enter_context(running.begin("eve"))
        eve.enter_context(running.begin("eve"))
        with pytest.raises(Unavailable, match="2 exports of yours are running") as refused, running.begin("eve"):
            pass
        assert refused.value.data["retry_after"] > 0
        ann.enter_context(running.begin("ann"))
        with pytest.raises(Unavailable, match="3 exports are running"), running.begin("bob"):
            pass
        eve.close()
        ann.enter_context(running.begin("ann"))
    with running.begin("eve"), running.begin("eve"):
        pass
