"""`kubectl` accepts the manifests of every blueprint as they stand, strictly, on the sandbox and on a real server.

The real one has the operators' own definitions of their resources where those are at hand.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from actions.base.files import asset, shipped_blueprints
from tests.flow.kubectl import Kubectl, a_cluster, a_real_cluster
from tests.realcluster.running import KINDS
from tests.support.definitions import recorded_definitions
from tests.support.missing import needs

pytestmark = needs("kubectl")
_MIRROR = ("training-operator/1.8.1", "mpi-operator/0.8.0", "kuberay/1.1.1", "volcano/1.15.1")
_FILES = sorted(shipped_blueprints().glob("*/manifests/*.yaml"))


@pytest.mark.parametrize("kind", KINDS)
async def test_every_manifest_is_accepted_as_it_stands(kind: str, tmp_path: Path) -> None:
    async with (a_real_cluster if kind == "real" else a_cluster)(tmp_path) as kubectl:
        if not kubectl.is_real:
            await _install_operators(kubectl)
        await _define_pod_monitors(kubectl, tmp_path)
        objects = {file: list(yaml.safe_load_all(file.read_text())) for file in _FILES}
        own = {file for file, found in objects.items() if any(item["kind"] == "Namespace" for item in found)}
        for file in own:  # those of operators, which need not be there
            for item in objects[file]:
                if item["kind"] == "Namespace":
                    await kubectl("create", "namespace", item["metadata"]["name"])
        for where, files in (((), own), (("-n", "default"), objects.keys() - own)):
            named = [f"--filename={file}" for file in sorted(files)]
            accepted = await kubectl.ok("apply", "--dry-run=server", "--validate=strict", *where, *named)
            assert accepted.count("(server dry run)") == sum(len(objects[file]) for file in files)


async def _install_operators(kubectl: Kubectl) -> None:
    for release in _MIRROR:
        await kubectl.ok("apply", "--server-side", "-f", str(asset(f"mirror/{release}/manifest.yaml")))
    await kubectl.ok("wait", "--for=condition=Established", "crd", "--all", "--timeout=240s")


async def _define_pod_monitors(kubectl: Kubectl, folder: Path) -> None:
    file = folder / "podmonitors.json"
    (definition,) = recorded_definitions("prometheus-operator-0.93.0-podmonitors")
    file.write_text(json.dumps(definition))
    await kubectl.ok("apply", "--server-side", "-f", str(file))
    await kubectl.ok("wait", "--for=condition=Established", f"crd/{definition['metadata']['name']}", "--timeout=240s")
