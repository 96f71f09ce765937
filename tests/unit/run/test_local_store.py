"""The store in a folder, beside the suite of all stores: names, links, locks, and one that is only read."""

from __future__ import annotations

import asyncio
import fcntl
import os
from pathlib import Path

import pytest

from actions.base.errors import ConfigError, RefusedError, UnreachableError
from actions.base.files import private_directory
from actions.run.store import local
from actions.run.store.lease import take_lease
from actions.run.store.local import LocalStore
from tests.support.stores import ANNA
from tests.unit.cluster.clocks import HandClock

NAME = "runs/run-1/files/x"


@pytest.mark.parametrize(
    "name",
    ["runs/../../x/y", "runs/run-1/../../../x", "runs/run-1//x", "runs/run-1/.x.tmp", "runs/run-1/%2e%2e/x",
     "runs/a/b\n", "/etc/passwd", "files/x/y", "runs/run-1", "lock"],
)  # fmt: skip
async def test_a_name_that_leads_elsewhere_is_refused(tmp_path: Path, name: str) -> None:
    store = LocalStore(tmp_path / "store")
    for work in (store.get(name), store.put_if_absent(name, b"x"), store.delete(name)):
        with pytest.raises(ConfigError):
            await work
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


async def test_links_are_not_followed(tmp_path: Path) -> None:
    store, outside = LocalStore(tmp_path / "store"), tmp_path / "outside"
    await store.put_if_absent(NAME, b"1")
    outside.mkdir()
    (outside / "secret").write_text("secret")
    run = tmp_path / "store/runs/run-1"
    (run / "files/link").symlink_to(outside / "secret")
    (run / "folder").symlink_to(outside)
    (tmp_path / "store/runs/run-2").symlink_to(outside)
    for name in ("runs/run-1/files/link", "runs/run-1/folder/secret", "runs/run-2/secret/x"):
        with pytest.raises(ConfigError):
            await store.get(name)
    with pytest.raises(ConfigError):
        await store.put_if_absent("runs/run-1/folder/new", b"x")
    assert await store.run_ids() == ["run-1"]
    assert [path.name for path in outside.iterdir()] == ["secret"]


async def test_a_store_that_is_only_read_refuses_every_write(tmp_path: Path) -> None:
    writer = LocalStore(tmp_path / "store")
    made = await writer.put_if_absent(NAME, b"1")
    lease = await take_lease(writer, "run-1", ANNA, after=None)
    reader = LocalStore(tmp_path / "store", address="run.tar", is_written=False)
    for work in (
        reader.put_if_absent(NAME, b"2"),
        reader.replace(NAME, b"2", etag=made.etag),
        reader.delete(NAME),
        reader.remove_run("run-1"),
        take_lease(reader, "run-1", ANNA, after=lease),
    ):
        with pytest.raises(RefusedError, match=r"run\.tar is only read"):
            await work
    found = await reader.get(NAME)
    assert found is not None
    assert found.body == b"1"


async def test_an_empty_folder_has_no_run(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "nothing", is_written=False)
    assert await store.run_ids() == []
    assert await store.leases() == ([], {})
    assert await store.objects("runs/run-1/") == []
    assert await store.lease("run-1") is None
    assert not (tmp_path / "nothing").exists()


async def test_a_write_that_does_not_end_is_not_waited_for_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = LocalStore(tmp_path / "store")
    await store.put_if_absent(NAME, b"1")
    descriptor = os.open(tmp_path / "store/.lock", os.O_RDWR)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    with monkeypatch.context() as patch:
        patch.setattr(local, "_LOCK_SECONDS", 0.05)
        with pytest.raises(UnreachableError, match="does not end its write"):
            await store.put_if_absent("runs/run-1/files/y", b"1")
    waiting = asyncio.ensure_future(store.put_if_absent("runs/run-1/files/y", b"1"))
    os.close(descriptor)
    assert (await waiting).etag


async def test_a_folder_that_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(ConfigError, match="file"):
        await LocalStore(tmp_path / "file").put_if_absent(NAME, b"1")


async def test_a_write_that_was_cut_off_leaves_no_object(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "store")
    await store.put_if_absent(NAME, b"1")
    (tmp_path / "store/runs/run-1/files/.y.123.tmp").write_bytes(b"half")
    (private_directory(tmp_path / "store/runs/run-2") / ".z.123.tmp").write_bytes(b"half")
    assert [item.key for item in await store.objects("runs/run-1/")] == [NAME]
    assert await store.run_ids() == ["run-1"]


async def test_the_age_of_a_lease_is_by_the_clock_of_the_store(tmp_path: Path) -> None:
    clock = HandClock()
    store = LocalStore(tmp_path / "store", clock=clock)
    await take_lease(store, "run-1", ANNA, after=None)
    clock.pass_by(29.0)
    found = await store.lease("run-1")
    assert found is not None
    assert found.is_live
    clock.pass_by(2.0)
    found = await store.lease("run-1")
    assert found is not None
    assert not found.is_live
    assert found.age_seconds == pytest.approx(31.0)
