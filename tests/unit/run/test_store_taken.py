"""A machine whose run has no runner learns from the store that another one has taken it over."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from actions.base.clock import SystemClock
from actions.base.process import own_identity
from actions.run.client import list_runs
from actions.run.journal.folder import environment_path, journal_path
from actions.run.journal.lease import Heartbeat, take_runner_lease
from actions.run.journal.reader import RunReader
from actions.run.journal.store import Journal
from actions.run.journal.watched import read_watched
from actions.run.state.records import Action, Intent
from actions.run.state.view import NoticeKind, RunState
from actions.run.store.elsewhere import note_taken
from actions.run.store.lease import take_lease
from tests.support.stores import ANNA, BEN, URL, Proxy, a_home, a_run_with_store, opened
from tests.unit.run.world import creation
from tui.cli import runs
from tui.cli.main import main
from tui.cli.run_verbs import remote_runs
from tui.feeds import remote_runs as feed
from tui.present.runs import RunRow, who_cell

CLOCK = SystemClock()

TAKEN = "It was taken over by ben@laptop-2 (epoch 2); here it can only be watched."


@pytest.fixture(scope="module")
def served() -> Iterator[Proxy]:
    with a_home() as proxy:
        yield proxy


@pytest.fixture
def home(served: Proxy, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Proxy:
    served.use(monkeypatch)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    for module, name in ((remote_runs, "_STORE_SECONDS"), (runs, "_STORES_SECONDS"), (feed, "_OWN_ANSWER_SECONDS")):
        monkeypatch.setattr(module, name, 100.0)  # tests of what the store answers, not of how soon
    return served


async def a_run(tmp_path: Path, name: str, *, takers: int = 1) -> Path:
    """A run of this machine that Ben's has taken over, of which this one knows nothing."""
    base = tmp_path / "eksml-tui"
    base.mkdir(exist_ok=True)
    folder = a_run_with_store(base, replace(creation(), run_id=name), CLOCK)
    environment_path(folder).write_text("{}")
    store = opened()
    lease = await take_lease(store, name, ANNA, after=None)
    for _ in range(takers):
        lease = await take_lease(store, name, BEN, after=lease)
    store.close()
    return folder


@pytest.fixture
def reached(home: Proxy, monkeypatch: pytest.MonkeyPatch) -> Proxy:
    """The home of runs that were launched without an endpoint of their own."""
    monkeypatch.setattr("actions.run.store.elsewhere.load_environment", lambda _: {"AWS_ENDPOINT_URL": home.address})
    return home


async def asked(*, at_most_seconds: float = 100.0) -> tuple[str, ...]:
    return await note_taken(list_runs(), at_most_seconds=at_most_seconds)


async def test_the_list_names_who_has_it_and_the_reader_on_screen_too(reached: Proxy, tmp_path: Path) -> None:
    folder = await a_run(tmp_path, "fake-parked")
    reader = RunReader(folder)
    reader.poll()
    assert reader.poll() is None
    assert list_runs()[0].taken_by == ""
    assert await asked() == ("fake-parked",)
    (run,) = list_runs()
    assert run.taken_by == "ben@laptop-2"
    assert [notice.text for notice in run.notices if notice.kind is NoticeKind.ELSEWHERE] == [TAKEN]
    assert "ben@laptop-2" in str(who_cell(RunRow(run)))
    view = reader.poll()  # nothing but the fence has changed
    assert view is not None
    assert any(notice.kind is NoticeKind.ELSEWHERE for notice in view.notices)
    reader.close()
    before = len(reached.requests)
    assert await asked() == ()
    assert len(reached.requests) == before  # what is known is not asked again


async def test_a_run_that_is_still_ours_stays_so(reached: Proxy, tmp_path: Path) -> None:
    folder = await a_run(tmp_path, "fake-ours", takers=0)
    assert await asked() == ()
    assert read_watched(folder) is None


async def test_a_run_with_a_runner_is_left_to_it(reached: Proxy, tmp_path: Path) -> None:
    folder = await a_run(tmp_path, "fake-works")
    take_runner_lease(journal_path(folder), CLOCK)
    before = len(reached.requests)
    assert await asked() == ()
    assert len(reached.requests) == before


class AMinuteAgo(SystemClock):
    """The clock of a process that was stopped a minute ago."""

    def monotonic(self) -> float:
        return super().monotonic() - 60


