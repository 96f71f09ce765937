"""Runs with a store, from the launch to the list: real processes, bad addresses, foreign objects."""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import signal
import tarfile
from io import BytesIO
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from actions.base.clock import SystemClock
from actions.base.errors import (
    AccessError,
    ConfigError,
    ConflictError,
    ConsoleError,
    FormatError,
    MissingError,
    RefusedError,
    UsageError,
)
from actions.base.process import is_alive
from actions.blueprint.catalogue import load_blueprint
from actions.blueprint.parameters import bind
from actions.cluster.auth.kubeconfig import ClusterTarget
from actions.run.client import list_runs, resume_interrupted, send_request, start_runner
from actions.run.context.store_address import parse_store, run_key
from actions.run.forget import forget_run
from actions.run.journal.journal_file import RecordRow
from actions.run.journal.reader import load_run
from actions.run.launch import LaunchOrder, create_run
from actions.run.output.segments import sealed, tail_name
from actions.run.report import run_table
from actions.run.state.records import Operator, RequestKind, TakenOver, encode_body
from actions.run.state.view import RunState
from actions.run.store import files
from actions.run.store.copy import become_original, fetch_run, look_at_store
from actions.run.store.files import unpack_launched
from actions.run.store.lease import take_lease
from actions.run.store.listing import announce_run, list_store, look_at_runs
from actions.run.store.objects import LeaseDocument, RunAbout, RunStatus, StoreLease
from actions.run.store.rows import RowsHead, append_to_store, read_rows
from actions.run.store.s3 import open_store
from actions.run.takeover.takeover import take_over_run
from tests.support.polling import wait
from tests.support.stores import (
    ANNA,
    BEN,
    BUCKET,
    CREDENTIALS,
    DENIED,
    EXPIRED,
    URL,
    Proxy,
    a_run_with_store,
    opened,
)
from tests.support.streams import bytes_of
from tests.unit.run.replicating import stored
from tests.unit.run.world import creation
from tui.cli.main import main
from tui.present.cells import Span, Tone
from tui.present.runs import RunRow, stage_cell

RUNNER = "tests.unit.run.world"


def rows_in_store(run_id: str) -> list[RecordRow]:
    async def read() -> list[RecordRow]:
        store = opened()
        try:
            return await read_rows(store, run_id)
        finally:
            store.close()

    return asyncio.run(read())


def a_run(tmp_path: Path, name: str) -> Path:
    return a_run_with_store(tmp_path, replace(creation(), run_id=name), SystemClock())


def test_a_runner_that_is_killed_leaves_no_gap_and_nothing_twice(home: Proxy, tmp_path: Path) -> None:
    folder = a_run(tmp_path, "fake-killed")
    (folder / "hold-operators").mkdir()
    environment = {**CREDENTIALS, "AWS_ENDPOINT_URL": home.address}
    first = start_runner(folder, environment=environment, module=RUNNER)
    assert first is not None
    wait(lambda: len(rows_in_store(folder.name)) >= 6, "some records in the store")
    os.kill(first.pid, signal.SIGKILL)
    wait(lambda: load_run(folder).state is RunState.UNKNOWN, "a run without runner")
    (folder / "hold-operators").rmdir()
    assert start_runner(folder, environment=environment, module=RUNNER) is not None
    wait(lambda: load_run(folder).state is RunState.SUCCEEDED, "the end")
    wait(lambda: rows_in_store(folder.name) == stored(folder), "the whole journal in the store")
    send_request(folder, RequestKind.TEARDOWN, start=False)
    start_runner(
        folder, environment=environment, module=RUNNER
    )  # or the one before, which may wait for the store still
    wait(lambda: load_run(folder).state is RunState.TORN_DOWN, "the end of the teardown")
    wait(lambda: rows_in_store(folder.name) == stored(folder), "the teardown in the store")

    async def lease_is_back() -> bool:
        lease = await opened().lease(folder.name)
        return lease is not None and not lease.is_live and lease.status.state == "torn down"

    wait(lambda: asyncio.run(lease_is_back()), "the lease to be given back")


def test_a_home_that_is_away_delays_no_stage(home: Proxy, tmp_path: Path) -> None:
    folder = a_run(tmp_path, "fake-away")
    home.is_away = True
    runner = start_runner(folder, environment={**CREDENTIALS, "AWS_ENDPOINT_URL": home.address}, module=RUNNER)
    assert runner is not None
    wait(lambda: load_run(folder).state is RunState.SUCCEEDED, "the end")
    took = stored(folder)[-1].at - stored(folder)[0].at
    assert took < 60
    wait(lambda: "store: " in (folder / "runner.log").read_text(), "the reason in the log")


