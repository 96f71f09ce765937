"""Certificates of a control plane, and the kubeconfigs that show them."""

from __future__ import annotations

import base64
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from actions.base.files import private_directory, write_private
from tests.realcluster.harness.parts import program

CLUSTER = "arn:aws:eks:us-west-2:111122223333:cluster/bionemo-on-eks"
"""The name of the cluster in contexts, as `aws eks update-kubeconfig` gives it."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """The certificates of one control plane, in files."""

    folder: Path

    @classmethod
    def make(cls, folder: Path, served: Iterable[str] = ()) -> Credentials:
        """Make new ones.

        Args:
            folder: Where to.
            served: Addresses besides the loopback one; as NODE=ADDRESS those of kubelets, which get certificates.
        """
        subprocess.run([program("certificates"), str(private_directory(folder)), *served], check=True)
        return cls(folder)

    def path(self, name: str) -> str:
        """One file of them, e.g. `server.crt`."""
        return str(self.folder / name)

    def write_kubeconfig(self, path: Path, *, user: str, server: str, namespace: str = "default") -> Path:
        """Write a kubeconfig, 0600, in which everything is contained.

        Args:
            path: Where to.
            user: Whose certificate: admin, controller-manager, scheduler, kube-proxy, nobody, or a node.
            server: URL of the API server.
            namespace: Of the context.
        """
        cluster = {"server": server, "certificate-authority-data": self._encoded("ca.crt")}
        identity = {
            "client-certificate-data": self._encoded(f"{user}.crt"),
            "client-key-data": self._encoded(f"{user}.key"),
        }
        document: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": CLUSTER, "cluster": cluster}],
            "users": [{"name": user, "user": identity}],
            "contexts": [{"name": CLUSTER, "context": {"cluster": CLUSTER, "user": user, "namespace": namespace}}],
            "current-context": CLUSTER,
        }
        write_private(path, yaml.safe_dump(document, sort_keys=False).encode())
        return path

    def _encoded(self, name: str) -> str:
        return base64.b64encode((self.folder / name).read_bytes()).decode()
