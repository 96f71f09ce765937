"""`kubectl` accepts the manifests of every blueprint as they stand, strictly, on the sandbox and on a real server.

The real one has the operators' own definitions of their resources where those are at hand.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from actions.base.files import asset, shipped_blueprints
from tests.flow.kubectl import Kubectl, a_cluster, a_real_cluster
from tests.realcluster.running import KINDS
from tests.support.definitions import recorded_definitions
from tests.support.missing import needs
from tests.support.polling import until

pytestmark = needs("kubectl")
_MIRROR = ("training-operator/1.8.1", "mpi-operator/0.8.0", "kuberay/1.1.1", "volcano/1.15.1")
_FILES = sorted(shipped_blueprints().glob("*/manifests/*.yaml"))


@pytest.mark.parametrize("kind", KINDS)
async def test_every_manifest_is_accepted_as_it_stands(kind: str, tmp_path: Path) -> None:
    async with (a_real_cluster if kind == "real" else a_cluster)(tmp_path) as kubectl:
        if not kubectl.is_real:
            await _install_operators(kubectl)
        await _define(kubectl, tmp_path)
        objects = {file: list(yaml.safe_load_all(file.read_text())) for file in _FILES}
        spaces = {file: {name for item in found if (name := _own_namespace(item))} for file, found in objects.items()}
        own = {file for file, names in spaces.items() if names}
        for name in sorted(
            {name for names in spaces.values() for name in names}
        ):  # of operators, which need not be there
            await kubectl("create", "namespace", name)
        for where, files in (((), own), (("-n", "default"), objects.keys() - own)):
            named = [f"--filename={file}" for file in sorted(files)]
            accepted = await kubectl.ok("apply", "--dry-run=server", "--validate=strict", *where, *named)
            assert accepted.count("(server dry run)") == sum(len(objects[file]) for file in files)


async def _install_operators(kubectl: Kubectl) -> None:
    for release in _MIRROR:
        await kubectl.ok("apply", "--server-side", "-f", str(asset(f"mirror/{release}/manifest.yaml")))
    await kubectl.ok("wait", "--for=condition=Established", "crd", "--all", "--timeout=240s")


def _own_namespace(item: dict[str, Any]) -> str:
    """Return the namespace that an object makes or names, else an empty text."""
    metadata: dict[str, str] = item["metadata"]
    return metadata["name"] if item["kind"] == "Namespace" else metadata.get("namespace", "")


async def _is_established(kubectl: Kubectl, definition: str) -> bool:
    """`kubectl wait` ends with an error where the API server has not written any condition yet."""
    done = await kubectl("wait", "--for=condition=Established", f"crd/{definition}", "--timeout=10s")
    return done.code == 0


async def _define(kubectl: Kubectl, folder: Path) -> None:
    """Apply the recorded definitions of what no operator of the cluster brings."""
    for recording in ("prometheus-operator-0.93.0-podmonitors", "kubeflow-trainer-2.3.0"):
        for definition in recorded_definitions(recording):
            file = folder / f"{definition['metadata']['name']}.json"
            file.write_text(json.dumps(definition))
            await kubectl.ok("apply", "--server-side", "-f", str(file))
            await until(lambda name=file.stem: _is_established(kubectl, name), f"the definition {file.stem}")
