"""The surroundings of a container's programs, from the pod's manifest; and the rule by which they are started again."""

from __future__ import annotations

from collections.abc import Mapping

from actions.base.clock import Clock
from actions.sandbox.kubelet.container import ContainerRun
from actions.sandbox.kubelet.node_resources import NodeResources
from actions.sandbox.kubelet.pod_config import PodConfig
from actions.sandbox.programs.files import FileView, MemoryVolume
from actions.sandbox.programs.program import ContainerView, ProcessContext

_FOLDERS = ("/root", "/tmp", "/var/log", "/workspace")  # noqa: S108 - paths in the pretended container


def process_context(
    container: ContainerRun,
    pod: PodConfig,
    *,
    volumes: Mapping[str, MemoryVolume],
    node_resources: NodeResources,
    clock: Clock,
    seed: int,
) -> ProcessContext:
    """Return the context of a container that is about to start; takes its accelerators when it has none yet.

    Args:
        container: Which one.
        pod: Its pod.
        volumes: The pod's volumes by name, as far as they are mounted.
        node_resources: What its node has.
        clock: What its processes read.
        seed: Of its losses, readings and names.
    """
    if container.spec.gpus and not container.gpus:
        container.gpus = node_resources.take_devices(pod.node, container.spec.gpus, pod.uid)
    if container.spec.neurons and not container.neurons:
        container.neurons = node_resources.take_devices(pod.node, container.spec.neurons, pod.uid)
    mounts = {point: volumes[name] for point, name in container.spec.mounts.items() if name in volumes}
    files = FileView(mounts)
    for folder in _FOLDERS:
        files.make_folder(folder)
    seen = ContainerView(
        namespace=pod.namespace,
        pod=pod.name,
        name=container.spec.name,
        image=container.spec.image,
        argv=container.spec.argv,
        environment={**container.spec.environment, **container.variables},
        files=files,
        gpus=container.gpus,
        neurons=container.neurons,
        efa_interfaces=container.spec.efa_interfaces,
        instance_type=node_resources.instance_type(pod.node),
        restarts=container.restarts,
        stays=pod.restart_policy == "Always" and not container.is_init,
        started_at=clock.now().timestamp(),
        seed=seed,
        network=node_resources.network,
        accelerator_users=lambda: node_resources.accelerator_users(pod.node, clock.now().timestamp()),
    )
    if container.gpus or container.neurons:
        node_resources.keep_user(pod.node, pod.uid, seen, lambda: container.load)
    return ProcessContext(
        seen,
        lambda: container.load,
        lambda: clock.now().timestamp(),
        busy_seconds=lambda: container.busy_at(clock.now().timestamp()),
        folder=container.spec.working_folder,
    )


def restarts_after(pod: PodConfig, container: ContainerRun, code: int) -> bool:
    """Return whether the pod's restart policy restarts a container that ended with `code`."""
    match pod.restart_policy:
        case "Always":
            return code != 0 or not container.is_init
        case "OnFailure":
            return code != 0
    return False
