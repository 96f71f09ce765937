"""Profile and context of a run that was taken over: this machine's, not those of the machine that had it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from actions.base.clock import SystemClock
from actions.base.errors import ConsoleError, UnreachableError, UsageError
from actions.cloud.aws_session import profile_environment
from actions.cluster.auth.kubeconfig import ClusterTarget
from actions.run.client import load_run
from actions.run.context.protocols import StageFailedError
from actions.run.context.stage_context import CLUSTER_UID
from actions.run.context.store_address import run_key
from actions.run.journal.folder import environment_path, journal_path, kubeconfig_path, load_environment, runs_folder
from actions.run.journal.reader import RunReader
from actions.run.journal.store import Journal
from actions.run.launch import create_folder
from actions.run.state.records import Action, ClusterName, ContextChosen, Intent, Outcome, Output, Result
from actions.run.store.files import small_files
from actions.run.store.lease import take_lease
from actions.run.store.rows import append_rows
from actions.run.takeover import reach, takeover
from actions.run.takeover.strays import Searched
from actions.run.takeover.takeover import YOUNG_SECONDS, Takeover, take_over_run
from tests.support.stores import ANNA, URL, Proxy, a_home, opened
from tests.unit.run.world import creation, outline

CLOCK = SystemClock()
OTHERS = ClusterName("pretend", "us-west-2", context="anna-ctx", kubeconfig="/home/anna/.kube/config")
SAID = "AWS: this machine's profile ben; the other machine's profile anna is not used."


@pytest.fixture(scope="module")
def served() -> Iterator[Proxy]:
    with a_home() as proxy:
        yield proxy


@pytest.fixture
def home(served: Proxy, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Proxy:
    served.use(monkeypatch)
    for name in ("AWS_PROFILE", "KUBECONFIG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "here"))
    monkeypatch.setattr("actions.run.takeover.reach._TRIED_SECONDS", 100.0)  # as in test_store_taken.py
    monkeypatch.setattr("actions.run.takeover.reach._ANSWER_SECONDS", 100.0)
    return served


class Clusters:
    """The clusters that answer, by their contexts; what a run asks for is written as its kubeconfig."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.tried: list[str] = []
        self.failures: dict[str, ConsoleError] = {}
        self.heard_ago: float | None = None
        """Age of the last heartbeat of anna's machine there, by the API server's clock."""
        monkeypatch.setattr(takeover, "cluster_store", self.store)
        monkeypatch.setattr(reach, "_connect", self.connect)
        monkeypatch.setattr(takeover, "_pointed", self.point)
        monkeypatch.setattr(takeover, "record_strays", self.search)

    async def connect(self, folder: Path, _: Any, __: Any, target: ClusterTarget | None) -> ConsoleError | None:
        name = target.context if target else "EKS"
        self.tried.append(name)
        kubeconfig_path(folder).write_text(name)
        return self.failures.get(name)

    async def point(self, *_: Any) -> str:
        return ""

    async def search(self, *_: Any, **__: Any) -> Searched:
        return Searched()

    @asynccontextmanager
    async def store(self, *_: object) -> AsyncIterator[Clusters]:
        yield self

    async def lease(self, _: str) -> SimpleNamespace | None:
        return None if self.heard_ago is None else SimpleNamespace(owner=ANNA, age_seconds=self.heard_ago)


@pytest.fixture
def clusters(monkeypatch: pytest.MonkeyPatch) -> Clusters:
    return Clusters(monkeypatch)


def a_kubeconfig(path: Path, *contexts: str) -> Path:
    """A file with contexts, the last one current."""
    path.parent.mkdir(parents=True, exist_ok=True)
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": contexts[-1],
        "clusters": [{"name": name, "cluster": {"server": f"https://{name}.invalid"}} for name in contexts],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}} for name in contexts],
        "users": [{"name": name, "user": {"token": "t"}} for name in contexts],
    }
    path.write_text(json.dumps(document))
    return path


