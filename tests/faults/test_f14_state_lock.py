"""F14: a state that is locked, on S3 as AWS answers it: who holds it is told and waited for; the dead hold nothing."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from actions.run.client import load_run, send_request
from actions.run.output.reader import OutputReader
from actions.run.stages import terraform as stage_module
from actions.run.state.records import RequestKind
from actions.run.state.view import RunState, RunView
from actions.run.terraform_changes import waive
from actions.terraform import arguments
from tests.faults import roots
from tests.support.account import an_account, client
from tests.support.polling import until, wait
from tests.support.smallrun import carry_out

pytestmark = roots.needs_terraform

BUCKET = "states"
LOCK_KEY = "net.tfstate.tflock"
LOCK_ID = "5b5e3a6d-63fe-4f55-8a5f-4f4a3d4e7b10"
SOURCE = """
terraform {
  backend "s3" {
    bucket                      = "states"
    key                         = "net.tfstate"
    region                      = "us-west-2"
    use_lockfile                = true
    use_path_style              = true
    skip_credentials_validation = true
    skip_metadata_api_check     = true
    skip_requesting_account_id  = true
    skip_s3_checksum            = true
  }
}

resource "terraform_data" "a" {
  provisioner "local-exec" {
    command = "echo a >> LEDGER; while [ ! -e GO_ON ]; do sleep 0.02; done"
  }
}
"""


@pytest.fixture(scope="module")
def account() -> Iterator[str]:
    with an_account() as endpoint:
        yield endpoint


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, account: str) -> Iterator[Path]:
    for name, value in {**roots.CREDENTIALS, "AWS_ENDPOINT_URL": account, "AWS_DEFAULT_REGION": "us-west-2"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(arguments, "LOCK_PATIENCE", "0s")
    monkeypatch.setattr(stage_module, "_LOCK_LOOK_SECONDS", 0.2)
    store().create_bucket(Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": "us-west-2"})
    source = SOURCE.replace("LEDGER", str(tmp_path / "ledger")).replace("GO_ON", str(tmp_path / "go-on"))
    run = roots.a_root_run(tmp_path, source, endpoint=account)
    yield run
    (tmp_path / "go-on").touch()
    wait(lambda: roots.running(run) is None, "the end of Terraform")
    for item in store().list_objects_v2(Bucket=BUCKET).get("Contents", []):
        store().delete_object(Bucket=BUCKET, Key=item["Key"])
    store().delete_bucket(Bucket=BUCKET)


def store() -> Any:
    return client("s3")


def lock_of_somebody() -> None:
    held = {"ID": LOCK_ID, "Operation": "OperationTypeApply", "Who": "ann@bastion", "Version": "1.11.4", "Info": ""}
    held |= {"Created": "2026-11-21T10:00:00.000001Z", "Path": f"{BUCKET}/net.tfstate"}
    store().put_object(Bucket=BUCKET, Key=LOCK_KEY, Body=json.dumps(held).encode())


def is_locked() -> bool:
    return any(item["Key"] == LOCK_KEY for item in store().list_objects_v2(Bucket=BUCKET).get("Contents", []))


async def again(folder: Path) -> RunView:
    send_request(folder, RequestKind.RETRY, start=False)
    return await carry_out(folder)


async def test_a_lock_of_another_process_is_named_and_waited_for(folder: Path, tmp_path: Path) -> None:
    lock_of_somebody()
    (tmp_path / "go-on").touch()
    told: list[str] = []
    carrying = asyncio.create_task(carry_out(folder))

    def is_told() -> bool:
        told.append(roots.note_of(folder, "net"))
        return "locked by ann@bastion since 2026-11-21 10:00:00" in told[-1] and LOCK_ID in told[-1]

    await until(is_told, "the note")
    assert not carrying.done()
    store().delete_object(Bucket=BUCKET, Key=LOCK_KEY)
    assert (await carrying).state is RunState.SUCCEEDED


async def test_it_is_not_waited_for_for_ever_and_never_taken_away(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock_of_somebody()
    monkeypatch.setattr(stage_module, "LOCK_SECONDS", 0.0)
    view = await carry_out(folder)
    assert view.state is RunState.FAILED
    message = view.stage("net").message
    assert f"locked by ann@bastion since 2026-11-21 10:00:00.000001 +0000 UTC (lock {LOCK_ID})" in message
    assert f"net force-unlock {LOCK_ID}" in message
    assert is_locked()


async def test_the_lock_of_our_own_dead_process_is_removed(folder: Path, tmp_path: Path) -> None:
    carrying = asyncio.create_task(carry_out(folder))
    await until((tmp_path / "ledger").exists, "the resource")
    roots.kill_group(roots.running(folder))
    assert (await carrying).state is RunState.FAILED
    assert not is_locked()  # people are told to import what exists, which takes the lock
    waive(folder, "terraform_data.a", confirm="terraform_data.a")
    (tmp_path / "go-on").touch()
    view = await again(folder)
    assert view.state is RunState.SUCCEEDED
    lines, _ = OutputReader(folder, "net").lines(0)
    assert any("Unlocked, as that process is dead." in line.text for line in lines)
    assert load_run(folder).stage("net").terraform.pending[0].is_open is False
