"""`kubectl` accepts the manifests of every blueprint as they stand, strictly, on the sandbox and on a real server.

The real one has the operators' own definitions of their resources where those are at hand.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from actions.base.files import asset, shipped_blueprints
from tests.flow.kubectl import Kubectl, a_cluster, a_real_cluster
from tests.realcluster.running import KINDS
from tests.support.missing import needs

pytestmark = needs("kubectl")
_MIRROR = ("training-operator/1.8.1", "mpi-operator/0.6.0", "kuberay/1.1.1", "volcano/1.8.2")
_FOLDERS = sorted(folder for folder in shipped_blueprints().iterdir() if (folder / "manifests").is_dir())


@pytest.mark.parametrize("kind", KINDS)
async def test_every_manifest_is_accepted_as_it_stands(kind: str, tmp_path: Path) -> None:
    async with (a_real_cluster if kind == "real" else a_cluster)(tmp_path) as kubectl:
        if not kubectl.is_real:
            await _install_operators(kubectl)
        refused = {}
        for folder in _FOLDERS:
            argv = ("apply", "--dry-run=server", "--validate=strict", "-n", "default", "-f", str(folder / "manifests"))
            done = await kubectl(*argv)
            if done.code or done.out.count("(server dry run)") < len(list((folder / "manifests").glob("*.yaml"))):
                refused[folder.name] = done.err
        assert _FOLDERS
        assert not refused


async def _install_operators(kubectl: Kubectl) -> None:
    for release in _MIRROR:
        await kubectl.ok("apply", "--server-side", "-f", str(asset(f"mirror/{release}/manifest.yaml")))
    await kubectl.ok("wait", "--for=condition=Established", "crd", "--all", "--timeout=30s")
