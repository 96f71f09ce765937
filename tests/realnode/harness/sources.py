"""The releases of operators that blueprints pin, out of Go's modules: a mirror as `eksml-tui mirror` fills it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from actions.base.clock import SystemClock
from actions.blueprint.catalogue import Catalogue
from actions.blueprint.mirror import Mirror, pinned_operators
from actions.blueprint.stages import Source
from tests.realcluster.harness.parts import HERE as REALCLUSTER
from tests.realcluster.harness.parts import module_folder
from tests.realnode.harness.parts import HERE as REALNODE


@dataclass(frozen=True, slots=True)
class _Place:
    """The files behind the address of a release."""

    pinned_by: Path
    """The folder of the go.mod."""
    module: str
    below: str
    """In the module: the file or the folder that the address names."""


_PLACES = {
    "jobset": _Place(REALNODE / "jobset", "sigs.k8s.io/jobset", "config/components"),
    "kubeflow-trainer": _Place(REALNODE / "trainer", "github.com/kubeflow/trainer/v2", "manifests"),
    "kuberay": _Place(REALNODE / "kuberay", "github.com/ray-project/kuberay/ray-operator", "config"),
    "mpi-operator": _Place(
        REALNODE / "mpi-operator", "github.com/kubeflow/mpi-operator", "deploy/v2beta1/mpi-operator.yaml"
    ),
    "training-operator": _Place(
        REALCLUSTER / "training-operator", "github.com/kubeflow/training-operator", "manifests/base"
    ),
    "volcano": _Place(REALNODE / "volcano", "volcano.sh/volcano", "installer/volcano-development.yaml"),
}


def operator_sources() -> Iterator[Source]:
    """Every operator that a shipped blueprint pins and that runs here, once."""
    return (one.source for one in pinned_operators(Catalogue.usual([]).list()) if one.source.name in _PLACES)


def fill_mirror(folder: Path) -> list[Path]:
    """Put the real manifests into a mirror: `~/.config/eksml-tui/mirror` of whoever is to launch with them.

    Returns:
        Their files.

    Raises:
        ConflictError: One is not what the blueprint records.
    """
    mirror, clock = Mirror(folder), SystemClock()
    for source in operator_sources():
        place = _PLACES[source.name]
        origin = module_folder(place.pinned_by, place.module) / place.below
        if source.files:
            files = {file: (origin / file).read_bytes() for file in source.files}
            mirror.take_files(source, files, origin=str(origin), clock=clock)
        else:
            mirror.take(source, origin.read_bytes(), origin=str(origin), by_hand=False, clock=clock)
    return [mirror.path_of(source) for source in operator_sources()]
