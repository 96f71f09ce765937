"""The recorded log of a pod: found by its run, chosen by its rank, with the load of its accelerators."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import pytest

from actions.base.files import state_folder
from actions.sandbox.clientkit.client import ApiClient
from actions.sandbox.clientkit.kinds import Document, Kind
from actions.sandbox.kubelet.container import ContainerRun
from actions.sandbox.kubelet.pod_config import pod_config
from actions.sandbox.kubelet.rehearsals import PlayedRehearsal, RecordedLog, played_program, recorded_log_of
from actions.sandbox.programs.files import FileView
from actions.sandbox.programs.program import ContainerView, GpuLoad, NeuronLoad, ProcessContext

_OWNED = {"eksml.dev/run": "lora-1", "eksml.dev/stage": "train"}
_TOLD = {
    "logs": ["w0.log", "w1.log"], "line_seconds": 2.0, "load_percent": 50, "exit_code": 3,
    "pods": "app=train", "container": "",
}  # fmt: skip


class _Api:
    """The API with one JobSet and the Job below it, where selectors match what they are told to."""

    def __init__(self, *, selects: bool = True, labels: Mapping[str, str] = _OWNED) -> None:
        self._selects, self._labels = selects, labels
        self.session = self

    async def read(self, kind: Kind, key: str) -> Document | None:
        owner = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "name": "set", "controller": True}
        if kind.kind == "Job":
            return {"metadata": {"name": key, "ownerReferences": [owner]}}
        return {"metadata": {"name": key, "labels": self._labels}}

    async def get(self, path: str, query: Mapping[str, str]) -> Document:
        assert query["labelSelector"] == "app=train"
        return {"items": [{}] if self._selects else []}


def a_pod(name: str, *, labels: Mapping[str, str] = _OWNED, **variables: str) -> Document:
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "job", "controller": True}
    env = [{"name": key, "value": value} for key, value in variables.items()]
    container = {"name": "main", "image": "any/image:1", "env": env}
    metadata = {"name": name, "namespace": "default", "labels": dict(labels), "ownerReferences": [owner]}
    return {"metadata": metadata, "spec": {"containers": [container]}}


@pytest.fixture(name="run")
def _run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    folder = state_folder() / "runs" / "lora-1"
    (folder / "blueprint").mkdir(parents=True)
    (folder / "rehearsals.json").write_text(json.dumps({"train": _TOLD}), encoding="utf-8")
    for rank in (0, 1):
        (folder / "blueprint" / f"w{rank}.log").write_bytes(b"rank %d\n\xff end" % rank)
    return folder


async def found_of(pod: Document, **api: Any) -> RecordedLog | None:
    return await recorded_log_of(pod, pod_config(pod), cast(ApiClient, _Api(**api)))


@pytest.mark.usefixtures("run")
@pytest.mark.parametrize(
    ("pod", "rank"),
    [
        (a_pod("train-xk4z2"), 0),
        (a_pod("train-worker-1"), 1),
        (a_pod("train-worker-0", RANK="1"), 1),
        (a_pod("train-0-abcde", JOB_COMPLETION_INDEX="7"), 1),
        (a_pod("train-abcde", labels={}), 0),
        (a_pod("train-abcde", labels={**_OWNED, "eksml.dev/stage": "runtime"}), 0),
    ],
    ids=["no rank", "by its name", "by a variable", "beyond the last", "by a job above it", "template of another"],
)
async def test_a_pod_prints_the_log_of_its_rank(pod: Document, rank: int) -> None:
    found = await found_of(pod)
    assert found is not None
    assert found.container == "main"
    program = found.replay()
    printed = [next(program), next(program)]
    assert [(step.after_seconds, step.text) for step in printed] == [(2.0, f"rank {rank}\n"), (2.0, "\ufffd end")]
    with pytest.raises(StopIteration) as end:
        next(program)
    assert end.value.value == 3


@pytest.mark.usefixtures("run")
async def test_what_comes_before_a_recorded_log_is_not_carried_out() -> None:
    pod = a_pod("train-0")
    config = pod_config(pod)
    first = ContainerRun(config.containers[0], is_init=True)
    program = played_program(await found_of(pod), first, cast(ProcessContext, None))
    assert next(program).text == "main: nothing is done here in a rehearsal\n"
    with pytest.raises(StopIteration) as end:
        next(program)
    assert end.value.value == 0


@pytest.mark.usefixtures("run")
async def test_pods_that_are_not_watched_show_the_load_alone() -> None:
    found = await found_of(a_pod("launcher-0"), selects=False)
    assert found is not None
    assert (found.container, found.text) == ("", "")


@pytest.mark.parametrize("name", ["..", "a/b", "gone-1", ""])
@pytest.mark.usefixtures("run")
async def test_a_label_leads_to_no_other_place(name: str) -> None:
    assert await found_of(a_pod("train-0"), labels={**_OWNED, "eksml.dev/run": name}) is None


async def test_a_log_that_is_gone_is_none(run: Path) -> None:
    (run / "blueprint" / "w0.log").unlink()
    assert await found_of(a_pod("train-0")) is None


def test_the_load_is_a_share_of_the_devices_that_are_there() -> None:
    rehearsal = PlayedRehearsal(("a",), 1.0, 50, 0, "", "")
    container = ContainerView("default", "train-0", "main", "any:1", ("axolotl", "train"), {}, FileView({}))
    on_gpus = ContainerView(
        "default", "p", "main", "any:1", (), {}, FileView({}), gpus=(0,), instance_type="p5.48xlarge"
    )  # fmt: skip
    on_neuron = ContainerView("default", "p", "main", "any:1", ("train",), {}, FileView({}), neurons=(0,))
    assert rehearsal.load_of(container) == GpuLoad(50, 23028 * 50 // 100)
    assert rehearsal.load_of(on_gpus) == GpuLoad(50, 81559 * 50 // 100)
    assert rehearsal.load_of(on_neuron) == NeuronLoad(50.0, 8192, command="train")


async def test_the_run_may_be_that_of_another_home(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    homes, pod = [Path("/absent"), state_folder()], a_pod("train-xk4z2")
    monkeypatch.setenv("XDG_STATE_HOME", str(run))
    assert await found_of(pod) is None
    found = await recorded_log_of(pod, pod_config(pod), cast(ApiClient, _Api()), homes)
    assert found is not None
    assert found.text.startswith("rank 0")
