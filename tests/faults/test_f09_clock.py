"""F9: a clock that jumps, or is wrong, changes no order, no state and no length into nonsense, and is named."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from botocore.exceptions import ClientError

from actions.base.clock import SystemClock
from actions.base.errors import AccessError
from actions.cloud.aws_session import aws_error_of
from actions.run.client import RunReader
from actions.run.engine.runner import Runner
from actions.run.journal.folder import journal_path
from actions.run.journal.lease import take_runner_lease
from actions.run.journal.runner_journal import RunnerJournal
from actions.run.journal.store import Journal
from actions.run.report import run_json, run_table
from actions.run.state.view import RunState
from tests.unit.run.world import FakeWorkshop, make_run


class JumpingClock(SystemClock):
    """Another hour at each look, forwards and backwards."""

    def __init__(self) -> None:
        self._looks = 0

    def now(self) -> datetime:
        self._looks += 1
        return datetime.now(UTC) + timedelta(hours=-3 if self._looks % 2 else 5)


async def test_a_run_under_a_clock_that_jumps_is_carried_out_and_told_without_negative_lengths(tmp_path: Path) -> None:
    clock = JumpingClock()
    folder = make_run(tmp_path, clock)
    lease = take_runner_lease(journal_path(folder), clock)
    journal = Journal(journal_path(folder), clock, fence=lease.token)
    desk = RunnerJournal(journal, lease, clock)
    desk.keep_alive()
    reader = RunReader(folder, clock=clock)
    view = await Runner(desk, FakeWorkshop(folder, clock), clock, lambda line: None).run()
    journal.close()
    assert view.state is RunState.SUCCEEDED
    seen = reader.poll()
    assert seen is not None
    assert seen.notices == ()
    assert "-" not in "".join(line for line in run_table(seen).splitlines() if " succeeded " in line)
    assert all(stage["seconds"] >= 0 for stage in json.loads(run_json(seen))["stages"])


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (
            "InvalidSignatureException",
            "Signature not yet current: 20261122T130000Z is later than 20261122T120500Z",
        ),
        ("SignatureDoesNotMatch", "Signature expired: 20261122T110000Z is now earlier than 20261122T114500Z"),
        ("RequestTimeTooSkewed", "The difference between the request time and the current time is too large."),
    ],
)
def test_a_signature_of_another_time_is_named_as_a_wrong_clock(code: str, text: str) -> None:
    refused = ClientError({"Error": {"Code": code, "Message": text}}, "GetCallerIdentity")
    error = aws_error_of(refused, action="sts:GetCallerIdentity")
    assert isinstance(error, AccessError)
    assert "The clock of this machine is not that of AWS" in error.message
    assert text in error.message