def others_run(
    tmp_path: Path, name: str, cluster: ClusterName, *, kubeconfig: bytes = b"", is_known: bool = True
) -> str:
    """A run of anna's in the home, which has reached its cluster; her variables are in the home, too."""
    source = tmp_path / "source"
    source.mkdir(exist_ok=True)
    (source / "blueprint.yaml").write_text("schema: eksml/v1\n")
    stages = (outline("access", kind="kubeconfig"),)
    created = replace(creation(), run_id=name, store=URL, owner=ANNA, cluster=cluster, stages=stages)
    environment = {**profile_environment("anna"), "AWS_REGION": "eu-west-1", "EKSML_ALLOW_PLUGINS": "evil"}
    folder = create_folder(
        created, source=source, environment=environment, clock=CLOCK, base=tmp_path / "anna" / "runs"
    )
    journal = Journal(journal_path(folder), CLOCK)
    if is_known:
        journal.append(Intent(Action.PERFORM), stage="access", attempt=1)
        journal.append(Output({CLUSTER_UID: "uid-1"}), stage="access", attempt=1)
        journal.append(Outcome(Action.PERFORM, Result.DONE, "It answers."), stage="access", attempt=1)

    async def write() -> None:
        store = opened()
        await append_rows(store, name, journal.rows(), epoch=1)
        await take_lease(store, name, ANNA, after=None)
        for file, data in {**small_files(folder), **({"kubeconfig": kubeconfig} if kubeconfig else {})}.items():
            await store.put_if_absent(run_key(name, f"files/{file}"), data)
        store.close()

    asyncio.run(write())
    journal.close()
    assert load_environment(folder)["AWS_PROFILE"] == "anna"
    return name


def taken(
    name: str,
    *,
    target: ClusterTarget | None = None,
    profile: str = "ben",
    is_confirmed: bool = True,
) -> tuple[Takeover, list[str]]:
    said: list[str] = []

    async def take() -> Takeover:
        store = opened()
        try:
            return await take_over_run(
                name,
                store,
                CLOCK,
                confirm=name if is_confirmed else "",
                is_machine_gone=True,
                environment=profile_environment(profile),
                target=target,
                say=said.append,
                starts=False,
            )
        finally:
            store.close()

    return asyncio.run(take()), said


def test_the_other_machines_profile_is_not_used(home: Proxy, clusters: Clusters, tmp_path: Path) -> None:
    name = others_run(tmp_path, "fake-profile", ClusterName("pretend", "us-west-2"), kubeconfig=b"anna's")
    done, said = taken(name)
    environment = load_environment(done.folder)
    assert environment["AWS_PROFILE"] == "ben"
    assert environment["AWS_REGION"] == "eu-west-1"  # the run's
    assert "EKSML_ALLOW_PLUGINS" not in environment  # a permission of another machine's operator
    assert said[1:] == [SAID, "Cluster: pretend, from EKS."]
    assert kubeconfig_path(done.folder).read_text() == "EKS"  # it named a profile
    assert load_run(done.folder).cluster == ClusterName("pretend", "us-west-2")


