"""The store in a folder, beside the suite of all stores: names and links."""

from __future__ import annotations

from pathlib import Path

import pytest

from actions.base.errors import ConfigError
from actions.base.files import private_directory
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


async def test_an_empty_folder_has_no_run(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "nothing")
    assert await store.run_ids() == []
    assert await store.leases() == ([], {})
    assert await store.objects("runs/run-1/") == []
    assert await store.lease("run-1") is None
    assert not (tmp_path / "nothing").exists()


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
