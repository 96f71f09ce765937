"""The exporters of the embedded cluster: pages of a node's devices, with the pods that have them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from msgspec.structs import replace

from actions.sandbox.kubelet.images import program_of
from actions.sandbox.programs.network import HttpService
from actions.sandbox.programs.program import AcceleratorUsers, ContainerView, DeviceUse, GpuLoad, NeuronLoad
from tests.unit.sandbox.programs.containers import MOMENT, a_container, context

DCGM = "nvcr.io/nvidia/k8s/dcgm-exporter:4.5.3-4.8.2-distroless"
NEURON = "public.ecr.aws/neuron/neuron-monitor:1.3.0"


def an_exporter(image: str, instance_type: str, *users: DeviceUse, argv: tuple[str, ...] = ()) -> ContainerView:
    container = a_container("exporter-x", argv, gpus=(), stays=True, NODE_NAME="node-1")
    return replace(
        container, image=image, instance_type=instance_type, accelerator_users=lambda: AcceleratorUsers(MOMENT, users)
    )


@contextmanager
def started(container: ContainerView, port: int) -> Iterator[HttpService]:
    program = program_of(context(container))
    next(program)
    service = container.network.find(f"default/{container.pod}", port)
    assert service is not None
    yield service
    program.close()


def values(page: bytes, metric: str) -> dict[str, float]:
    """The values of a metric by the device's or core's number."""
    found = re.findall(rf'^{metric}{{[^}}]*(?:gpu|neuroncore)="(\d+)"[^}}]*}} (\S+)$', page.decode(), re.MULTILINE)
    return {number: float(value) for number, value in found}


def test_every_gpu_of_the_node_is_exported_and_names_the_pod_that_has_it() -> None:
    worker = replace(a_container("worker-0", gpus=(1, 2)), instance_type="g5.12xlarge")
    with started(an_exporter(DCGM, "g5.12xlarge", DeviceUse(worker, GpuLoad(98, 9000))), 9400) as service:
        assert service.answer("GET", "/health", b"").status == 200
        page = service.answer("GET", "/metrics", b"")
    assert page.content_type.startswith("text/plain; version=0.0.4")
    load = values(page.body, "DCGM_FI_DEV_GPU_UTIL")
    assert list(load) == ["0", "1", "2", "3"]
    assert (load["0"], load["3"], min(load["1"], load["2"]) > 90) == (0, 0, True)
    assert values(page.body, "DCGM_FI_DEV_FB_USED")["2"] == 9000
    lines = [line for line in page.body.decode().splitlines() if line.startswith("DCGM_FI_DEV_GPU_TEMP{")]
    assert ['pod="worker-0"' in line for line in lines] == [False, True, True, False]
    assert 'Hostname="node-1"' in lines[0]


def test_the_neuron_exporter_has_the_cores_that_runtimes_hold() -> None:
    worker = replace(a_container("worker-0", gpus=()), neurons=(0, 1), instance_type="trn1.32xlarge")
    words = ("/opt/bin/entrypoint.sh", "--port", "8123")
    exporter = an_exporter(NEURON, "trn1.32xlarge", DeviceUse(worker, NeuronLoad(90.0, 1024)), argv=words)
    with started(exporter, 8123) as service:
        page = service.answer("GET", "/metrics", b"").body
    ratios = values(page, "neuroncore_utilization_ratio")
    assert list(ratios) == ["0", "1", "2", "3"]
    assert 0.85 < min(ratios.values()) <= 1
