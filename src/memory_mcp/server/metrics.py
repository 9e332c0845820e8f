"""/metrics for Prometheus: of this process, since it started."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, PlatformCollector, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector
from starlette.requests import Request
from starlette.responses import Response

from memory_mcp.app import App
from memory_mcp.caller import LOCAL_USER
from memory_mcp.engines.transactions import PoolStats
from memory_mcp.errors import AppError, Forbidden
from memory_mcp.server.error_encoding import refusal
from memory_mcp.server.middleware.authentication import bearer_of
from memory_mcp.server.middleware.origin import LOOPBACK, host_name, is_loopback
from memory_mcp.server.request_context import ip_of, network_of_client
from memory_mcp.server.thread_pools import Pools, Workers
from memory_mcp.server.tool_calls import FinishedCall


class PoolCollector(Collector):
    """The connections to PostgreSQL, read when they are asked for."""

    def __init__(self, stats: Callable[[], PoolStats | None]) -> None:
        self._stats = stats

    def collect(self) -> Iterator[Metric]:
        stats = self._stats()
        if stats is None:
            return
        connections = GaugeMetricFamily(
            "memory_mcp_database_connections", "Connections to PostgreSQL, by state.", labels=["state"]
        )
        connections.add_metric(["used"], stats.used)
        connections.add_metric(["idle"], stats.idle)
        yield connections
        yield GaugeMetricFamily(
            "memory_mcp_database_waiting", "Calls that wait for a connection to PostgreSQL.", stats.waiting
        )
        yield CounterMetricFamily(
            "memory_mcp_database_retries", "Transactions begun again after a broken connection.", stats.retries
        )
        yield CounterMetricFamily(
            "memory_mcp_database_failures", "Transactions that ended as unavailable.", stats.failures
        )


class Metrics:
    def __init__(self, app: App, pools: Pools, more_pools: Sequence[Workers] = ()) -> None:
        self._app = app
        self._access = pools.access
        self._pools = (pools.reading, pools.writing, pools.access, pools.hashing, *more_pools)
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        PlatformCollector(registry=self._registry)
        self._calls = Counter(
            "memory_mcp_calls", "Tool calls, by tool and outcome.", ["tool", "outcome"], registry=self._registry
        )
        self._seconds = Histogram(
            "memory_mcp_call_seconds",
            "How long tool calls took.",
            ["tool"],
            buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30),
            registry=self._registry,
        )
        self._clients = Gauge("memory_mcp_clients", "Clients connected to this process.", registry=self._registry)
        self._queue = Gauge(
            "memory_mcp_embed_queue", "Notes that wait for their vector, of users seen here.", registry=self._registry
        )
        self._unsynced = Gauge(
            "memory_mcp_sync_outbox", "Notes with changes their hub has not acknowledged.", registry=self._registry
        )
        self._lag = Gauge(
            "memory_mcp_sync_lag_seconds",
            "How long ago the user who is furthest behind had synced everything; 0 if no user syncs.",
            registry=self._registry,
        )

        self._registry.register(PoolCollector(app.access.pool_stats))
        self._busy = Gauge("memory_mcp_threads_busy", "Threads at work, by pool.", ["pool"], registry=self._registry)
        self._waiting = Gauge(
            "memory_mcp_calls_waiting", "Calls that wait for a thread, by pool.", ["pool"], registry=self._registry
        )

    def count(self, called: FinishedCall) -> None:
        """`outcome` is ok, or the code of the error."""
        self._calls.labels(called.tool, called.error or "ok").inc()
        self._seconds.labels(called.tool).observe(called.seconds)

    async def answer(self, request: Request) -> Response:
        read = self._text if self._is_near(request) else partial(self._text_for_key, request)
        try:
            for pool in self._pools:
                self._busy.labels(pool.name).set(pool.slots.held)
                self._waiting.labels(pool.name).set(pool.slots.waiting)
            text = await self._access.run(read, user=network_of_client(request.scope), family="metrics")
        except AppError as error:
            return refusal(error)
        return Response(text, media_type=CONTENT_TYPE_LATEST)

    def _text_for_key(self, request: Request) -> bytes:
        self._check_key(request)
        return self._text()

    def _text(self) -> bytes:
        self._clients.set(len(self._app.clients.local()))
        self._queue.set(self._app.notes.reader.waiting_for_vectors())
        outbox, lag = self._app.sync_worker.lag()
        self._unsynced.set(outbox)
        self._lag.set(lag)
        return generate_latest(self._registry)

    def _is_near(self, request: Request) -> bool:
        """Whether it comes from this machine, and not through a proxy."""
        forwarded = {"forwarded", "x-forwarded-for", "x-real-ip", "via"} & set(request.headers.keys())
        is_local = host_name(request.headers["host"]) in LOOPBACK and is_loopback(ip_of(request.scope) or "")
        return is_local and not forwarded and not self._app.settings.public_url

    def _check_key(self, request: Request) -> None:
        key = self._app.access.keys.check(bearer_of(request.headers), ip_of(request.scope))
        if key.user != LOCAL_USER or key.is_confined:
            raise Forbidden(
                "Only a key of the local user, not confined, gives access to the metrics of the whole server."
            )