def test_an_end_that_its_home_does_not_have_is_brought_there_by_the_next_look(home: Proxy, tmp_path: Path) -> None:
    """Its runner stayed for that, and was killed, or its machine has started again."""
    folder = a_run(tmp_path, "fake-behind")
    environment = {**CREDENTIALS, "AWS_ENDPOINT_URL": home.address}

    def look() -> list[str]:
        return resume_interrupted(environment=environment, base=folder.parent, endpoints=("",), module=RUNNER)

    (folder / "hold-operators").mkdir()
    runner = start_runner(folder, environment=environment, module=RUNNER)
    assert runner is not None
    wait(lambda: rows_in_store(folder.name), "a record in the store")
    home.is_away = True
    (folder / "hold-operators").rmdir()
    wait(lambda: load_run(folder).state is RunState.SUCCEEDED, "the end")
    os.kill(runner.pid, signal.SIGKILL)
    wait(lambda: not is_alive(runner), "the end of its runner")
    (run,) = list_runs(folder.parent)
    assert (run.is_interrupted, run.is_store_behind) == (False, True)
    assert stage_cell(RunRow(run)) == Span("store behind", Tone.WARN)
    with pytest.raises(RefusedError, match=f"its store {URL} may not have its end") as refused:
        forget_run(folder, confirm=folder.name)
    assert refused.value.hint == f"Bring it there first: eksml-tui runs resume {folder.name}"
    assert f"Its runner was lost, and its store {URL} may not have its end:" in run_table(load_run(folder))
    home.is_away = False

    assert look() == ["Run fake-behind is over (succeeded), and its store may not have that: a runner brings it there."]
    wait(lambda: not list_runs(folder.parent)[0].has_runner, "the end of the next runner")
    assert rows_in_store(folder.name) == stored(folder)
    (run,) = list_runs(folder.parent)
    assert (run.is_store_behind, run.notices) == (False, ())
    assert look() == []


def test_a_run_that_was_taken_over_ends_its_old_runner(home: Proxy, tmp_path: Path) -> None:
    folder = a_run(tmp_path, "fake-taken")
    (folder / "hold-operators").mkdir()
    environment = {**CREDENTIALS, "AWS_ENDPOINT_URL": home.address}
    old = start_runner(folder, environment=environment, module=RUNNER)
    assert old is not None
    wait(lambda: len(rows_in_store(folder.name)) >= 6, "some records in the store")
    os.kill(old.pid, signal.SIGSTOP)

    async def take() -> Path:
        store, clock = opened(), SystemClock()
        lease = await store.lease(folder.name)
        assert lease is not None
        mine = await take_lease(store, folder.name, BEN, after=lease)
        body = TakenOver(BEN, mine.epoch, lease.owner)
        await append_to_store(store, folder.name, body, clock=clock, epoch=mine.epoch)
        place = tmp_path / "ben" / folder.name
        await fetch_run(store, folder.name, place)
        become_original(place)
        store.close()
        return place

    place = asyncio.run(take())
    assert load_run(place).epoch == 2
    (place / "world").mkdir()
    (place / "world" / "provision").touch()
    new = start_runner(place, environment=environment, module=RUNNER)
    assert new is not None
    wait(lambda: load_run(place).state is RunState.SUCCEEDED, "the end at the new machine")
    os.kill(old.pid, signal.SIGCONT)
    wait(lambda: not is_alive(old), "the old runner's end")
    assert "taken over" in (folder / "runner.log").read_text()  # by the lease or by the fence: one of them is first
    wait(lambda: rows_in_store(folder.name) == stored(place), "the new machine's journal in the store")


async def test_a_run_without_a_record_in_the_home_stays_with_the_machine_that_has_it(home: Proxy) -> None:
    """Its runner died between the lease and the first record: a takeover would make that record its own."""
    store = opened()
    await take_lease(store, "fake-1121-0001", ANNA, after=None, about=RunAbout("fake-1121-0001"))
    with pytest.raises(MissingError, match="no record of fake-1121-0001 yet"):
        await take_over_run("fake-1121-0001", store, SystemClock(), confirm="fake-1121-0001", starts=False)
    left = await store.lease("fake-1121-0001")
    store.close()
    assert left is not None
    assert (left.epoch, left.owner) == (1, ANNA)
    assert not home.puts("journal")


