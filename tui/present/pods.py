"""Pods as rows of a table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from actions.cluster.job_pods import JobRef, role_of
from actions.cluster.kinds import is_watched_kind
from actions.fleet.facts import PodFacts, WorkloadFacts
from actions.fleet.quantity import format_bytes, format_cpu
from tui.present.cells import Cells, CellValue, Span, Tone

_ABSENT = Span("-", Tone.MUTED)
_GLYPHS = {
    "Running": ("●", Tone.GOOD),
    "Succeeded": ("✓", Tone.MUTED),
    "Pending": ("○", Tone.WARN),
    "Failed": ("✗", Tone.BAD),
    "Unknown": ("?", Tone.BAD),
}
_CALM_REASONS = frozenset({"", "Running", "Completed", "ContainerCreating", "PodInitializing", "Terminating"})


class PodOwner(msgspec.Struct, frozen=True):
    """A workload that pods belong to, directly or through what it makes for each of its versions.

    Args:
        kind: Its kind.
        namespace: Its namespace.
        name: Its name.
    """

    kind: str
    namespace: str
    name: str

    def owns(self, pod: PodFacts, workloads: Mapping[str, WorkloadFacts]) -> bool:
        """Return whether a pod is one of the workload; a CronJob's Jobs have its name, a dash and a number."""
        if pod.namespace != self.namespace:
            return False
        if (self.kind, pod.owner_kind) == ("CronJob", "Job"):
            return pod.owner_name.rpartition("-")[0] == self.name
        if is_watched_kind(self.kind):
            return role_of(JobRef(self.kind, self.namespace, self.name), pod, workloads) != ""
        return (pod.owner_kind, pod.owner_name) == (self.kind, self.name)

    def text(self) -> str:
        """As `:open pods of=` takes it: `Deployment/work/web`."""
        return f"{self.kind}/{self.namespace}/{self.name}"


class PodScope(msgspec.Struct, frozen=True):
    """The pods that a table shows.

    Args:
        node: Only those of this node.
        run: Only those of this run.
        stage: Only those of this stage of the run.
        job: Only those of this job, with or without a run.
        namespace: Only those of this namespace; without an owner.
        owner: Only those of this workload.
    """

    node: str = ""
    run: str = ""
    stage: str = ""
    job: JobRef | None = None
    namespace: str = ""
    owner: PodOwner | None = None

    def holds(self, pod: PodFacts, workloads: Mapping[str, WorkloadFacts]) -> bool:
        """Return whether the pod is in scope."""
        return (
            (not self.node or pod.node == self.node)
            and (not self.namespace or self.owner is not None or pod.namespace == self.namespace)
            and (self.owner is None or self.owner.owns(pod, workloads))
            and (not self.run or pod.run == self.run)
            and (not self.stage or pod.stage == self.stage)
            and (self.job is None or role_of(self.job, pod, workloads) != "")
        )

    def title(self) -> str:
        """The title of the pane."""
        is_narrowed = self.namespace and self.owner is None
        return f"{self._subject()} in {self.namespace}" if is_narrowed else self._subject()

    def _subject(self) -> str:
        if self.owner is not None:
            return f"pods of {self.owner.kind} {self.owner.namespace}/{self.owner.name}"
        if self.job is not None:
            return f"pods of {self.job.key}"
        if self.node:
            return f"pods of {self.node}"
        if self.stage:
            return f"pods of {self.run}/{self.stage}"
        return f"pods of {self.run}" if self.run else "pods"


def pods_in(
    pods: Mapping[str, PodFacts], scope: PodScope, workloads: Mapping[str, WorkloadFacts]
) -> Iterable[PodFacts]:
    """Return the pods in scope."""
    return pods.values() if scope == PodScope() else [pod for pod in pods.values() if scope.holds(pod, workloads)]


def search_text(pod: PodFacts) -> str:
    """Return the text that a filter on pods matches."""
    return " ".join((pod.namespace, pod.name, pod.node, pod.phase, pod.reason, pod.owner_kind, pod.owner_name, pod.run))


def status_cell(pod: PodFacts) -> Cells:
    """The state after a glyph, in kubectl's words for STATUS."""
    glyph, tone = _GLYPHS.get(pod.phase, ("?", Tone.WARN))
    word = pod.reason or pod.phase
    if pod.reason not in _CALM_REASONS and pod.phase != "Succeeded":
        glyph, tone = "✗", Tone.BAD
    if pod.reason == "Terminating":
        glyph, tone = "◌", Tone.WARN
    return (Span(f"{glyph} ", tone), Span(word, tone if tone is not Tone.GOOD else Tone.PLAIN))


def ready_cell(pod: PodFacts) -> CellValue:
    """Ready containers of their total."""
    text = f"{pod.ready}/{len(pod.containers)}"
    return Span(text, Tone.WARN) if pod.phase == "Running" and pod.ready < len(pod.containers) else text


def restarts_cell(pod: PodFacts) -> CellValue:
    """Restarts of the pod's containers."""
    return Span(str(pod.restarts), Tone.WARN) if pod.restarts else "0"


def requests_cell(pod: PodFacts) -> str:
    """Requested CPU and memory."""
    asked = pod.requests
    return f"{format_cpu(asked.cpu_milli)} {format_bytes(asked.memory_bytes)}"


def accelerators_cell(pod: PodFacts) -> CellValue:
    """Requested GPUs or Neuron devices."""
    return str(pod.requests.accelerators or "") or _ABSENT


def owner_cell(pod: PodFacts) -> CellValue:
    """The workload that the pod belongs to."""
    return f"{pod.owner_kind}/{pod.owner_name}" if pod.owner_name else _ABSENT


def node_cell(pod: PodFacts) -> CellValue:
    """The pod's node, or the reason why it has none yet."""
    return pod.node or Span(pod.message or "unscheduled", Tone.WARN)
