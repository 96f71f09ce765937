"""GPUs over time as a Prometheus keeps them of NVIDIA's dcgm-exporter, also before the console looked.

Source: dcgm-exporter 4.5: names and units of its default counters, the labels `gpu`, `UUID`, `modelName`, `Hostname`,
`GPU_I_ID` of a MIG instance, and `namespace` and `pod` of the pod that has the GPU, which Prometheus renames to
`exported_…` where a scrape does not honour them; the last XID error stays until the next one. DCGM's blanks are the
last numbers below 2^63. Prometheus 3: the answers of `query_range`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import takewhile

import msgspec

from actions.base.decoding import decode_json
from actions.base.errors import FormatError
from actions.base.numbers import in_bounds
from actions.base.untrusted import one_line
from actions.telemetry.tools.device_history import DeviceHistory, Extent, Quantity
from actions.telemetry.tools.devices import Device

UTIL, USED, FREE, POWER, HEAT, CLOCK, XID = METRICS = (
    "DCGM_FI_DEV_GPU_UTIL",
    "DCGM_FI_DEV_FB_USED",
    "DCGM_FI_DEV_FB_FREE",
    "DCGM_FI_DEV_POWER_USAGE",
    "DCGM_FI_DEV_GPU_TEMP",
    "DCGM_FI_DEV_SM_CLOCK",
    "DCGM_FI_DEV_XID_ERRORS",
)
_KEPT = ((Quantity.LOAD, UTIL), (Quantity.POWER, POWER), (Quantity.TEMPERATURE, HEAT), (Quantity.CLOCK, CLOCK))
_MIB = 1 << 20
_BLANK = 1e18
"""DCGM's words for `not supported` and the like are greater numbers."""
_EXPORTER = "dcgm-exporter"
_LONGEST_LIST = 1_500
"""Characters of names in one query; of more pods their common prefix stands for them."""


class KeptGpu(msgspec.Struct, frozen=True, eq=False):
    """A GPU while one pod, or none, had it."""

    pod: str
    """`namespace/name`; empty while no pod has it."""
    node: str
    device: Device
    """With its newest values."""
    at: float
    """The time of these, in seconds since the epoch."""
    history: DeviceHistory
    xid: tuple[float, int] | None = None
    """The moment at which the last XID error came, and its number; 0.0 if it was there from the first value on."""


class KeptSeries(msgspec.Struct):
    """One curve of an answer: its labels, and pairs of a time and a number as text."""

    metric: dict[str, str]
    values: list[tuple[float, str]] = []


class _Matrix(msgspec.Struct):
    result: list[KeptSeries] = []


class _Answer(msgspec.Struct):
    status: str
    data: _Matrix = msgspec.field(default_factory=_Matrix)
    error: str = ""


def queries(pods: Iterable[str]) -> list[str]:
    """Return the query of each metric, for pods by `namespace/name`; for all GPUs if there is none."""
    keys = sorted(pods, key=lambda key: key.partition("/")[2])
    if not keys:
        return list(METRICS)
    spaces, names = zip(*(key.split("/", 1) for key in keys), strict=True)
    several = "|".join(names)
    fits = several if len(several) <= _LONGEST_LIST else _common(names[0], names[-1]) + ".*"
    space, pod = (text.replace(".", r"\\.").replace(r"\\.*", ".*") for text in ("|".join(sorted(set(spaces))), fits))
    held = [f'{metric}{{{{{{0}}namespace=~"{space}",{{0}}pod=~"{pod}"}}}}' for metric in METRICS]
    return [f"{one.format('exported_')} or {one.format('')}" for one in held]


def _common(one: str, other: str) -> str:
    return "".join(a for a, _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


def read_answer(body: bytes) -> list[KeptSeries]:
    """Return the series of an answer of Prometheus.

    Raises:
        FormatError: It is not one, or an error.
    """
    try:
        answer = decode_json(body, _Answer)
    except msgspec.DecodeError as error:
        raise FormatError(f"The answer is not Prometheus': {error}") from error
    if answer.status != "success":
        raise FormatError(f"Prometheus has answered: {one_line(answer.error) or answer.status}")
    return answer.data.result


def gpus_in(series: Iterable[KeptSeries]) -> list[KeptGpu]:
    """Return the GPUs of all metrics, by pod, node and number."""
    found: dict[tuple[str, str, int, str], dict[str, Mapping[float, float]]] = {}
    labels: dict[tuple[str, str, int, str], Mapping[str, str]] = {}
    for one in series:
        named = one.metric
        pod = named.get("exported_pod") or named.get("pod", "")
        pod = "" if _EXPORTER in pod else pod  # the scrape's own label, where the exporter has given none
        space = named.get("exported_namespace") or named.get("namespace", "")
        node = named.get("node") or named.get("Hostname") or named.get("instance", "")
        number = named.get("gpu", "")
        place = int(number) if number.isascii() and number.isdigit() and len(number) < 6 else 0
        key = (f"{one_line(space)}/{one_line(pod)}" if pod else "", one_line(node), place, named.get("GPU_I_ID", ""))
        labels.setdefault(key, named)
        found.setdefault(key, {})[named.get("__name__", "")] = _values(one.values)
    return [gpu for key in sorted(found) if (gpu := _gpu(key, labels[key], found[key])) is not None]


def _values(pairs: Sequence[tuple[float, str]]) -> Mapping[float, float]:
    values: dict[float, float] = {}
    for at, text in pairs:
        with suppress(ValueError):
            value = in_bounds(float(text))
            if 0 <= value < _BLANK:
                values[at] = value
    return values


def _gpu(
    key: tuple[str, str, int, str], labels: Mapping[str, str], metrics: Mapping[str, Mapping[float, float]]
) -> KeptGpu | None:
    moments = sorted({at for name, values in metrics.items() if name != XID for at in values})
    if not moments:
        return None
    history, empty = DeviceHistory(is_whole=True), dict[float, float]()
    used, free = metrics.get(USED, empty), metrics.get(FREE, empty)
    for at in moments:
        values: list[float | None] = [None] * len(Quantity)
        for quantity, name in _KEPT:
            values[quantity] = metrics.get(name, empty).get(at)
        values[Quantity.MEMORY] = used[at] * _MIB if at in used else None
        history.add(at, at, [None if value is None else Extent(value, value, value) for value in values])
    newest = {name: values[max(values)] for name, values in metrics.items() if values}
    pod, node, place, instance = key
    total = round((newest[USED] + newest[FREE]) * _MIB) if USED in newest and FREE in newest and free else None
    device = Device(
        place,
        f"{place}/{instance}" if instance else str(place),
        one_line(labels.get("modelName", "")),
        load_pct=newest.get(UTIL),
        mem_used_bytes=round(newest[USED] * _MIB) if USED in newest else None,
        mem_total_bytes=total,
        power_w=newest.get(POWER),
        temp_c=round(newest[HEAT]) if HEAT in newest else None,
        clock_mhz=round(newest[CLOCK]) if CLOCK in newest else None,
    )
    return KeptGpu(pod, node, device, moments[-1], history, _last_error(metrics.get(XID, empty)))


def _last_error(values: Mapping[float, float]) -> tuple[float, int] | None:
    """Return when the XID error that was last came, and its number."""
    moments = sorted(values)
    number = values[moments[-1]] if moments else 0.0
    if not number:
        return None
    others = [at for at in moments if values[at] != number]
    since = next(at for at in moments if not others or at > others[-1])
    return (since if others else 0.0), round(number)
