"""What a stage handler works with."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from actions.base.clock import Clock
from actions.blueprint.model import Blueprint
from actions.blueprint.parameters import Binding
from actions.blueprint.render import manifests_of, secrets_of
from actions.run.access import ClusterAccess, Connection
from actions.run.handler import StageJournal
from actions.run.secrets import resolve_secret
from actions.run.view import RunView, StageView

CLUSTER_UID = "cluster_uid"
"""The output of a kubeconfig stage that says who the cluster is."""


@dataclass(frozen=True, slots=True)
class StageWork:
    """One stage of one run, with the tools for it."""

    folder: Path
    """The run's."""
    blueprint: Blueprint
    """With the run's preset in place."""
    binding: Binding
    view: RunView
    stage: StageView
    journal: StageJournal
    clock: Clock
    access: ClusterAccess

    @property
    def namespace(self) -> str:
        """Where the run's objects go that name no namespace."""
        return self.view.cluster.namespace

    async def connect(self) -> Connection:
        """The run's cluster, which has to be the one it began with."""
        return await self.access.open(known_cluster_uid(self.view))

    def manifests(self) -> list[dict[str, Any]]:
        """The stage's objects with the run's values and labels, without secrets.

        Raises:
            BlueprintError: They cannot be rendered.
            MissingError: An operator is in no mirror.
        """
        return manifests_of(
            self.blueprint,
            self.stage.id,
            self.binding,
            run_id=self.view.id,
            outputs=self.view.outputs,
            namespace=self.namespace,
        )

    def secrets(self) -> list[dict[str, Any]]:
        """The stage's Secrets. They hold the secrets: apply them, and store them nowhere.

        Raises:
            ConfigError: A reference leads nowhere.
        """
        return secrets_of(
            self.blueprint,
            self.stage.id,
            self.binding,
            run_id=self.view.id,
            resolve=resolve_secret,
            namespace=self.namespace,
        )


def known_cluster_uid(view: RunView) -> str:
    """Who the run's cluster is, as its access stage reported; empty before that."""
    return next((values[CLUSTER_UID] for values in view.outputs.values() if CLUSTER_UID in values), "")
