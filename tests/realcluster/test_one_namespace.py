"""A user who may not read kube-system, on the real API server: it is the same cluster for all."""

from __future__ import annotations

from pathlib import Path

import yaml

from actions.base.files import write_private
from actions.cluster.auth.kubeconfig import ClusterTarget
from actions.cluster.auth.session import KubeSession, are_one_cluster
from tests.realcluster.running import real_cluster


def kubeconfig_as(folder: Path, user: str) -> Path:
    """The administrator's kubeconfig, with which requests are those of somebody else."""
    document = yaml.safe_load(Path(real_cluster().kubeconfig).read_bytes())
    document["users"][0]["user"]["as"] = user
    write_private(folder / "kubeconfig", yaml.safe_dump(document).encode())
    return folder / "kubeconfig"


async def test_an_administrator_and_a_user_without_kube_system_see_the_same_cluster(tmp_path: Path) -> None:
    admin = await KubeSession.connect(ClusterTarget(Path(real_cluster().kubeconfig)))
    user = await KubeSession.connect(ClusterTarget(kubeconfig_as(tmp_path, "alice")))
    try:
        known, found = await admin.cluster_uid(), await user.cluster_uid()
    finally:
        await admin.aclose()
        await user.aclose()
    assert found.startswith(" ")
    assert not known.startswith(" ")
    assert are_one_cluster(known, found)
    assert are_one_cluster(found, known)
    assert not are_one_cluster(f"another{known[known.index(' ') :]}", known)
    assert not are_one_cluster(found, " another-digest")
