"""Runs of a small blueprint, carried out in this process."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from actions.base.clock import SystemClock
from actions.blueprint.catalogue import load_blueprint
from actions.blueprint.parameters import bind
from actions.cluster.auth.kubeconfig import ClusterTarget
from actions.run.client import send_request
from actions.run.engine.live_backend import LiveBackend
from actions.run.engine.runner import Runner
from actions.run.journal.folder import journal_path
from actions.run.journal.lease import take_runner_lease
from actions.run.journal.runner_journal import RunnerJournal
from actions.run.journal.store import Journal
from actions.run.launch import LaunchOrder, create_run
from actions.run.state.records import NodesUsed, RequestKind, RunAccount, TerraformBody
from actions.run.state.view import OwnedObject, RunView, TerraformMemory

_CLOCK = SystemClock()


def a_small_run(
    tmp_path: Path,
    files: Mapping[str, str],
    *,
    kubeconfig: Path,
    existing_cluster: bool = False,
    parameters: Mapping[str, str] | None = None,
    auto_approve: bool = False,
    home: Path | None = None,
) -> Path:
    """Write a blueprint's files and make a run of it; nothing is started.

    Args:
        tmp_path: The test's folder.
        files: The files' texts, by path in the blueprint's folder; `blueprint.yaml` is among them.
        kubeconfig: Of the cluster.
        existing_cluster: Whether the run uses a cluster that is there.
        parameters: As an operator gives them.
        auto_approve: Whether plans are carried out without being asked about.
        home: The folder of all runs, if not the test's own.
    """
    source = tmp_path / "small"
    for path, text in files.items():
        (source / path).parent.mkdir(parents=True, exist_ok=True)
        (source / path).write_text(text)
    blueprint = load_blueprint(source)
    return create_run(
        LaunchOrder(
            blueprint,
            bind(blueprint, parameters or {}, existing_cluster=existing_cluster),
            target=ClusterTarget(kubeconfig),
            environment={},
            clock=_CLOCK,
            auto_approve=auto_approve,
            base=home or tmp_path / "runs",
        )
    )


def own_name(tmp_path: Path) -> str:
    """A name for objects of the test, which no other test of its sandbox uses."""
    return tmp_path.name.replace("_", "-")[:40].strip("-")


class Unheard:
    """A stage's journal for nobody: it keeps in mind what was said."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.warnings: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)

    def trouble(self, text: str) -> None:
        return

    def warn(self, text: str) -> None:
        self.warnings.append(text)

    def owned(self) -> tuple[OwnedObject, ...]:
        return ()

    async def own(self, item: OwnedObject) -> None:
        raise AssertionError("nothing is made")

    async def deleted(self, item: OwnedObject) -> None:
        raise AssertionError("nothing is deleted")

    async def terraform(self) -> TerraformMemory:
        return TerraformMemory()

    async def remember(self, body: TerraformBody | NodesUsed) -> None:
        assert isinstance(body, NodesUsed), "no Terraform is at work"

    async def identify(self, account: RunAccount) -> None:
        raise AssertionError("AWS is not asked")


async def carry_out(folder: Path) -> RunView:
    """Work until the run waits or is over."""
    lease = take_runner_lease(journal_path(folder), _CLOCK)
    journal = Journal(journal_path(folder), _CLOCK, fence=lease.token)
    site = LiveBackend(folder, _CLOCK)
    try:
        return await Runner(RunnerJournal(journal, lease, _CLOCK), site, _CLOCK, lambda line: None).run()
    finally:
        await site.aclose()
        journal.close()


async def torn_down(folder: Path) -> RunView:
    """Wish for the teardown, and carry it out."""
    send_request(folder, RequestKind.TEARDOWN, start=False)
    return await carry_out(folder)
