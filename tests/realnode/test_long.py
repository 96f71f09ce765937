"""Long things: parts of the cluster go away under what runs, and come back; what runs goes on, and no line is lost."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

import pytest

from actions.base.errors import RefusedError, UnreachableError
from actions.cluster.logs.follow import ContainerEnd
from tests.realnode.failing import container, job
from tests.realnode.following import Followed, execute, following
from tests.realnode.harness.cluster import PLACES
from tests.realnode.running import real_nodes
from tests.realnode.support import (
    Document,
    apply,
    get,
    hung_api_server,
    is_node_ready,
    kubectl,
    make_namespace,
    stopped,
    until,
    without_api_server,
    without_network,
)
from tui.cli import main

_NAMESPACE = "long"
_HOST = "kubernetes.io/hostname"
_NUMBERS = "i=0; until [ -e /said/stop ]; do echo $i; echo $i > /said/number; i=$((i+1)); sleep 0.1; done"
"""Ten lines a second, each once and in order, until somebody makes the file."""
_NODE = PLACES[-1]
_VOLUME = "volumes/kubernetes.io~empty-dir/said"
_SOME_LINES = 40
"""As many are printed before something is away, and meanwhile, at least."""


@dataclass(frozen=True, slots=True)
class Printing:
    """A pod that prints numbers."""

    pod: str
    said: Path
    """A folder of its node that it writes to."""

    def newest(self) -> int:
        """The last number that it has printed, asked of nobody who may be away."""
        return int((self.said / "number").read_text(encoding="ascii") or -1)

    def container(self) -> Document:
        """Return its state with the id, which differs once it has been started again."""
        (status,) = get("pod", self.pod, "-n", _NAMESPACE)["status"]["containerStatuses"]
        return {"id": status["containerID"], "restarts": status["restartCount"], "runs": "running" in status["state"]}


@pytest.fixture
def printing() -> Iterator[Printing]:
    """A Job's pod, on a node with accelerators."""
    until(lambda: is_node_ready(_NODE.name), f"{_NODE.name} is ready")
    make_namespace(_NAMESPACE)
    main = container(_NUMBERS, volumeMounts=[{"name": "said", "mountPath": "/said"}])
    made = job(main, template={"nodeSelector": {_HOST: _NODE.name}, "volumes": [{"name": "said", "emptyDir": {}}]})
    apply({**made, "metadata": {"name": "numbers", "namespace": _NAMESPACE}})
    of_the_job = ("pods", "-l", "job-name=numbers", "-n", _NAMESPACE)
    until(lambda: get(*of_the_job)["items"], "the Job's pod")
    kubectl("wait", *of_the_job, "--for=condition=Ready", "--timeout=60s")
    (about,) = (one["metadata"] for one in get(*of_the_job)["items"])
    said = Path(real_nodes().nodes[_NODE.name]) / "kubelet" / "pods" / about["uid"] / _VOLUME
    until((said / "number").exists, "the first number")
    yield Printing(about["name"], said)
    kubectl("delete", "namespace", _NAMESPACE, "--timeout=80s")


_AWAY: dict[str, Callable[[], AbstractContextManager[None]]] = {
    "kubelet": lambda: stopped("kubelet", _NODE.name),
    "containerd": lambda: stopped("containerd", _NODE.name),
    "api-server": without_api_server,
    "network": lambda: without_network(_NODE.name),
}
_STALLED: dict[str, Callable[[], AbstractContextManager[None]]] = {
    "api-server": hung_api_server,
    "network": lambda: without_network(_NODE.name),
}
"""The stream of a log stays open, and is silent."""


@pytest.mark.parametrize("what", _AWAY)
def test_a_log_goes_on_behind_what_was_away(what: str, printing: Printing) -> None:
    before = printing.container()
    with following(_NAMESPACE, printing.pod) as log:
        until(lambda: log.newest >= _SOME_LINES, "the log")
        with _AWAY[what]():
            away_at = printing.newest()
            until(lambda: printing.newest() >= away_at + _SOME_LINES, f"lines without {what}")
        until(lambda: is_node_ready(_NODE.name), f"{_NODE.name} is ready")
        back_at = printing.newest()
        until(lambda: log.newest > back_at, "the log of what was printed behind it")
        assert printing.container() == before
        _stop(printing)
        until(lambda: log.end is not None, "the end of the log")
    _is_whole(log)


@pytest.mark.parametrize("what", ["kubelet", "network"])
def test_a_log_goes_on_behind_a_node_that_was_lost(
    what: str, printing: Printing, capsys: pytest.CaptureFixture[str]
) -> None:
    with following(_NAMESPACE, printing.pod) as log:
        with _AWAY[what]():
            until(lambda: not is_node_ready(_NODE.name), f"{_NODE.name} is not ready")
            capsys.readouterr()
            main(["why", f"pod/{_NAMESPACE}/{printing.pod}", "--kubeconfig", real_nodes().kubeconfig, "-o", "json"])
            (found,) = json.loads(capsys.readouterr().out)
        until(lambda: is_node_ready(_NODE.name), f"{_NODE.name} is ready")
        back_at = printing.newest()
        until(lambda: log.newest > back_at, "the log of what was printed behind it", seconds=150)
        _stop(printing)
        until(lambda: log.end is not None, "the end of the log")
    _is_whole(log)
    assert (found["code"], _NODE.name in found["headline"]) == ("NODE_LOST", True)


@pytest.mark.parametrize("what", _STALLED)
def test_a_log_whose_stream_stalls_is_marked(what: str, printing: Printing) -> None:
    with following(_NAMESPACE, printing.pod) as log:
        until(lambda: log.newest >= _SOME_LINES, "the log")
        with _STALLED[what]():
            until(lambda: log.failures, f"word of {what}")
            stalled_at, failure = log.newest, log.failures[0]
            assert printing.newest() > stalled_at + _SOME_LINES
        back_at = printing.newest()
        until(lambda: log.newest > back_at, "the log of what was printed behind it", seconds=150)
        _stop(printing)
        until(lambda: log.end is not None, "the end of the log")
    _is_whole(log)
    unknown = f"-- whether more was printed is not known: {failure.rstrip('.')} --"
    assert log.markers[stalled_at] == [unknown, "-- the log can be read again --"]


def _stop(printing: Printing) -> None:
    """Let the container end, by a program in it; for seconds a kubelet may not have found its runtime again."""

    def is_done() -> bool:
        try:
            return execute(_NAMESPACE, printing.pod, "touch", "/said/stop").exit_code == 0
        except (RefusedError, UnreachableError):
            return False

    until(is_done, "a program in the container")


def _is_whole(log: Followed) -> None:
    assert (log.unmarked(), log.end) == ([], ContainerEnd(0, "Completed"))