@pytest.mark.parametrize(
    "text", ["", "s3://", "s3:/bucket", "http://bucket/x", "s3://Bucket", "s3://b", "s3://bucket/a b", "s3://bucket/../x",
             "s3://bucket/a//b", "s3://bucket/" + "a" * 300, "bucket/prefix", "s3://bucket/é"],
)  # fmt: skip
def test_what_is_no_home_is_refused_in_one_sentence(text: str) -> None:
    with pytest.raises(UsageError, match="is not a store for runs") as refusal:
        parse_store(text)
    assert "s3://BUCKET" in refusal.value.sentence()


def test_a_home_is_written_as_it_is_read() -> None:
    for text in ("s3://team-runs", "s3://team-runs/ml", "s3://team.runs.1/a/b_c"):
        assert str(parse_store(text)) == text
    assert str(parse_store("s3://team-runs/ml/")) == "s3://team-runs/ml"
    assert [
        parse_store(text).key(run_key("r", "lease.json")) for text in ("s3://team-runs", "s3://team-runs/ml/a/")
    ] == [
        "runs/r/lease.json",
        "ml/a/runs/r/lease.json",
    ]


def launched(tmp_path: Path, url: str) -> Path:
    source = tmp_path / "small"
    source.mkdir(exist_ok=True)
    (source / "blueprint.yaml").write_text(_SMALL)
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(_KUBECONFIG)
    blueprint = load_blueprint(source)
    return create_run(
        LaunchOrder(
            blueprint,
            bind(blueprint, {}, existing_cluster=True),
            target=ClusterTarget(kubeconfig),
            environment={},
            clock=SystemClock(),
            base=tmp_path / "runs",
            store_url=url,
        )
    )


_SMALL = """
schema: eksml/v1
id: small
title: Small
summary: A small run.
cluster: {name: c, region: us-west-2, namespace: default}
parameters:
  cluster_name: {title: Cluster, type: text, default: c, help: Its name.}
  region: {title: Region, type: text, default: us-west-2, help: Its region.}
stages:
  - {id: kubeconfig, kind: kubeconfig, title: Reach it, expect: 1s..2s}
  - {id: look, kind: check, title: Look, needs: [kubeconfig], expect: 1s..2s, checks: []}
"""
_KUBECONFIG = json.dumps(
    {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
    }
)


def test_a_launch_writes_its_home_and_owner(home: Proxy, tmp_path: Path) -> None:
    folder = launched(tmp_path, "s3://team-runs/ml/")
    view = load_run(folder)
    assert view.store == URL
    assert view.owner is not None
    assert view.owner.host == os.uname().nodename
    assert f"Store      {URL}" in run_table(view)
    runs = {run.id: run for run in asyncio.run(list_store(opened()))}
    assert runs[folder.name].owner == str(view.owner)
    assert runs[folder.name].about.title == "Small"
    assert "on this machine alone" in run_table(load_run(launched(tmp_path, "")))


def test_a_launch_is_refused_if_its_home_cannot_be_written(home: Proxy, tmp_path: Path) -> None:
    with pytest.raises(MissingError, match="There is no bucket no-such-bucket"):
        launched(tmp_path, "s3://no-such-bucket/x")
    home.fault, home.applies = DENIED, lambda method, _path: method == "PUT"
    with pytest.raises(ConsoleError, match="AccessDenied"):
        launched(tmp_path, URL)
    home.mend()
    home.is_away = True
    with pytest.raises(ConsoleError, match="did not answer"):
        launched(tmp_path, URL)
    assert not (tmp_path / "runs").exists()


def test_a_run_that_could_not_be_created_is_not_in_its_home(
    home: Proxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object, **__: object) -> Path:
        raise ConfigError("no room")

    monkeypatch.setattr("actions.run.launch.create_folder", fails)
    before = [run.id for run in asyncio.run(list_store(opened()))]
    with pytest.raises(ConfigError, match="no room"):
        launched(tmp_path, URL)
    assert [run.id for run in asyncio.run(list_store(opened()))] == before


