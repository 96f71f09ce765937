"""Exporters of a node's accelerators for a Prometheus: NVIDIA's dcgm-exporter, and AWS's neuron-monitor.

Both answer `/metrics` with the state of all devices of their node at the moment of the request, in the text format.

Source:
    dcgm-exporter 4.5.3-4.8.2: `/health`, and of its default counters the five that the sandbox has, with labels; a
    captured page of neuron-monitor's exporter on trn1n: names, and the labels that are known here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec

from actions.fleet.instance_types import InstanceTable
from actions.sandbox.programs import nvidia
from actions.sandbox.programs.network import HttpAnswer, pod_host
from actions.sandbox.programs.neuron.cores import cores_of, instance_of
from actions.sandbox.programs.program import ContainerView, GpuLoad, Load, Program, ProgramStep

_WHOLE_DAY = 86_400.0
_TEXT_FORMAT = "text/plain; version=0.0.4; charset=utf-8"


class Metric(msgspec.Struct, frozen=True):
    """A metric with its samples."""

    name: str
    help: str
    samples: Sequence[tuple[Mapping[str, str], float]]
    """Labels and value."""

    def text(self) -> str:
        """Return it in Prometheus' text format."""
        lines = [f"# HELP {self.name} {self.help}", f"# TYPE {self.name} gauge"]
        for labels, value in self.samples:
            named = ",".join(f'{name}="{label}"' for name, label in labels.items())
            lines.append(f"{self.name}{{{named}}} {value:g}")
        return "\n".join(lines) + "\n"


def is_dcgm_exporter(container: ContainerView) -> bool:
    """Return whether a container's image is NVIDIA's exporter."""
    return "/dcgm-exporter:" in container.image


def is_neuron_monitor(container: ContainerView) -> bool:
    """Return whether a container's image is AWS's exporter of neuron-monitor."""
    return "/neuron-monitor:" in container.image


def export_gpus(container: ContainerView) -> Program:
    """Serve the GPUs of the node until the process is ended."""
    port = int(container.environment.get("DCGM_EXPORTER_LISTEN", ":9400").rpartition(":")[2])
    line = f'level=INFO msg="Starting webserver" address=:{port}\n'
    return _serve(container, port, lambda: _gpu_metrics(container), line)


def export_neuron(container: ContainerView) -> Program:
    """Serve the Neuron cores of the node until the process is ended."""
    given = re.search(r"--port[= ](\d{1,5})", container.command_line)
    port = int(given[1]) if given else 8000
    return _serve(container, port, lambda: _neuron_metrics(container), f"Running HTTP server on port {port}\n")


def _serve(container: ContainerView, port: int, metrics: Callable[[], Iterator[Metric]], line: str) -> Program:
    page = _Page(metrics)
    container.network.listen([pod_host(container.namespace, container.pod)], port, page)
    try:
        yield ProgramStep(1.0, line, is_error=True)
        while True:
            yield ProgramStep(_WHOLE_DAY)
    finally:
        container.network.close(page)


class _Page:
    """The service behind the port (`HttpService`)."""

    def __init__(self, metrics: Callable[[], Iterator[Metric]]) -> None:
        self._metrics = metrics

    def answer(self, method: str, path: str, body: bytes) -> HttpAnswer:
        """Answer a request (`HttpService`)."""
        match (method, path.partition("?")[0]):
            case ("GET" | "HEAD", "/metrics"):
                return HttpAnswer(200, "".join(metric.text() for metric in self._metrics()).encode(), _TEXT_FORMAT)
            case ("GET" | "HEAD", "/health"):
                return HttpAnswer(200, b"OK", "text/plain")
        return HttpAnswer(404, b"Not found", "text/plain")


GPU_METRICS: tuple[tuple[str, str, Callable[[nvidia.NvidiaDevice], float]], ...] = (
    ("DCGM_FI_DEV_SM_CLOCK", "SM clock frequency (in MHz).", lambda gpu: gpu.clock_mhz),
    ("DCGM_FI_DEV_GPU_TEMP", "GPU temperature (in C).", lambda gpu: gpu.temperature),
    ("DCGM_FI_DEV_POWER_USAGE", "Power draw (in W).", lambda gpu: gpu.power_watts),
    ("DCGM_FI_DEV_GPU_UTIL", "GPU utilization (in %).", lambda gpu: gpu.utilisation_percent),
    ("DCGM_FI_DEV_FB_USED", "Framebuffer memory used (in MiB).", lambda gpu: gpu.memory_mib),
)


def _gpu_metrics(container: ContainerView) -> Iterator[Metric]:
    """Yield the metrics of all GPUs of the node; those that a pod has name it, by the kubelet's socket."""
    usage = container.accelerator_users()
    kind = InstanceTable.load().find(container.instance_type)
    holders: list[tuple[ContainerView, Load, bool]] = [(use.container, use.load, True) for use in usage.users]
    held = {index for use in usage.users for index in use.container.gpus}
    free = tuple(index for index in range(kind.gpus if kind else 0) if index not in held)
    holders.append((msgspec.structs.replace(container, gpus=free), GpuLoad(), False))
    found = [
        (_gpu_labels(container, gpu, holder if is_held else None), gpu)
        for holder, load, is_held in holders
        for gpu in nvidia.read(holder, load, usage.moment)
    ]
    found.sort(key=lambda each: each[1].node_index)
    for name, text, value in GPU_METRICS:
        yield Metric(name, text, [(labels, value(gpu)) for labels, gpu in found])


def _gpu_labels(exporter: ContainerView, gpu: nvidia.NvidiaDevice, holder: ContainerView | None) -> dict[str, str]:
    pod = {"container": holder.name, "namespace": holder.namespace, "pod": holder.pod} if holder else {}
    return {
        "gpu": str(gpu.node_index),
        "UUID": gpu.uuid,
        "pci_bus_id": gpu.bus_id,
        "device": f"nvidia{gpu.node_index}",
        "modelName": gpu.model.name,
        "Hostname": exporter.environment.get("NODE_NAME", exporter.pod),
        **pod,
    }


def _neuron_metrics(container: ContainerView) -> Iterator[Metric]:
    """Yield the metrics of the cores that runtimes hold; those of others are missing, as with the real one."""
    usage, where = container.accelerator_users(), instance_of(container)
    base = {"instance_id": where.id, "instance_type": where.type}
    cores = [core for use in usage.users for core in cores_of(use.container, use.load, usage.moment)]
    labels = [base | {"neuroncore": str(core.index)} for core in cores]
    ratios = [(label, core.utilisation_percent / 100) for label, core in zip(labels, cores, strict=True)]
    yield Metric("neuroncore_utilization_ratio", "NeuronCore utilization ratio", ratios)
    used = [(base | {"memory_location": "neuron_device"}, float(sum(core.memory_bytes for core in cores)))]
    yield Metric("neuron_runtime_memory_used_bytes", "Runtime memory used bytes", used if cores else [])
