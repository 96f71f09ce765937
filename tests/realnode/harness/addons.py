"""The add-ons of the cluster: DNS, volumes, devices."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

_FOLDER = Path(__file__).parents[1] / "manifests"
_ORDER = ("admission", "coredns", "volumes", "devices")


def addons() -> list[dict[str, Any]]:
    """Return the objects of all add-ons, in the order in which they are made."""
    texts = [(_FOLDER / f"{name}.yaml").read_text(encoding="utf-8") for name in _ORDER]
    return [one for text in texts for one in yaml.safe_load_all(text)]
