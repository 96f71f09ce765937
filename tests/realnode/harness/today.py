"""The operators that no blueprint installs: their manifests, by kustomize where they have one, and their images."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.realcluster.harness.parts import module_folder, program
from tests.realnode.harness.operators import OperatorImage
from tests.realnode.harness.parts import HERE


@dataclass(frozen=True, slots=True)
class TodaysOperator:
    """An operator, and the place of its kustomization."""

    name: str
    """Of its part, and of its program."""
    module: str
    tree: str
    """The folder of the module that has all that is named by the kustomization."""
    overlay: str
    """The folder of the kustomization, below the tree."""
    image: str
    """Of the release."""
    image_there: str
    """As the kustomization has it."""

    def manifests(self) -> list[dict[str, Any]]:
        """Return all its objects, in the order in which they can be made."""
        source = module_folder(HERE / self.name, self.module) / self.tree
        with tempfile.TemporaryDirectory(prefix="kustomize-") as scratch:  # "@" in a path is a host to kustomize
            tree = Path(scratch) / "tree"
            for path in source.rglob("*.yaml"):
                target = tree / path.relative_to(source)
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, target)
            argv = [program("kubectl"), "kustomize", str(tree / self.overlay)]
            made = subprocess.run(argv, check=True, capture_output=True, text=True).stdout
        return list(yaml.safe_load_all(made.replace(self.image_there, self.image)))


_STAGING = "us-central1-docker.pkg.dev/k8s-staging-images"
TODAYS_OPERATORS = (
    TodaysOperator(
        "kueue",
        "sigs.k8s.io/kueue",
        tree="config",
        overlay="default",
        image="registry.k8s.io/kueue/kueue:v0.17.0",
        image_there=f"{_STAGING}/kueue/kueue:main",
    ),
    TodaysOperator(
        "lws",
        "sigs.k8s.io/lws",
        tree="config",
        overlay="default",
        image="registry.k8s.io/lws/lws:v0.6.2",
        image_there=f"{_STAGING}/lws/lws:main",
    ),
)
IMAGES_OF_TODAY = (
    *(OperatorImage(each.image, each.name, "/manager", user="65532:65532") for each in TODAYS_OPERATORS),
    OperatorImage("docker.io/realnode/karpenter:v1.14.0", "karpenter", "/karpenter", user="65532:65532"),
)


def karpenter() -> list[dict[str, Any]]:
    """Return the objects of Karpenter's kwok provider; its definitions of pools and claims are there."""
    source = module_folder(HERE / "karpenter", "sigs.k8s.io/karpenter") / "kwok"
    definitions = [path.read_text(encoding="utf-8") for path in sorted((source / "apis" / "crds").glob("*.yaml"))]
    templates = [
        source / "charts" / "templates" / f"{name}.yaml" for name in ("clusterrole", "clusterrole-kwok", "role")
    ]
    rules = [rule for path in templates for one in _without_helm(path) for rule in one.get("rules", ())]
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": "karpenter"},
        "rules": rules,
    }
    manifest = (HERE / "manifests" / "karpenter.yaml").read_text(encoding="utf-8")
    return [*(yaml.safe_load(text) for text in definitions), role, *yaml.safe_load_all(manifest)]


def _without_helm(template: Path) -> list[dict[str, Any]]:
    lines = template.read_text(encoding="utf-8").splitlines()
    return list(yaml.safe_load_all("\n".join(line for line in lines if "{{" not in line)))
