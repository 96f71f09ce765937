"""The images of the operators: the built programs, where manifests and original Dockerfiles expect them.

Volcano's manifest pulls its images always: a node that has them still asks their registry, here by its name docker.io.
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.realcluster.harness.parts import module_folder, program
from tests.realnode.harness.images import Image, layer_of
from tests.realnode.harness.parts import HERE

_SCRIPT = "installer/dockerfile/webhook-manager/gen-admission-secret.sh"


@dataclass(frozen=True, slots=True)
class OperatorImage:
    """An image around one program."""

    name: str
    """In full, as the manifest names it once registry and tag are added."""
    program: str
    """The file of the build."""
    path: str
    """In the image; also what it starts."""
    user: str = ""
    """Of the Dockerfile; empty for root. A manifest may name another."""
    environment: Mapping[str, str] = field(default_factory=dict)
    has_certificate_script: bool = False
    """With what Volcano's Job needs to make a certificate: its script, openssl, kubectl, and a shell."""

    def files(self) -> dict[str, Path]:
        """Return its contents, by path in the image."""
        return {self.path: Path(program(self.program)), **(_certificate_files() if self.has_certificate_script else {})}


OPERATORS = (
    OperatorImage("docker.io/kubeflow/training-operator:v1-04f9f13", "training-operator", "/manager"),
    OperatorImage("docker.io/mpioperator/mpi-operator:0.8.0", "mpi-operator", "/opt/mpi-operator"),
    OperatorImage("quay.io/kuberay/operator:v1.1.1", "kuberay-operator", "/manager", user="65532:65532"),
    OperatorImage("docker.io/volcanosh/vc-scheduler:v1.15.1", "vc-scheduler", "/vc-scheduler"),
    OperatorImage(
        "docker.io/volcanosh/vc-controller-manager:v1.15.1", "vc-controller-manager", "/vc-controller-manager"
    ),
    OperatorImage(
        "docker.io/volcanosh/vc-webhook-manager:v1.15.1",
        "vc-webhook-manager",
        "/vc-webhook-manager",
        has_certificate_script=True,
    ),
    OperatorImage("registry.k8s.io/jobset/jobset:v0.12.0", "jobset", "/manager", user="65532:65532"),
    OperatorImage(
        "ghcr.io/kubeflow/trainer/trainer-controller-manager:v2.3.0", "trainer", "/manager", user="65532:65532"
    ),
)
"""Of the operators that blueprints install, at the versions that they pin."""
_SHELL_LINKS = {f"/bin/{name}": "busybox" for name in ("base64", "cat", "sh", "tr")}
"""The script is for busybox's shell: Debian's does not know its conditions."""


def operator_images(base: Path, layers: Path, operators: Sequence[OperatorImage] = OPERATORS) -> list[Image]:
    """Make the layers of operators' images.

    Args:
        base: The layer below: busybox.
        layers: The folder for the tars.
        operators: Which ones; those of `today.IMAGES_OF_TODAY` as well.
    """
    return [_image(each, base, layers) for each in operators]


def _image(each: OperatorImage, base: Path, layers: Path) -> Image:
    links = _SHELL_LINKS if each.has_certificate_script else {}
    layer = layer_of(each.files(), layers / f"{each.program}.tar", links=links, folders={"/tmp": 0o1777})
    return Image((each.name,), (base, layer), (each.path,), each.environment, each.user)


def _certificate_files() -> dict[str, Path]:
    script = module_folder(HERE / "volcano", "volcano.sh/volcano") / _SCRIPT
    files = {"/gen-admission-secret.sh": script, "/usr/local/bin/kubectl": Path(program("kubectl"))}
    return (
        files | _with_libraries(Path("/usr/bin/openssl")) | {"/usr/lib/ssl/openssl.cnf": Path("/etc/ssl/openssl.cnf")}
    )


def _with_libraries(path: Path) -> dict[str, Path]:
    """A program of this machine and the libraries that it is linked with, each in its place."""
    linked = subprocess.run(["ldd", str(path)], check=True, capture_output=True, text=True).stdout.split()
    return {name: Path(name).resolve() for name in (str(path), *linked) if name.startswith("/")}