class _Careless:
    """A store that replaces whatever it is told to write."""

    address = URL

    def __init__(self) -> None:
        self.removed: list[str] = []

    async def put_lease(self, _: str, document: LeaseDocument, **__: object) -> StoreLease:
        return StoreLease(document, "", 0.0)

    async def remove_run(self, run_id: str) -> None:
        self.removed.append(run_id)


def test_a_store_that_ignores_conditions_is_no_home() -> None:
    careless: Any = _Careless()
    with pytest.raises(ConfigError, match="replaces an object that a write must not replace"):
        asyncio.run(announce_run(careless, creation()))
    assert careless.removed == ["fake-1121-0001"]


async def test_a_run_that_is_not_created_as_its_home_fails_is_not_listed_there(home: Proxy) -> None:
    puts: list[str] = []

    def is_second(method: str, path: str) -> bool:
        puts.extend([path] if method == "PUT" else [])
        return method == "PUT" and len(puts) > 1

    home.fault, home.applies = DENIED, is_second
    store = opened()
    created = replace(creation(), run_id="fake-not-created")
    with pytest.raises(AccessError):
        await announce_run(store, created)
    assert created.run_id not in {run.id for run in await list_store(store)}
    store.close()


async def test_a_run_that_its_home_keeps_although_it_was_not_created_is_named(home: Proxy) -> None:
    """The login ends between the two writes of the announcement: nothing can be taken back."""
    requests: list[str] = []

    def is_later(method: str, path: str) -> bool:
        requests.append(f"{method} {path}")
        return len(requests) > 1

    home.fault, home.applies = EXPIRED, is_later
    store = opened()
    with pytest.raises(ConsoleError) as refused:
        await announce_run(store, replace(creation(), run_id="fake-kept"))
    home.mend()
    command = f"aws s3 rm {URL}/runs/fake-kept/lease.json"
    assert f"Nothing was launched, but the store lists fake-kept until `{command}`." in refused.value.hint
    assert "fake-kept" in {run.id for run in await list_store(store)}
    store.close()


async def test_an_id_that_is_taken_is_refused(home: Proxy) -> None:
    store, created = opened(), replace(creation(), run_id="fake-twice")
    await announce_run(store, created)
    with pytest.raises(ConflictError, match="has a run fake-twice already"):
        await announce_run(store, created)
    store.close()


async def test_runs_that_only_a_home_has_are_found_as_a_cluster_would_record_them(home: Proxy) -> None:
    url, store = f"{URL}/only", open_store(f"{URL}/only")
    states = {
        "fake-waits": RunStatus("awaiting approval", "network"),
        "fake-costs": RunStatus("failed", "train", usd_per_hour="3.2"),
        "fake-over": RunStatus("succeeded"),
        "fake-gone": RunStatus("torn down"),
        "fake-odd": RunStatus("flying"),  # of a later version
        "fake-evil": RunStatus("running", usd_per_hour="1e999"),
        "fake-known": RunStatus("running"),
    }
    for run_id, status in states.items():
        await announce_run(store, replace(creation(), run_id=run_id, store=url, owner=ANNA))
        await take_lease(store, run_id, BEN, after=await store.lease(run_id), status=status)
    await announce_run(store, replace(creation(), run_id="fake-not-begun", store=url, owner=ANNA))
    found = await look_at_runs(store, skipped={"fake-known"})
    assert found.ids == {*states, "fake-not-begun"}
    assert found.over == {"fake-over", "fake-gone"}
    assert {run.id: (run.state, run.status.stage, run.owner, run.store) for run in found.runs} == {
        "fake-waits": (RunState.AWAITING_APPROVAL, "network", str(BEN), url),
        "fake-costs": (RunState.FAILED, "train", str(BEN), url),
        "fake-odd": (RunState.UNKNOWN, "", str(BEN), url),
        "fake-evil": (RunState.RUNNING, "", str(BEN), url),
        "fake-not-begun": (RunState.WAITING, "", str(ANNA), url),
    }
    home.fault, home.applies = DENIED, lambda _method, path: "fake-costs" in path
    readable = await look_at_runs(store, skipped=())
    assert {run.id for run in readable.runs} >= {"fake-waits", "fake-known"}  # one that is refused hides no other
    assert "fake-costs" not in {run.id for run in readable.runs} | readable.over
    home.applies = lambda *_: True
    assert await asyncio.to_thread(look_at_store, url, skipped=(), at_most_seconds=120) is None
    home.mend()
    empty = await asyncio.to_thread(look_at_store, f"{URL}/nothing", skipped=(), at_most_seconds=120)
    assert empty is not None
    assert not empty.ids
    store.close()


