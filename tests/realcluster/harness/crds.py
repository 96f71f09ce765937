"""The definitions of custom resources that the cluster begins with."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from actions.cluster.auth.session import KubeSession
from actions.cluster.objects.client import Discovery
from tests.realcluster.harness.kwok import kwok_definitions
from tests.realcluster.harness.parts import CRD_FOLDERS, module_folder
from tests.realcluster.harness.standins import PLAYED, reduced_definitions
from tests.support.applying import apply_all
from tests.support.definitions import recorded_definitions

_RECORDED = ("kuberay-1.1.1", "mpi-operator-0.8.0", "volcano-1.15.1")
"""Releases of operators that are not built here."""
_NOT_WANTED = frozenset({"mpijobs.kubeflow.org"})
"""The training-operator's own, in favour of the mpi-operator's."""


async def install_definitions(session: KubeSession) -> int:
    """Install them and wait until they are served. Returns how many there are."""
    found = {definition["metadata"]["name"]: definition for definition in _definitions()}
    await apply_all(session, Discovery(session), found.values())
    return len(found)


def _definitions() -> Iterator[dict[str, Any]]:
    """Of one name, the last wins: of those operators that are not built here, the recorded ones."""
    for release in PLAYED:
        yield from reduced_definitions(release)
    for folder, module, below in CRD_FOLDERS:
        for path in sorted((module_folder(folder, module) / below).glob("*_*.yaml")):
            yield from (one for one in _read(path) if one["metadata"]["name"] not in _NOT_WANTED)
    for release in _RECORDED:
        yield from recorded_definitions(release)
    for path in kwok_definitions():
        yield from _read(path)


def _read(path: Path) -> list[dict[str, Any]]:
    documents = yaml.load_all(path.read_bytes(), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    return [one for one in documents if one and one.get("kind") == "CustomResourceDefinition"]
