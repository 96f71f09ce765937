"""A lock: whose it is, and when its holder is provably dead."""

from __future__ import annotations

import os
import pwd

import msgspec
import pytest

from actions.base.errors import ToolError
from actions.terraform.asking import tool_failure
from actions.terraform.failure import StateLockedError
from actions.terraform.state import (
    DeadHolder,
    GoneHolder,
    StateLock,
    ended_holder,
    is_of_the_dead,
    is_of_the_gone,
    read_lock,
    reason_to_unlock,
)

CREATED = 1795344406.674098
"""2026-11-22T10:46:46.674098Z"""
TEXT = """Error message: operation error S3: PutObject, https response error StatusCode: 412, PreconditionFailed
Lock Info:
  ID:        c3ed11e8-93bc-684a-fb03-f89adeff5f96
  Path:      states/net/terraform.tfstate
  Operation: OperationTypeApply
  Who:       root@vm
  Version:   1.11.4
  Created:   2026-11-22 10:46:46.674098751 +0000 UTC
  Info:
"""
DEAD = DeadHolder("apply", CREATED - 0.1, CREATED + 0.2)


def test_a_lock_is_read_with_its_moment() -> None:
    lock = read_lock(TEXT)
    assert (lock.id, lock.who) == ("c3ed11e8-93bc-684a-fb03-f89adeff5f96", "root@vm")
    assert lock.created_at == pytest.approx(CREATED, abs=1e-3)


def test_a_lock_is_read_from_framed_and_coloured_text() -> None:
    lines = "Error: Error acquiring the state lock\n\n" + TEXT
    framed = "".join(f"\x1b[31m│\x1b[0m \x1b[0m{line}\n" for line in lines.splitlines())
    shown = f"\x1b[31m╷\x1b[0m\n{framed}\x1b[31m╵\x1b[0m\n"  # terraform state push 1.11.4, to a pipe
    error = tool_failure(["terraform", "state"], ToolError(["terraform", "state"], exit_code=1, tail=shown))
    assert isinstance(error, StateLockedError)
    assert error.lock == read_lock(TEXT)


def test_the_lock_of_a_process_of_ours_that_died_at_work_is_of_the_dead() -> None:
    assert is_of_the_dead(read_lock(TEXT), [DEAD], user="root", host="vm")


def test_a_lock_with_an_id_that_an_ended_process_made_is_its_own_and_no_other_is() -> None:
    lock = read_lock(TEXT)
    assert is_of_the_dead(lock, [ended_holder("plan", ("another", lock.id))])
    assert not is_of_the_dead(lock, [ended_holder("apply", ("another",))], user="root", host="vm")
    assert not is_of_the_dead(StateLock(), [ended_holder("apply", ("",))])
    assert msgspec.json.decode(b'{"operation": "apply", "began_at": 1.0, "worked_at": 2.0}', type=DeadHolder) == (
        DeadHolder("apply", 1.0, 2.0)
    )  # as earlier versions recorded it


@pytest.mark.parametrize(
    ("holders", "user", "host"),
    [
        ([], "root", "vm"),
        ([DEAD], "ann", "vm"),
        ([DEAD], "root", "bastion"),
        ([DeadHolder("apply", CREATED + 1, CREATED + 2)], "root", "vm"),
        ([DeadHolder("apply", CREATED - 2, CREATED - 1)], "root", "vm"),
        ([DeadHolder("plan", CREATED - 0.1, CREATED + 0.2)], "root", "vm"),
    ],
)
def test_any_other_lock_is_left_alone(holders: list[DeadHolder], user: str, host: str) -> None:
    assert not is_of_the_dead(read_lock(TEXT), holders, user=user, host=host)


@pytest.mark.parametrize("created", ["", "yesterday", "2026-13-45 10:00:00 +0000 UTC", "2026-11-22 10:46:46 +0100 CET"])
def test_a_moment_that_is_none_proves_nothing(created: str) -> None:
    lock = StateLock("id", "root@vm", created, "OperationTypeApply")
    assert not is_of_the_dead(lock, [DEAD], user="root", host="vm")


def test_a_lock_of_a_machine_that_is_gone_is_older_than_that_statement() -> None:
    lock = read_lock(TEXT)
    assert is_of_the_gone(lock, [GoneHolder("root@vm", CREATED + 60)])
    assert not is_of_the_gone(lock, [GoneHolder("root@vm", CREATED - 60)])
    assert not is_of_the_gone(lock, [GoneHolder("root@bastion", CREATED + 60)])
    assert is_of_the_gone(lock, [GoneHolder("root@vm", CREATED + 60, CREATED - 60)])
    assert not is_of_the_gone(lock, [GoneHolder("root@vm", CREATED + 60, CREATED + 30)])  # another machine of that name
    assert not is_of_the_gone(lock, [])
    assert is_of_the_gone(
        lock, [GoneHolder("anna@vm", CREATED + 60)]
    )  # her name is from LOGNAME, Terraform's from the uid
    assert not is_of_the_gone(StateLock(lock.id, lock.who, "yesterday"), [GoneHolder("root@vm", CREATED + 60)])
    assert not is_of_the_gone(StateLock("", lock.who, lock.created), [GoneHolder("root@vm", CREATED + 60)])
    assert reason_to_unlock(lock, [], [GoneHolder("root@vm", CREATED + 60)]) == "root@vm does not exist any more"
    assert reason_to_unlock(lock, [], []) == ""


def test_the_user_is_named_as_terraform_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOGNAME", "anna")
    user = pwd.getpwuid(os.getuid()).pw_name
    lock = msgspec.structs.replace(read_lock(TEXT), who=f"{user}@vm")
    assert is_of_the_dead(lock, [DEAD], host="vm")
