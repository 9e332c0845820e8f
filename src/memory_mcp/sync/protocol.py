"""What nodes and hubs agree on."""

MOST_RECORDS = 200  # in one push or pull
MOST_AHEAD = 60_000  # milliseconds that a stamp may be ahead of the hub's clock
LONGEST_NAMESPACE = 128
CLOCK_AHEAD = "clock_ahead"
FORKED = "node_forked"
OTHER_SECRET = "other_secret"  # noqa: S105  # a word of an error
