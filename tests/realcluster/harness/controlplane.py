"""etcd, the API server, the controller manager and the scheduler, in the order in which they need each other."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from actions.base.errors import ConsoleError
from actions.base.files import private_directory
from actions.cluster.auth.kubeconfig import ClusterTarget
from actions.cluster.auth.session import KubeSession
from tests.realcluster.harness.authenticator import authenticating
from tests.realcluster.harness.credentials import Credentials
from tests.realcluster.harness.parts import program
from tests.realcluster.harness.programs import free_ports, running
from tests.realcluster.harness.supervised import supervised

_ETCD_BYTES = 8 << 30
_AUDIT_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [{"level": "Metadata"}],
}


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The network in which a control plane is reached."""

    nodes: Mapping[str, str] = field(default_factory=dict)
    """The addresses of nodes with a kubelet of their own, by name."""
    address: str = ""
    """By which nodes and pods reach the API server; empty where there are none that do."""

    def served(self) -> list[str]:
        """The addresses for which a certificate is needed."""
        return [*([self.address] if self.address else []), *(f"{name}={at}" for name, at in self.nodes.items())]


_ALONE = Surroundings()


@dataclass(frozen=True, slots=True)
class ControlPlane:
    """One that answers. Kubeconfigs of its own programs lie beside the operator's."""

    folder: Path
    credentials: Credentials
    server: str
    kubeconfig: Path
    etcd: str
    """URL of the store, for those who seed it directly."""

    def kubeconfig_of(self, user: str, *, address: str = "127.0.0.1") -> Path:
        """A kubeconfig for another user than the operator, who finds the API server at an address."""
        server = self.server.replace("127.0.0.1", address)
        return self.credentials.write_kubeconfig(self.folder / f"{user}.kubeconfig", user=user, server=server)


@asynccontextmanager
async def control_plane(folder: Path, surroundings: Surroundings = _ALONE) -> AsyncIterator[ControlPlane]:
    """Run one until the context is left. It is complete when entered: pods can be created and will be scheduled.

    Raises:
        ToolError: One of its programs ended.
        UnreachableError: One of them did not become ready.
    """
    logs = private_directory(folder / "logs")
    async with AsyncExitStack() as stack:
        plane = await stack.enter_async_context(api_server(folder, surroundings))
        managers = running(_controller_manager(plane), name="controller-manager", logs=logs)
        manager = await stack.enter_async_context(managers)
        await stack.enter_async_context(running(_scheduler(plane), name="scheduler", logs=logs))
        session = await KubeSession.connect(ClusterTarget(plane.kubeconfig))
        stack.push_async_callback(session.aclose)
        account = "/api/v1/namespaces/default/serviceaccounts/default"
        await manager.until(lambda: _answers(session, account), "the first service account")
        yield plane


@asynccontextmanager
async def api_server(folder: Path, surroundings: Surroundings = _ALONE) -> AsyncIterator[ControlPlane]:
    """Run a store and an API server alone until the context is left: nothing happens there by itself.

    Raises:
        ToolError: One of its programs ended.
        UnreachableError: One of them did not become ready.
    """
    logs = private_directory(folder / "logs")
    credentials = Credentials.make(folder / "pki", surroundings.served())
    client_port, peer_port, server_port = free_ports(3)
    plane = ControlPlane(
        folder,
        credentials,
        f"https://127.0.0.1:{server_port}",
        credentials.write_kubeconfig(folder / "kubeconfig", user="admin", server=f"https://127.0.0.1:{server_port}"),
        f"http://127.0.0.1:{client_port}",
    )
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(running(_etcd(plane, peer_port), name="etcd", logs=logs))
        webhook = await stack.enter_async_context(authenticating(folder / "authenticator.kubeconfig"))
        argv = [*_api_server(plane, server_port, webhook), *_reached_by_pods(surroundings.address)]
        server = await stack.enter_async_context(supervised(argv, name="api-server", folder=logs))
        session = await KubeSession.connect(ClusterTarget(plane.kubeconfig))
        stack.push_async_callback(session.aclose)
        await server.until(lambda: _answers(session, "/readyz"), "an answer of the API server")
        yield plane