def test_without_a_profile_here_none_is_left_over(
    home: Proxy, clusters: Clusters, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done, said = taken(others_run(tmp_path, "fake-keys", ClusterName("pretend", "us-west-2")), profile="")
    assert "AWS_PROFILE" not in load_environment(done.folder)
    assert said[1] == "AWS: the exported keys of this machine; the other machine's profile anna is not used."
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    assert "default credentials" in reach.bring_environment(done.folder, {})
    monkeypatch.setenv("AWS_PROFILE", "ben")
    assert reach.bring_environment(done.folder, {}) == "AWS: this machine's profile ben."


def test_the_chosen_context_takes_the_place_of_the_other_machines(
    home: Proxy, clusters: Clusters, tmp_path: Path
) -> None:
    file = a_kubeconfig(tmp_path / "mine", "ben-ctx")
    name = others_run(tmp_path, "fake-context", OTHERS)
    clusters.failures["ben-ctx"] = UnreachableError("it is away.")
    done, _ = taken(name, target=ClusterTarget(file, "ben-ctx"))
    cluster = load_run(done.folder).cluster
    assert (cluster.name, cluster.context, cluster.kubeconfig) == ("pretend", "ben-ctx", str(file))  # also while away
    assert clusters.tried == ["ben-ctx"]
    assert done.sentences == ("The run's cluster was not reached: it is away.",)
    bodies = [record.body for record in RunReader(done.folder).records()]
    assert bodies[-1] == ContextChosen("ben-ctx", str(file))


def test_a_chosen_context_of_another_cluster_changes_nothing(home: Proxy, clusters: Clusters, tmp_path: Path) -> None:
    file = a_kubeconfig(tmp_path / "mine", "wrong")
    name = others_run(tmp_path, "fake-wrong", OTHERS, kubeconfig=b"harmless")
    clusters.failures["wrong"] = StageFailedError("Another cluster answers.")
    done, _ = taken(name, target=ClusterTarget(file, "wrong"))
    assert load_run(done.folder).cluster == OTHERS
    assert not kubeconfig_path(done.folder).exists()  # that of the other machine may start a program


FOUND = (
    (("anna-ctx", "mine"), (), ["anna-ctx"]),  # by its name
    (("other", "mine"), (), ["mine"]),  # the current one, if it is the run's cluster
    (("anna-ctx", "mine"), ("anna-ctx",), ["anna-ctx", "mine"]),
)


@pytest.mark.parametrize("case", range(len(FOUND)))
def test_without_a_choice_a_context_of_this_machine_is_looked_for(
    home: Proxy, clusters: Clusters, tmp_path: Path, case: int
) -> None:
    contexts, failing, tried = FOUND[case]
    a_kubeconfig(tmp_path / ".kube" / "config", *contexts)
    clusters.failures = {each: StageFailedError("Another cluster answers.") for each in failing}
    done, said = taken(others_run(tmp_path, f"fake-search-{case}", OTHERS))
    assert clusters.tried == tried
    cluster = load_run(done.folder).cluster
    assert (cluster.context, cluster.kubeconfig) == (tried[-1], "")
    assert said[-1] == f"Cluster: context {tried[-1]} of ~/.kube/config."


def test_where_no_context_fits_none_is_taken_and_the_way_out_is_named(
    home: Proxy, clusters: Clusters, tmp_path: Path
) -> None:
    a_kubeconfig(tmp_path / ".kube" / "config", "anna-ctx", "mine")
    clusters.failures = {each: StageFailedError("Another cluster answers.") for each in ("anna-ctx", "mine")}
    name = others_run(tmp_path, "fake-none", OTHERS)
    done, _ = taken(name)
    assert load_run(done.folder).cluster == OTHERS
    assert f"runs takeover {name} --from {URL} --context NAME" in done.sentences[0]
    assert not kubeconfig_path(done.folder).exists()


def test_a_cluster_that_is_not_known_is_not_guessed(home: Proxy, clusters: Clusters, tmp_path: Path) -> None:
    """Without its uid a context of the same name may be any cluster."""
    a_kubeconfig(tmp_path / ".kube" / "config", "anna-ctx")
    done, _ = taken(others_run(tmp_path, "fake-unknown", OTHERS, is_known=False))
    assert clusters.tried == []
    assert done.sentences == ()


def test_another_context_can_be_chosen_afterwards(home: Proxy, clusters: Clusters, tmp_path: Path) -> None:
    name = others_run(tmp_path, "fake-again", OTHERS)
    done, _ = taken(name)
    assert "this machine has no context anna-ctx" in done.sentences[0]
    file = a_kubeconfig(tmp_path / "mine", "ben-ctx")
    again, said = taken(name, target=ClusterTarget(file, "ben-ctx"))
    assert said == [
        "This machine has the run: only the way to its cluster is changed.",
        "AWS: this machine's profile ben.",
        f"Cluster: context ben-ctx of {file}.",
    ]
    assert (load_run(again.folder).cluster.context, load_run(again.folder).epoch) == ("ben-ctx", 2)
    assert environment_path(runs_folder() / name).exists()


def test_a_machine_that_is_cut_off_from_its_home_alone_is_not_taken_for_dead(
    home: Proxy, clusters: Clusters, tmp_path: Path
) -> None:
    """Its lease in the home has ended, and it goes on: its cluster hears of it, and the takeover would end it."""
    name = others_run(tmp_path, "fake-cutoff", ClusterName("pretend", "us-west-2"))
    home.clock_offset_seconds = 600.0  # the store's clock has gone on since it was renewed
    clusters.heard_ago = 20.0
    with pytest.raises(UsageError) as refused:
        taken(name, is_confirmed=False)
    assert "anna@bastion-1 carries out fake-cutoff: the last heartbeat in its cluster is 2" in refused.value.message
    assert refused.value.hint == "Add --confirm fake-cutoff to take it over."
    assert [path.name for path in runs_folder().iterdir()] == []

    async def epoch() -> int:
        store = opened()
        try:
            lease = await store.lease(name)
            return lease.epoch if lease else 0
        finally:
            store.close()

    assert asyncio.run(epoch()) == 1
    clusters.heard_ago += YOUNG_SECONDS
    assert taken(name, is_confirmed=False)[0].epoch == 2


def test_a_cluster_that_is_not_reached_keeps_no_takeover_from_a_silent_machine(
    home: Proxy, clusters: Clusters, tmp_path: Path
) -> None:
    name = others_run(tmp_path, "fake-dark", ClusterName("pretend", "us-west-2"))
    home.clock_offset_seconds = 600.0
    clusters.failures["EKS"] = UnreachableError("no answer.")
    done, _ = taken(name, is_confirmed=False)
    assert (done.epoch, clusters.tried) == (2, ["EKS", "EKS"])
