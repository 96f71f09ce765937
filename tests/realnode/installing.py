"""Operators that no blueprint installs, put into the cluster as their releases say."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import yaml

from tests.realnode.harness.sources import fill_mirror
from tests.realnode.harness.today import TODAYS_OPERATORS, karpenter
from tests.realnode.playing import operators_by_name
from tests.realnode.running import real_nodes
from tests.realnode.support import Document, get, kubectl, until

_FIRST = ("Namespace", "CustomResourceDefinition")
_UNREACHED = "APIService"
"""Kueue's shows positions in a queue; the API server does not reach it here, and then no namespace would end."""
DEPLOYMENTS = {
    "kueue": ("kueue-system", "kueue-controller-manager"),
    "jobset": ("jobset-system", "jobset-controller-manager"),
    "kubeflow-trainer": ("kubeflow-system", "kubeflow-trainer-controller-manager"),
    "lws": ("lws-system", "lws-controller-manager"),
    "karpenter": ("kube-system", "karpenter"),
}
_READY_SECONDS = 180
"""Each has to make its certificates, and to see them mounted."""


def install_all() -> None:
    """Install all of them, each when the one before it is ready."""
    pinned = operators_by_name(Path(real_nodes().mirror))
    for name in ("jobset", "kubeflow-trainer"):
        _install(pinned[name], *DEPLOYMENTS[name])
    for each in TODAYS_OPERATORS:
        _install(each.manifests(), *DEPLOYMENTS[each.name])
    _install(karpenter(), *DEPLOYMENTS["karpenter"])


@contextmanager
def running_volcano(scratch: Path) -> Iterator[None]:
    """Run Volcano from the manifest of its release while the context is entered."""
    manifest = next(str(path) for path in fill_mirror(scratch) if path.parent.parent.name == "volcano")
    kubectl("apply", "--server-side", "-f", manifest)
    try:
        kubectl("wait", "deployments", "--all", "-n", "volcano-system", "--for=condition=Available", "--timeout=80s")
        until(lambda: _is_open("default"), "the default queue")
        yield
    finally:
        kubectl("delete", "-f", manifest, "--timeout=80s")


def _is_open(queue: str) -> bool:
    return any(
        one["metadata"]["name"] == queue and one.get("status", {}).get("state") == "Open"
        for one in get("queues.scheduling.volcano.sh")["items"]
    )


def _install(documents: Sequence[Document], namespace: str, deployment: str) -> None:
    first = [one for one in documents if one["kind"] in _FIRST]
    _apply(first)
    names = {one["metadata"]["name"] for one in first if one["kind"] == "CustomResourceDefinition"}
    until(lambda: names <= _established(), f"the definitions of {deployment}")
    _apply([one for one in documents if one["kind"] not in (*_FIRST, _UNREACHED)])
    kubectl(
        "-n", namespace, "rollout", "status", f"deployment/{deployment}", f"--timeout={_READY_SECONDS}s", seconds=200
    )
    webhooks = [one["metadata"]["name"] for one in documents if one["kind"] == "ValidatingWebhookConfiguration"]
    until(lambda: all(_has_authority(one) for one in webhooks), f"the authority of {deployment}'s webhooks")


def _apply(documents: list[Document]) -> None:
    kubectl("apply", "--server-side", "-f", "-", given=yaml.safe_dump_all(documents))


def _has_authority(configuration: str) -> bool:
    webhooks = get("validatingwebhookconfiguration", configuration)["webhooks"]
    return all(one["clientConfig"].get("caBundle") for one in webhooks)


def _established() -> set[str]:
    """The names of the definitions that are served."""
    found = get("crds")["items"]
    return {
        one["metadata"]["name"]
        for one in found
        if any(
            told["type"] == "Established" and told["status"] == "True" for told in one["status"].get("conditions") or ()
        )
    }
