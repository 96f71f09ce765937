"""A home for runs: a bucket of moto behind a proxy that can be away, slow, refusing, or lose answers."""

from __future__ import annotations

import http.client
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
import pytest

from actions.base.clock import Clock
from actions.run.journal.folder import journal_path
from actions.run.journal.lease import take_runner_lease
from actions.run.journal.runner_journal import RunnerJournal
from actions.run.journal.store import Journal
from actions.run.launch import create_folder
from actions.run.state.records import Created, Operator
from actions.run.state.view import RunView
from actions.run.store.access import StoreAccess
from actions.run.store.objects import RunStore
from actions.run.store.publish import Publisher
from actions.run.store.s3 import open_store
from tests.support.account import REGION, an_account, client

BUCKET = "team-runs"
URL = f"s3://{BUCKET}/ml"
CREDENTIALS = {"AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": "testing", "AWS_REGION": REGION}
ANNA = Operator("anna", "bastion-1")
BEN = Operator("ben", "laptop-2")


class Fault(msgspec.Struct, frozen=True):
    """An answer in place of the account's."""

    status: int
    code: str

    def body(self) -> bytes:
        text = f"<Error><Code>{self.code}</Code><Message>injected</Message></Error>"
        return f'<?xml version="1.0" encoding="UTF-8"?>{text}'.encode()


SLOW_DOWN = Fault(503, "SlowDown")
EXPIRED = Fault(400, "ExpiredToken")
SKEWED = Fault(403, "RequestTimeTooSkewed")
DENIED = Fault(403, "AccessDenied")
TAKEN = Fault(412, "PreconditionFailed")
BUSY = Fault(409, "ConditionalRequestConflict")


class Answered(msgspec.Struct):
    """A request, and the status of the account's answer; 0 before there is one."""

    at: float
    method: str
    path: str
    headers: dict[str, str]
    status: int