async def a_stopped_runner(tmp_path: Path, name: str) -> Path:
    """A run whose runner here was stopped before Ben's machine took it over."""
    folder = await a_run(tmp_path, name)
    lease = take_runner_lease(journal_path(folder), CLOCK)
    Journal(journal_path(folder), CLOCK, fence=lease.token).append(Intent(Action.PERFORM), stage="train")
    Heartbeat(folder, own_identity(), AMinuteAgo()).beat()
    return folder


async def test_a_run_whose_runner_has_stopped_is_asked_for(reached: Proxy, tmp_path: Path) -> None:
    folder = await a_stopped_runner(tmp_path, "fake-stopped")
    reader = RunReader(folder)
    view = reader.poll()
    assert view is not None
    assert view.state is RunState.STALLED
    assert await asked() == ("fake-stopped",)
    view = reader.poll()
    assert view is not None
    assert TAKEN in [notice.text for notice in view.notices]
    reader.close()


REQUESTS = (
    ("teardown", "--confirm", "pretend"),
    ("park",),
    ("limit", "--budget", "5"),
    ("resume",),
)


@pytest.mark.parametrize("words", REQUESTS, ids=lambda words: words[0])
@pytest.mark.parametrize("is_stopped", [True, False])
def test_nothing_is_asked_of_a_run_that_its_home_gives_to_another_machine(
    reached: Proxy, tmp_path: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], is_stopped: bool
) -> None:
    """A request would wait in this machine's journal, where nobody reads it, and the answer was `Asked`."""
    name = f"fake-{words[0]}-{is_stopped}"
    folder = asyncio.run((a_stopped_runner if is_stopped else a_run)(tmp_path, name))
    before = RunReader(folder)
    before.poll()
    assert main(["runs", words[0], name, *words[1:]]) == 1
    assert f"{name} cannot be acted on: it was taken over by ben@laptop-2 (epoch 2)" in capsys.readouterr().err
    after = RunReader(folder)
    after.poll()
    assert len(after.records()) == len(before.records())
    before.close()
    after.close()


async def test_a_home_that_is_away_means_nothing(reached: Proxy, tmp_path: Path) -> None:
    folder = await a_run(tmp_path, "fake-away")
    reached.is_away = True
    assert await asked(at_most_seconds=0.5) == ()
    assert read_watched(folder) is None
    reached.mend()
    assert await asked() == ("fake-away",)


async def test_a_home_behind_another_endpoint_is_not_asked(home: Proxy, tmp_path: Path) -> None:
    """A rehearsal's bucket is another one than that of the same name in AWS."""
    await a_run(tmp_path, "fake-demo")
    before = len(home.requests)
    assert await asked() == ()
    assert len(home.requests) == before


async def test_the_console_asks_and_reads_its_list_again(reached: Proxy, tmp_path: Path) -> None:
    await a_run(tmp_path, "fake-console")
    assert await feed.has_taken_over(list_runs())
    assert list_runs()[0].taken_by == "ben@laptop-2"
    assert not await feed.has_taken_over(list_runs())


def test_the_command_says_it(reached: Proxy, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asyncio.run(a_run(tmp_path, "fake-list"))
    assert main(["--readonly", "runs", "list"]) == 0
    assert "taken over" not in capsys.readouterr().out
    assert main(["runs", "list"]) == 0
    assert TAKEN in capsys.readouterr().out


@pytest.fixture
def team_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Settings that name the store, and a machine that reaches no cluster."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    monkeypatch.setattr(remote_runs, "_LOOK_SECONDS", 100.0)
    settings = tmp_path / "config/eksml-tui/config.yaml"
    settings.parent.mkdir(parents=True)
    settings.write_text(f"store: {URL}\n")


@pytest.mark.usefixtures("reached", "team_settings")
@pytest.mark.parametrize(("verb", "remedy"), [("teardown", "takeover"), ("park", "takeover")])
def test_a_run_that_only_the_home_knows_is_refused_with_who_has_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], verb: str, remedy: str
) -> None:
    run_id = f"{verb}-theirs"
    shutil.rmtree(asyncio.run(a_run(tmp_path, run_id)))
    assert main(["runs", verb, run_id[:-2]]) == 1
    told = capsys.readouterr().err
    assert f"Run {run_id} is carried out by ben@laptop-2, and can only be watched here." in told
    assert f"eksml-tui runs {remedy} {run_id} --from {URL}" in told
    assert main(["runs", verb, "nobodys"]) == 1
    assert "There is no run 'nobodys'" in capsys.readouterr().err
