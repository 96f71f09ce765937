"""Deployments by which operators show themselves in the cluster, also where their program runs outside it."""

from __future__ import annotations

from typing import Any

import yaml

from actions.base.files import asset
from actions.cluster.auth.session import KubeSession
from actions.cluster.objects.client import Discovery
from tests.support.applying import apply_all

TRAINING_OPERATOR = "training-operator/1.8.1"
PLAYED = ("mpi-operator/0.8.0", "kuberay/1.1.1", "volcano/1.15.1")
"""Those of the demo's mirror that our controllers stand in for."""
_DEFINITION = "CustomResourceDefinition"


def shown(release: str) -> list[dict[str, Any]]:
    """Return the objects that a release of the demo's mirror makes in the cluster, without its CRDs."""
    return [one for one in _manifest(release) if one["kind"] != _DEFINITION]


def reduced_definitions(release: str) -> list[dict[str, Any]]:
    """The CRDs of a release of the demo's mirror."""
    return [one for one in _manifest(release) if one["kind"] == _DEFINITION]


async def show_operators(session: KubeSession) -> None:
    """Install the Deployments of all operators that our controllers stand in for."""
    discovery = Discovery(session)
    for release in PLAYED:
        await apply_all(session, discovery, shown(release))


def _manifest(release: str) -> list[dict[str, Any]]:
    text = asset(f"mirror/{release}/manifest.yaml").read_text(encoding="utf-8")
    return [one for one in yaml.safe_load_all(text) if one]