def test_foreign_objects_are_named_and_hide_nothing(home: Proxy, tmp_path: Path) -> None:
    async def work() -> None:
        store = opened()
        await store.put_if_absent("runs/no-lease/files/x", b"[]")
        await store.put_if_absent("runs/bad-lease/lease.json", b"\xff\xfe")
        about = RunAbout("x", "evil \x1b]0;x\x07 \u202e title", "b", created_at=1.0)
        document = LeaseDocument(1, Operator("u\x1b[2J", "h"), "", "", 0.0, "", about=about)
        await store.put_if_absent("runs/bad-text/lease.json", msgspec.json.encode(document))
        found = {run.id: run for run in await list_store(store)}
        assert "no lease" in found["no-lease"].error
        assert "damaged" in found["bad-lease"].error
        assert found["bad-text"].about.title == "evil title"
        assert str(found["bad-text"].owner) == "u@h"
        store.close()

    asyncio.run(work())


@pytest.mark.parametrize(
    ("name", "data", "match"),
    [
        ("journal/000000000001.jsonl", b"", "damaged"),
        ("journal/000000000001.jsonl", b"not json\n", "damaged"),
        ("journal/000000000002.jsonl", b"", "lacks record 1|damaged"),
        ("journal/000000000001.jsonl", b'{"schema":99,"epoch":1,"first":1,"count":1}\n[1,1.0,"w","cancel","",0,"{}"]\n',
         "damaged|version"),
        ("journal/000000000001.jsonl", b'{"schema":1,"epoch":1,"first":1,"count":2}\n'
         b'[1,1.0,"w","wish","",0,"{\\"kind\\":\\"wish\\",\\"wish\\":\\"pause\\"}"]\n', "not those that it announces"),
        ("journal/000000000001.jsonl", b'{"schema":1,"epoch":1,"first":1,"count":1}\n'
         b'[1,1.0,"w","wish","../x",0,"{\\"kind\\":\\"wish\\",\\"wish\\":\\"pause\\"}"]\n', "a name that is not one"),
        ("journal/000000000001.jsonl", b'{"schema":1,"epoch":1,"first":1,"count":1}\n'
         b'[1,1e99,"w","wish","",0,"{\\"kind\\":\\"wish\\",\\"wish\\":\\"pause\\"}"]\n', "a time that is not one"),
        ("journal/000000000001.jsonl", b'{"schema":1,"epoch":1,"first":1,"count":1}\n'
         b'[1,1.0,"w","wish","",0,"{\\"kind\\":\\"wish\\",\\"wish\\":\\"pause\\"}"]\n', "is that of another run"),
    ],
)  # fmt: skip
def test_a_damaged_journal_is_refused(home: Proxy, tmp_path: Path, name: str, data: bytes, match: str) -> None:
    run_id = f"damaged-{abs(hash((name, data))):x}"

    async def work() -> None:
        store = opened()
        await store.put_if_absent(run_key(run_id, name), data)
        with pytest.raises(FormatError, match=match):
            await fetch_run(store, run_id, tmp_path / run_id)
        store.close()

    asyncio.run(work())


def test_control_characters_of_a_foreign_record_are_removed(home: Proxy, tmp_path: Path) -> None:
    body = encode_body(replace(creation(), run_id="fake-evil", title="evil \x1b]0;owned\x07 title"))
    row = RecordRow(1, 1.0, "w", "created", "", 0, body)
    data = b"".join(msgspec.json.encode(line) + b"\n" for line in (RowsHead(1, 1, 1, 1), row))

    async def work() -> None:
        store = opened()
        await store.put_if_absent(run_key("fake-evil", "journal/000000000001.jsonl"), data)
        places = "output/train/points/", "output/../points/"
        segment, packed = sealed(0, b'{"a":"\\u001b[2J\\u202e"}\n')
        await store.put_if_absent(run_key("fake-evil", places[0] + segment.name), packed)
        await store.put_if_absent(run_key("fake-evil", places[0] + tail_name(segment.end)), b'{"b":"\\u001b"}\n')
        await store.put_if_absent(run_key("fake-evil", places[1] + segment.name), packed)
        folder = tmp_path / "fake-evil"
        await fetch_run(store, "fake-evil", folder)
        assert load_run(folder).title == "evil  title"
        assert bytes_of(folder, "train", "points") == b'{"a":"\\u0020[2J\\u0020"}\n{"b":"\\u0020"}\n'
        assert [path.name for path in (folder / "output").iterdir()] == ["train"]
        assert not (folder / "points").exists()
        store.close()

    asyncio.run(work())


