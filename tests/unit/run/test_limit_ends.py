"""The ends that limits refer to: from the environment, and from EC2's answers by moto."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from actions.base.clock import SystemClock
from actions.base.errors import MissingError, UnreachableError
from actions.base.files import shipped_blueprints
from actions.blueprint.catalogue import load_blueprint
from actions.blueprint.parameters import bind
from actions.cloud.aws_session import AwsSession
from actions.cloud.ec2 import Reservation
from actions.cluster.auth.kubeconfig import ClusterTarget
from actions.run.client import load_run
from actions.run.engine.live_backend import LiveBackend
from actions.run.launch import LaunchOrder, create_run
from actions.run.limits import ends
from actions.run.limits.ends import NO_RESERVATION, UNNAMED_CREDENTIALS, fetch_ends
from actions.run.state.records import EndsKnown, Limits

BOTH = Limits(credentials_end=True, capacity_end=True)
BLOCK = Reservation("cr-1", "active", "p5.48xlarge", "us-west-2a", 2, 2, ends_at=1_800_000_000.0)
UNKNOWN = EndsKnown()
END = datetime(2026, 11, 24, 12, 0, tzinfo=UTC)


@pytest.fixture(autouse=True)
def _exported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAIOSFODNN7EXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("AWS_CREDENTIAL_EXPIRATION", "2026-11-24T12:00:00Z")


def answer(monkeypatch: pytest.MonkeyPatch, found: Reservation | Exception) -> None:
    async def fetch(_session: AwsSession, _id: str) -> Reservation:
        if isinstance(found, Exception):
            raise found
        return found

    monkeypatch.setattr(ends, "fetch_reservation", fetch)


async def found(known: EndsKnown = UNKNOWN, reservation: str = "cr-1") -> EndsKnown:
    return await fetch_ends(BOTH, known, region="us-west-2", reservation=reservation)


async def test_both_ends_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    answer(monkeypatch, BLOCK)
    assert await found() == EndsKnown(END.timestamp(), 1_800_000_000.0)


async def test_only_what_a_limit_refers_to_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    answer(monkeypatch, AssertionError("asked"))
    limits = Limits(credentials_end=True)
    assert await fetch_ends(limits, EndsKnown(), region="us-west-2", reservation="cr-1") == EndsKnown(END.timestamp())


async def test_of_a_run_in_an_account_the_end_of_the_credentials_is_known_without_a_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert await fetch_ends(Limits(), UNKNOWN, region="us-west-2", reservation="", has_account=True) == EndsKnown(
        END.timestamp()
    )
    monkeypatch.delenv("AWS_CREDENTIAL_EXPIRATION")
    assert await fetch_ends(Limits(), UNKNOWN, region="us-west-2", reservation="", has_account=True) == UNKNOWN


async def test_an_end_that_nothing_names_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_CREDENTIAL_EXPIRATION")
    assert await found(reservation="") == EndsKnown(missing=(UNNAMED_CREDENTIALS, NO_RESERVATION))


async def test_a_reservation_without_an_end_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    answer(monkeypatch, Reservation("cr-1", "active", "p5.48xlarge", "us-west-2a", 2, 2))
    assert (await found()).missing == ("The reservation cr-1 is not a capacity block: its instances outlive it.",)


async def test_an_end_that_cannot_be_asked_for_stays_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    answer(monkeypatch, UnreachableError("EC2 does not answer."))
    known = EndsKnown(END.timestamp(), 5.0)
    assert await found(known) == known
    assert (await found()).missing == ("The reservation cr-1 could not be looked up: EC2 does not answer.",)
    answer(monkeypatch, MissingError("There is no capacity reservation cr-1."))
    assert (await found(known)).missing == ("There is no capacity reservation cr-1.",)


def test_the_reservation_of_a_rehearsal_is_the_one_that_it_names(tmp_path: Path) -> None:
    blueprint = load_blueprint(shipped_blueprints() / "efa-nccl-tests")
    named = {"capacity_type": "CAPACITY_BLOCK", "capacity_reservation_id": "cr-30000000000000ab1"}
    bound = bind(blueprint, named, preset="rehearsal")
    folder = create_run(
        LaunchOrder(
            blueprint, bound, target=ClusterTarget(), environment={}, clock=SystemClock(), base=tmp_path / "runs"
        )
    )
    assert LiveBackend(folder, SystemClock()).reservation(load_run(folder)) == "cr-30000000000000ab1"
