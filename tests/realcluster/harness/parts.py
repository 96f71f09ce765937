"""The programs of the control plane: which pinned Go module each comes from, and how it is built."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parents[1]
BUILD = HERE / "build"
VERSION = "1.34.4"
"""Of Kubernetes."""
_COMPONENT = "k8s.io/component-base/version"
_SERVERS = ("kube-apiserver", "kube-controller-manager", "kube-scheduler")
STAMPED = f"-X {_COMPONENT}.gitVersion=v{VERSION} -X {_COMPONENT}.gitMajor=1 -X {_COMPONENT}.gitMinor=34"


@dataclass(frozen=True, slots=True)
class Part:
    """One `go build`: the module folder below `root`, and file name → package of what it makes."""

    module: str
    programs: dict[str, str]
    link_flags: str = ""
    stamp: str = ""
    """Its name, where several parts share a module folder."""
    root: Path = HERE

    @property
    def name(self) -> str:
        """The name by which it is said to be built."""
        return self.stamp or self.module

    @property
    def folder(self) -> Path:
        """The folder of its go.mod."""
        return self.root / self.module

    def fingerprint(self) -> str:
        """Changes when what would be built changes."""
        digest = hashlib.sha256(repr((self.programs, self.link_flags)).encode())
        for path in sorted(path for path in self.folder.rglob("*") if path.is_file()):
            digest.update(path.read_bytes())
        return digest.hexdigest()


PARTS = (
    Part("certificates", {"certificates": "realcluster/certificates"}),
    Part("gate", {"gate": "realcluster/gate"}),
    Part("etcd", {"etcd": "go.etcd.io/etcd/server/v3"}),
    Part("kubernetes", {name: f"k8s.io/kubernetes/cmd/{name}" for name in _SERVERS}, STAMPED),
    Part("kwok", {"kwok": "sigs.k8s.io/kwok/cmd/kwok"}),
    Part("training-operator", {"training-operator": "github.com/kubeflow/training-operator/cmd/training-operator.v1"}),
)
CRD_FOLDERS = (
    ("training-operator", "github.com/kubeflow/training-operator", "manifests/base/crds"),
    ("karpenter", "sigs.k8s.io/karpenter", "pkg/apis/crds"),
    ("karpenter", "github.com/aws/karpenter-provider-aws", "pkg/apis/crds"),
)
"""Module folder, module, and where its CRDs are."""


def has_go() -> bool:
    """Return whether anything can be built."""
    return shutil.which("go") is not None


def build_all(parts: Sequence[Part] = PARTS) -> list[str]:
    """Build what is out of date.

    Returns:
        The names of the parts that were built.

    Raises:
        subprocess.CalledProcessError: A build failed; the compiler has said why on stderr.
    """
    BUILD.mkdir(exist_ok=True)
    built = [part.name for part in parts if _build(part)]
    for folder, module, _ in CRD_FOLDERS:
        _go(HERE / folder, "mod", "download", module)
    return built


def module_folder(folder: str | Path, module: str) -> Path:
    """Return the folder of a module that the go.mod in `folder` pins, as Go keeps it; fetched if need be."""
    _go(HERE / folder, "mod", "download", module)
    answer = _go(HERE / folder, "list", "-m", "-f", "{{.Dir}}", module)
    return Path(answer.strip())


def program(name: str) -> str:
    """The path of a program that has been built."""
    return str(BUILD / name)


def _build(part: Part) -> bool:
    stamp, fingerprint = BUILD / f"{part.name}.stamp", part.fingerprint()
    is_there = all((BUILD / name).exists() for name in part.programs)
    if is_there and stamp.exists() and stamp.read_text(encoding="ascii") == fingerprint:
        return False
    for name, package in part.programs.items():
        flags = f"-s -w {part.link_flags}".strip()
        _go(part.folder, "build", "-mod=readonly", "-ldflags", flags, "-o", program(name), package)
    stamp.write_text(fingerprint, encoding="ascii")
    return True


def _go(folder: Path, *arguments: str) -> str:
    """Run Go, politely: it shares the machine with what is being worked on."""
    argv: Sequence[str] = ("nice", "-n", "10", "go", *arguments)
    environment = {**os.environ, "GOTOOLCHAIN": "local", "CGO_ENABLED": "0"}
    return subprocess.run(argv, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True, check=True).stdout