def archive_with(name: str, *, kind: bytes = tarfile.REGTYPE) -> bytes:
    buffer = BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        entry = tarfile.TarInfo(name)
        entry.type, entry.linkname = kind, "/etc/passwd"
        archive.addfile(entry, BytesIO(b""))
    return buffer.getvalue()


def tar_header(kind: bytes, size: int, *, name: str = "blueprint/file") -> bytes:
    entry = tarfile.TarInfo(name)
    entry.type, entry.size = kind, size
    return entry.tobuf(tarfile.GNU_FORMAT)


@pytest.mark.parametrize(
    "data",
    [
        b"no archive",
        archive_with("../outside"),
        archive_with("/etc/outside"),
        archive_with("blueprint/../../outside"),
        archive_with("journal.jsonl"),
        archive_with("."),
        gzip.compress(b"x" * 1000)[:-9] + b"\xff" * 9,
        gzip.compress(b"")[:10] + b"\xff" * 600,
        archive_with("blueprint/link", kind=tarfile.SYMTYPE),
        archive_with("blueprint/pipe", kind=tarfile.FIFOTYPE),
        gzip.compress(2000 * (tar_header(tarfile.GNUTYPE_LONGNAME, 1) + bytes(tarfile.BLOCKSIZE))),
        gzip.compress(tar_header(tarfile.REGTYPE, -1)),
    ],
    ids=range(12),  # the bytes have the time in them: each worker would know other tests
)
def test_an_archive_with_anything_else_than_files_of_a_launch_is_refused(tmp_path: Path, data: bytes) -> None:
    with pytest.raises(FormatError):
        unpack_launched(data, tmp_path / "run")
    assert not (tmp_path / "outside").exists()


def test_an_archive_is_read_no_further_than_a_run_may_be_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A header is read as a whole, and may be longer than any file."""
    monkeypatch.setattr(files, "MOST_UNPACKED_BYTES", 1 << 20)
    comment = b"2097163 comment=" + b"x" * ((2 << 20) - 6) + b"\n"
    header = tar_header(tarfile.XHDTYPE, len(comment)) + comment.ljust(-(-len(comment) // 512) * 512, b"\0")
    data = gzip.compress(header + tar_header(tarfile.REGTYPE, 0) + bytes(1024))
    with pytest.raises(FormatError, match="more than any run"):
        unpack_launched(data, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_home_is_listed_and_its_runs_are_shown(
    home: Proxy, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    url = f"s3://{BUCKET}/listed"

    async def fill() -> None:
        store = open_store(url)
        created = replace(creation(), run_id="fake-listed", store=url, owner=ANNA)
        await announce_run(store, created)
        await take_lease(store, created.run_id, ANNA, after=await store.lease(created.run_id), epoch=1)
        row = RecordRow(1, 1.0, "w", "created", "", 0, encode_body(created))
        data = b"".join(msgspec.json.encode(line) + b"\n" for line in (RowsHead(1, 1, 1, 1), row))
        await store.put_if_absent(run_key(created.run_id, "journal/000000000001.jsonl"), data)
        store.close()

    asyncio.run(fill())
    assert main(["runs", "list", "--store", url, "-o", "json"]) == 0
    row = json.loads(capsys.readouterr().out)[0]
    assert (row["id"], row["owner"], row["here"], row["epoch"]) == ("fake-listed", "anna@bastion-1", False, 1)
    assert main(["--store", url, "runs", "list", "--store"]) == 0
    assert "anna@bastion-1" in capsys.readouterr().out
    assert main(["runs", "show", "fake-l", "--store", url]) == 0
    assert "Owner      anna@bastion-1" in capsys.readouterr().out
    assert main(["runs", "show", "--store", url, "nosuch"]) == 1
    assert "No run begins with 'nosuch'" in capsys.readouterr().err
    assert main(["runs", "list", "--store"]) == 2
    assert "No store is set" in capsys.readouterr().err
    assert main(["runs", "list", "--store", f"s3://{BUCKET}/empty"]) == 0
    assert "There is no run here." in capsys.readouterr().out
    assert main(["--store", "s3:/nope", "runs", "list"]) == 2
