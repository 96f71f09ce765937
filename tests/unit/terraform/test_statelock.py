"""A lock: whose it is, and when its holder is provably dead."""

from __future__ import annotations

import pytest

from actions.terraform.state import DeadHolder, StateLock, is_of_the_dead, read_lock

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


def test_the_lock_of_a_process_of_ours_that_died_at_work_is_of_the_dead() -> None:
    assert is_of_the_dead(read_lock(TEXT), [DEAD], user="root", host="vm")


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
