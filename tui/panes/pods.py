"""The pods pane: pods of the cluster, a node, a run, a stage or a job."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from msgspec.structs import replace

from actions.base.errors import MissingError
from actions.fleet.facts import PodFacts
from tui.feeds.services import ConsoleServices
from tui.panes.base import TablePane, bindings_of
from tui.present import pods
from tui.present.pods import PodOwner, PodScope
from tui.present.subject import Subject
from tui.present.text import age as age_text
from tui.settings.keys import KeyContext
from tui.widgets.table_model import Column

if TYPE_CHECKING:
    from actions.cluster.state.snapshot import ClusterSnapshot

_OWNER_WORDS = 3
"""Kind, namespace, name."""

AGES_SECONDS = 10.0
"""The ages of all pods are drawn anew this often."""


def columns_of(services: ConsoleServices) -> tuple[Column[PodFacts], ...]:
    """Return the table's columns; ages are computed with the services' clock."""

    def age(pod: PodFacts) -> str:
        return age_text(services.clock.now().timestamp(), pod.created_at)

    return (
        Column("namespace", "NAMESPACE", lambda pod: pod.namespace, width=11, drop=2),
        Column("name", "NAME", lambda pod: pod.name, width=24, flex=3, limit=60, keeps_ends=True),
        Column("ready", "READY", pods.ready_cell, width=5),
        Column("status", "STATUS", pods.status_cell, width=12, flex=1, limit=26),
        Column(
            "restarts",
            "RESTARTS",
            pods.restarts_cell,
            width=8,
            align="right",
            drop=1,
            sort_key=lambda pod: pod.restarts,
        ),
        Column("age", "AGE", age, width=6, align="right", drop=3, sort_key=lambda pod: -pod.created_at),
        Column(
            "requests",
            "CPU MEMORY",
            pods.requests_cell,
            width=12,
            drop=7,
            sort_key=lambda pod: pod.requests.cpu_milli,
        ),
        Column(
            "accel",
            "ACCEL",
            pods.accelerators_cell,
            width=5,
            align="right",
            drop=5,
            sort_key=lambda pod: pod.requests.accelerators,
        ),
        Column("owner", "OWNER", pods.owner_cell, width=18, flex=2, limit=44, drop=8),
        Column("node", "NODE", pods.node_cell, width=16, flex=2, limit=46, drop=4),
        Column("run", "RUN", lambda pod: pod.run or "-", width=12, flex=1, limit=28, drop=9),
    )


class PodsPane(TablePane[PodFacts]):
    """The pods in scope, each with describe, YAML, logs and shell under `d y l s`."""

    ONLY = "only"
    CONTEXT = KeyContext.PODS
    BINDINGS: ClassVar = bindings_of(KeyContext.PODS)
    NOUN = "pods"
    EMPTY = "No pod here."

    def __init__(self, services: ConsoleServices) -> None:
        super().__init__(
            services,
            columns_of(services),
            key=lambda pod: pod.key,
            search=pods.search_text,
            identify=lambda pod: pod.uid,
        )
        self._aged_at = float("-inf")
        self._scope = PodScope()
        self._shown: ClusterSnapshot | None = None

    def refresh_data(self) -> None:
        """Show the pods of the scope."""
        self.show_health(self.services.health("pods"))
        if self._scope.namespace != self.services.namespace:
            self._point_at(replace(self._scope, namespace=self.services.namespace))
        snapshot = self.services.cluster.snapshot()
        self._age_rows()
        if snapshot is None or snapshot is self._shown:
            return
        changes = snapshot.changes_since(self._shown)
        self._shown = snapshot
        if changes is None:
            self.show_rows(pods.pods_in(snapshot.pods, self._scope, snapshot.workloads))
            return
        changed = ((key, pod) for key in changes.pods if (pod := snapshot.pods.get(key)))
        rows = {key: pod for key, pod in changed if self._scope.holds(pod, snapshot.workloads)}
        self.update_rows(rows.values(), changes.pods - rows.keys())

    def _age_rows(self) -> None:
        now = self.services.clock.monotonic()
        if now - self._aged_at >= AGES_SECONDS:
            self._aged_at = now
            self.table.restyled(None)
            self.table.refresh()
            self.services.ticker.request_paint_in(AGES_SECONDS)

    def show_target(self, of: str) -> None:
        """Show the pods of a node or namespace, by its name, of the run on screen (`run`), of a stage, or all (empty).

        `job` is the watched job; `Deployment/NAMESPACE/NAME` is a workload.

        Raises:
            MissingError: It is none of these.
        """
        run = self.services.runs.view
        if run is not None and of == "run":
            self._scope = PodScope(run=run.id)
        elif of == "job" and self.services.watched is not None:
            self._scope = PodScope(job=self.services.watched.job)
        elif run is not None and of in {stage.id for stage in run.stages}:
            self._scope = PodScope(run=run.id, stage=of)
        elif of in self._namespaces():
            self._scope = PodScope()
            self.services.narrow(of)
        else:
            owner = of.split("/")
            is_owner = len(owner) == _OWNER_WORDS
            self._scope = PodScope(owner=PodOwner(*owner)) if is_owner else PodScope(node=self._node(of))
        self._point_at(replace(self._scope, namespace=self.services.namespace))
        self.refresh_data()

    def _namespaces(self) -> set[str]:
        snapshot = self.services.cluster.snapshot()
        return {pod.namespace for pod in snapshot.pods.values()} if snapshot is not None else set()

    def _node(self, name: str) -> str:
        """Return the whole name of a node, which may be written without its domain.

        Raises:
            MissingError: There is none of that name.
        """
        snapshot = self.services.cluster.snapshot()
        if not name or snapshot is None or not snapshot.nodes:
            return name
        found = next((node for node in snapshot.nodes if node == name or node.startswith(f"{name}.")), None)
        if found is None:
            raise MissingError(
                f"There is no node {name!r}.", hint="Write a node, namespace, stage of the run, run or job."
            )
        return found

    def _point_at(self, scope: PodScope) -> None:
        self._scope, self._shown = scope, None
        self.retitle(scope.title())

    def subject(self) -> Subject | None:
        """Return the pod under the cursor."""
        pod = self.table.selected_row
        return None if pod is None else Subject("Pod", pod.name, pod.namespace)

    def marked(self) -> tuple[Subject, ...]:
        """Return the marked pods."""
        return tuple(Subject("Pod", pod.name, pod.namespace, uid=pod.uid) for pod in self.table.marked_rows)

    def line_of(self, row: PodFacts) -> str:
        """Return the command that opens the pod's log."""
        return f"logs {row.key}"
