"""The images that nodes have: a base, the programs of the add-ons, the operators, the trainer."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

from actions.base.files import private_directory
from tests.realcluster.harness.parts import BUILD, program
from tests.realnode.harness.images import Image, layer_of
from tests.realnode.harness.names import HELPERS, STARTED, TRAINERS
from tests.realnode.harness.node import PAUSE
from tests.realnode.harness.operators import operator_images
from tests.realnode.harness.today import IMAGES_OF_TODAY
from tests.realnode.harness.trainer import FOLDER, TrainerImage

LAYERS = BUILD / "layers"
_BUSYBOX = Path("/bin/busybox")
_APPLETS = subprocess.run([_BUSYBOX, "--list"], check=True, capture_output=True, text=True).stdout.split()
_ADDONS = ("coredns", "csi-driver", "device-plugin")


def all_images() -> Sequence[Image]:
    """Return all of them; their layers are written if they are not there."""
    base = _base()
    return [
        Image(
            (PAUSE, "docker.io/library/busybox:latest", "public.ecr.aws/docker/library/busybox:1.36"),
            (base,),
            ("/bin/sleep", "infinity"),
        ),
        *(_addon(name) for name in _ADDONS),
        *operator_images(base, LAYERS),
        *_trainers(),
    ]


def images_of_today() -> Sequence[Image]:
    """Return those of operators that no blueprint installs."""
    return operator_images(_base(), LAYERS, IMAGES_OF_TODAY)


def _base() -> Path:
    private_directory(LAYERS)
    links = {f"/bin/{name}": "busybox" for name in _APPLETS}
    return layer_of({"/bin/busybox": _BUSYBOX}, LAYERS / "busybox.tar", links=links)


def _trainers() -> list[Image]:
    built = TrainerImage.of(FOLDER)
    layers = (built.root_tar, built.programs_tar)
    started = [Image((name,), layers, entrypoint) for name, entrypoint in STARTED.items()]
    return [Image((*TRAINERS, *HELPERS), layers), *started]


def _addon(name: str) -> Image:
    layer = layer_of({f"/{name}": Path(program(name))}, LAYERS / f"{name}.tar")
    return Image((f"docker.io/realnode/{name}:built",), (layer,), (f"/{name}",))