async def _answers(session: KubeSession, path: str) -> bool:
    try:
        await session.request("GET", path)
    except ConsoleError:
        return False
    return True


def _etcd(plane: ControlPlane, peer_port: int) -> list[str]:
    peer = f"http://127.0.0.1:{peer_port}"
    return [
        program("etcd"),
        f"--data-dir={plane.folder / 'etcd'}",
        f"--listen-client-urls={plane.etcd}",
        f"--advertise-client-urls={plane.etcd}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=default={peer}",
        "--unsafe-no-fsync",
        f"--quota-backend-bytes={_ETCD_BYTES}",
        "--max-txn-ops=2000",
        f"--max-request-bytes={32 << 20}",
        "--log-level=warn",
    ]


def _api_server(plane: ControlPlane, port: int, authenticator: Path) -> list[str]:
    of = plane.credentials.path
    policy = plane.folder / "audit-policy.yaml"
    policy.write_text(yaml.safe_dump(_AUDIT_POLICY), encoding="utf-8")
    return [
        program("kube-apiserver"),
        f"--etcd-servers={plane.etcd}",
        f"--secure-port={port}",
        f"--tls-cert-file={of('server.crt')}",
        f"--tls-private-key-file={of('server.key')}",
        f"--client-ca-file={of('ca.crt')}",
        f"--kubelet-certificate-authority={of('ca.crt')}",
        f"--kubelet-client-certificate={of('kubelet-client.crt')}",
        f"--kubelet-client-key={of('kubelet-client.key')}",
        "--kubelet-preferred-address-types=InternalIP",
        f"--service-account-key-file={of('service-accounts.pub')}",
        f"--service-account-signing-key-file={of('service-accounts.key')}",
        "--service-account-issuer=https://kubernetes.default.svc",
        "--allow-privileged=true",  # as on EKS, whose device plugins and monitors need it
        "--service-cluster-ip-range=10.96.0.0/16",
        "--enable-admission-plugins=ExtendedResourceToleration,NodeRestriction",
        "--authorization-mode=Node,RBAC",
        f"--authentication-token-webhook-config-file={authenticator}",
        "--anonymous-auth=false",
        "--storage-media-type=application/json",
        f"--audit-policy-file={policy}",
        f"--audit-log-path={plane.folder / 'audit.log'}",
    ]


def _reached_by_pods(address: str) -> list[str]:
    """Without an address, the service `kubernetes` has no endpoint, and services are nobody's."""
    if not address:
        return ["--bind-address=127.0.0.1", "--advertise-address=127.0.0.1", "--endpoint-reconciler-type=none"]
    return [
        "--bind-address=0.0.0.0",
        f"--advertise-address={address}",
        "--enable-aggregator-routing",  # webhooks are called at their pods: no kube-proxy is beside the API server
        "--feature-gates=MutatingAdmissionPolicy=true",
        "--runtime-config=admissionregistration.k8s.io/v1beta1=true",
    ]


def _controller_manager(plane: ControlPlane) -> list[str]:
    of = plane.credentials.path
    return [
        program("kube-controller-manager"),
        f"--kubeconfig={plane.kubeconfig_of('controller-manager')}",
        "--leader-elect=false",
        "--secure-port=0",
        "--use-service-account-credentials",
        f"--service-account-private-key-file={of('service-accounts.key')}",
        f"--root-ca-file={of('ca.crt')}",
    ]


def _scheduler(plane: ControlPlane) -> list[str]:
    return [
        program("kube-scheduler"),
        f"--kubeconfig={plane.kubeconfig_of('scheduler')}",
        "--leader-elect=false",
        "--secure-port=0",
    ]
