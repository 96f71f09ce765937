"""The recorded CRDs of operators: `tests/fixtures/crds`."""

from __future__ import annotations

import json
import lzma
from pathlib import Path
from typing import Any

_FOLDER = Path(__file__).resolve().parents[1] / "fixtures" / "crds"


def recorded_definitions(release: str) -> list[dict[str, Any]]:
    """Every CRD that an operator's release ships.

    Args:
        release: Operator and version, such as `kuberay-1.1.1`.
    """
    found: list[dict[str, Any]] = json.loads(lzma.decompress((_FOLDER / f"{release}.json.xz").read_bytes()))
    return found