class Proxy:
    """The controls of the proxy, and what it has seen."""

    def __init__(self) -> None:
        self.address = ""
        self.requests: list[str] = []
        """`PUT /team-runs/ml/…` of each request that reached it."""
        self.answered: list[Answered] = []
        """The same requests with who sent them, and what was answered."""
        self.is_away = False
        self.is_cut_off = False
        """As `is_away`, and not mended by `mend`."""
        self.fault: Fault | None = None
        self.applies: Callable[[str, str], bool] = lambda _method, _path: True
        """Return true if `fault`, `loses_answers` and `delay_seconds` hold for a method and path."""
        self.loses_answers = False
        """The account gets the request, and its answer is lost."""
        self.loses: Callable[[str, str], bool] = lambda _method, _path: True
        """Of these, the requests by method and path whose answer is lost; asked when the account has answered."""
        self.delay_seconds = 0.0
        self.clock_offset_seconds = 0.0
        """Seconds by which the store's clock is ahead of this machine's."""
        self.changes: list[tuple[float, str]] = []
        """The requests that changed something, with the time at which they came, seconds since the epoch."""

    def use(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Point this process, and those that it starts, to the home; with everything mended."""
        for name, value in {**CREDENTIALS, "AWS_ENDPOINT_URL": self.address}.items():
            monkeypatch.setenv(name, value)
        self.requests.clear()
        self.clock_offset_seconds = 0.0
        self.mend()

    def puts(self, part: str = "") -> list[str]:
        return [line for line in self.requests if line.startswith("PUT") and part in line]

    def mend(self) -> None:
        self.is_away = self.loses_answers = False
        self.fault = None
        self.delay_seconds = 0.0
        self.applies = self.loses = lambda _method, _path: True


@contextmanager
def a_home() -> Iterator[Proxy]:
    """Serve an account with the bucket `BUCKET` behind a proxy; each test points itself to it with `Proxy.use`."""
    with an_account() as account, a_proxy(account) as proxy:
        with pytest.MonkeyPatch.context() as patched:
            proxy.use(patched)
            client("s3").create_bucket(Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": REGION})
        yield proxy


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    proxy: Proxy
    account: str

    def log_message(self, *_: Any) -> None:
        return

    def do_GET(self) -> None:
        proxy, began = self.proxy, time.time()
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        proxy.requests.append(f"{self.command} {self.path}")
        answered = Answered(time.time(), self.command, self.path, dict(self.headers), 0)
        proxy.answered.append(answered)
        is_meant = proxy.applies(self.command, self.path)
        self.close_connection = proxy.is_away or proxy.is_cut_off
        if self.close_connection:
            return
        if is_meant and proxy.delay_seconds:
            time.sleep(proxy.delay_seconds)
        if is_meant and proxy.fault is not None:
            answered.status = proxy.fault.status
            self._answer(proxy.fault.status, {"Content-Type": "application/xml"}, proxy.fault.body())
            return
        answer = self._forwarded(body)
        answered.status = answer[0]
        if self.command not in ("GET", "HEAD") and answer[0] < 300:
            proxy.changes.append((began, f"{self.command} {self.path}"))
        self.close_connection = is_meant and proxy.loses_answers and proxy.loses(self.command, self.path)
        if not self.close_connection:
            self._answer(*answer)

    def do_PUT(self) -> None:
        self.do_GET()

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_DELETE(self) -> None:
        self.do_GET()

    def do_POST(self) -> None:
        self.do_GET()

    def _forwarded(self, body: bytes) -> tuple[int, dict[str, str], bytes]:
        target = urlsplit(self.account)
        connection = http.client.HTTPConnection(target.hostname or "", target.port or 0, timeout=120)
        try:
            connection.request(self.command, self.path, body=body, headers=dict(self.headers))
            answer = connection.getresponse()
            return answer.status, dict(answer.getheaders()), answer.read()
        finally:
            connection.close()

    def _answer(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.send_response_only(status)
        for name, value in headers.items():
            if name.lower() not in ("connection", "date", "transfer-encoding", "content-length"):
                self.send_header(name, value)
        self.send_header("Date", formatdate(time.time() + self.proxy.clock_offset_seconds, usegmt=True))
        length = headers.get("Content-Length", "") if self.command == "HEAD" else str(len(body))
        self.send_header("Content-Length", length)
        self.end_headers()
        self.wfile.write(body)


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_: Any) -> None:
        """Say nothing: clients are killed in the middle of requests."""


@contextmanager
def a_proxy(account: str) -> Iterator[Proxy]:
    """Serve a proxy before an account; several before the same one are its machines' ways to it."""
    proxy = Proxy()
    handler = type("Handler", (_Handler,), {"proxy": proxy, "account": account})
    server = _Server(("127.0.0.1", 0), handler)
    proxy.address = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield proxy
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def opened() -> RunStore:
    """The home of the tests."""
    return open_store(URL)


def a_run_with_store(tmp_path: Path, created: Created, clock: Clock) -> Path:
    """The folder of a run that has the home `URL`; its runs are in `tmp_path/runs`."""
    source = tmp_path / "source"
    source.mkdir(exist_ok=True)
    (source / "blueprint.yaml").write_text("schema: eksml/v1\n")
    created = msgspec.structs.replace(created, store=URL, owner=ANNA)
    return create_folder(created, source=source, environment={"A": "b"}, clock=clock, base=tmp_path / "runs")


class Published:
    """A run with its runner's journal and publisher, in this process.

    Args:
        folder: The run's.
        clock: Time.
        cluster: The store in the run's cluster.
    """

    def __init__(self, folder: Path, clock: Clock, *, cluster: RunStore | None = None) -> None:
        self.folder = folder
        self.lease = take_runner_lease(journal_path(folder), clock)
        self.opened = Journal(journal_path(folder), clock, fence=self.lease.token)
        self.journal = RunnerJournal(self.opened, self.lease, clock)
        self.log: list[str] = []
        is_in_s3 = bool(self.journal.view_if_readable().store)
        self.store = opened() if is_in_s3 or cluster is None else cluster

        async def in_cluster(_: RunView) -> RunStore | None:
            return cluster

        self.access = StoreAccess(self.journal.view_if_readable, self.store if is_in_s3 else None, in_cluster)
        self.publisher = Publisher(self.access, folder, self.journal, ANNA, clock)

    def close(self) -> None:
        self.opened.close()
        self.store.close()
