"""The add-ons of the cluster: DNS, volumes, devices."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from tests.realcluster.harness.parts import CRD_FOLDERS, module_folder
from tests.realcluster.harness.parts import HERE as REALCLUSTER

_FOLDER = Path(__file__).parents[1] / "manifests"
_ORDER = ("admission", "coredns", "volumes", "devices")


def addons() -> list[dict[str, Any]]:
    """Return the objects of all add-ons, in the order in which they are made, and the definitions of Karpenter."""
    paths = [_FOLDER / f"{name}.yaml" for name in _ORDER]
    for folder, module, below in CRD_FOLDERS:
        if folder == "karpenter":
            paths += sorted((module_folder(REALCLUSTER / folder, module) / below).glob("*_*.yaml"))
    return [one for path in paths for one in yaml.safe_load_all(path.read_text(encoding="utf-8")) if one]
