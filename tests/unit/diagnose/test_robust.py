"""The same trouble under other names, in another order, among more noise: the same answer."""

from __future__ import annotations

import copy
import json
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actions.cluster.diagnose.codes import Code
from actions.cluster.diagnose.engine import diagnose, diagnose_each
from actions.cluster.diagnose.parse_input import parse_evidence
from tests.unit.diagnose.samples import LOGS, Document, codes, expected_of, is_quoted, load, samples, why

_SAMPLES = samples()
_NAMES = st.from_regex(r"[a-z][a-z0-9]{0,8}(-[a-z0-9]{1,5}){1,3}", fullmatch=True).filter(
    lambda name: not {"launcher", "worker", "node", "gpu", "spot"} & set(name.split("-"))
)
_NOISE = (
    "Epoch 3:  41%|████      | 410/1000 [01:02<01:29,  6.61it/s, v_num=0, train_loss=2.31]",
    "[2026-11-20 13:00:01,331] [INFO] step=410 loss=2.3099 lr=0.0001 grad_norm=0.91",
    "ip-10-0-1-9:61:61 [0] NCCL INFO Channel 00/02 : 0 1 2 3",
    "UserWarning: The dataloader does not have many workers which may be a bottleneck.",
    "[W socket.cpp:464] [c10d] The server socket cannot be initialized on [::]:23456 (errno: 97)",
    "INFO:root:Saving checkpoint to /fsx/checkpoints/step=400.ckpt",
)
_NOISE_EVENT = {
    "type": "Normal",
    "reason": "LeaderElection",
    "message": "karpenter-6f became leader",
    "involvedObject": {"kind": "Lease", "name": "karpenter-leader-election", "namespace": "kube-system"},
}


def _renamed(value: Any, names: dict[str, str]) -> Any:
    text = json.dumps(value)
    for old, new in sorted(names.items(), key=lambda pair: -len(pair[0])):
        text = text.replace(old, new)
    return json.loads(text)


@given(path=st.sampled_from(_SAMPLES), name=_NAMES, namespace=_NAMES)
@settings(max_examples=150, deadline=None)
def test_names_do_not_matter(path: Path, name: str, namespace: str) -> None:
    document = load(path)
    names = {pod["metadata"]["name"]: f"{name}-{index}" for index, pod in enumerate(document.get("pods") or ())}
    renamed = _renamed(document, names)
    for entry in (*(renamed.get("pods") or ()), *(event["involvedObject"] for event in renamed.get("events") or ())):
        (entry.get("metadata") or entry)["namespace"] = namespace
    expected = _renamed(expected_of(path), names)
    found = why(renamed)
    assert found[0].code.value == expected["code"]
    for piece in expected["evidence"]:
        assert any(piece in quote for quote in found[0].evidence)


@given(path=st.sampled_from(_SAMPLES), seed=st.integers(0, 1 << 16))
@settings(max_examples=150, deadline=None)
def test_order_and_noise_do_not_matter(path: Path, seed: int) -> None:
    document, expected = load(path), expected_of(path)
    chance = random.Random(seed)
    events = [*document.get("events", ()), _NOISE_EVENT]
    chance.shuffle(events)
    document["events"] = events
    for part in ("pods", "nodes"):
        chance.shuffle(document.get(part, []))
    if isinstance(document.get("logs"), str):
        before, after = (chance.choices(_NOISE, k=chance.randrange(1, 40)) for _ in range(2))
        document["logs"] = "\n".join([*before, document["logs"].rstrip("\n"), *after]) + "\n"
    found = why(document)
    assert found[0].code.value == expected["code"]
    assert not {one.code.value for one in found} & set(expected.get("must_not_say", ()))
    assert all(is_quoted(quote, document) for one in found for quote in one.evidence)


@pytest.mark.parametrize("old_type", ["p4de.24xlarge", "p4d.24xlarge", "p5en.48xlarge", "g5.48xlarge", "g6e.12xlarge"])
def test_instance_types_do_not_matter(old_type: str) -> None:
    path = next(path for path in _SAMPLES if path.stem == "gpu_node_without_device_plugin")
    assert codes(_renamed(load(path), {"p5.48xlarge": old_type})) == ["DEVICE_PLUGIN_MISSING"]


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=8) | st.just("2026-11-20T13:00:00Z"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=12,
)


def _places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    keys = value.keys() if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    return [path, *(place for key in keys for place in _places(value[key], (*path, key)))]


@given(path=st.sampled_from(_SAMPLES), seed=st.integers(0, 1 << 20), junk=_JSON)
@settings(max_examples=300, deadline=None)
def test_a_damaged_document_is_survived(path: Path, seed: int, junk: Any) -> None:
    document = copy.deepcopy(load(path))
    *above, last = random.Random(seed).choice(_places(document)[1:])
    target: Any = document
    for key in above:
        target = target[key]
    target[last] = junk
    case, _ = parse_evidence(json.dumps(document).encode())
    assert all(one.headline and one.next_step for one in (*diagnose(case), *diagnose_each(case)))


@pytest.mark.parametrize("path", sorted(LOGS.glob("*.log")), ids=lambda path: path.stem)
def test_a_log_of_healthy_training_is_no_trouble(path: Path) -> None:
    log = path.read_bytes().decode("utf-8", "replace")
    alarming = [code for code in codes({"logs": log}) if code not in _LAST_WORDS]
    assert alarming == []


_LAST_WORDS = {Code.CRASH_LOOP.value, Code.JOB_FAILED.value}


def _list(*kinds: str) -> Document:
    """Return everything in the samples as kubectl prints it, each sample in a namespace of its own."""
    items = []
    for number, path in enumerate(_SAMPLES):
        document = load(path)
        for part, kind in (("pods", "Pod"), ("nodes", "Node"), ("events", "Event")):
            for entry in document.get(part) or () if kind in kinds else ():
                made = {"apiVersion": "v1", "kind": kind, **entry}
                made.get("metadata", made.get("involvedObject", {}))["namespace"] = f"ns-{number}"
                items.append(made)
    return {"apiVersion": "v1", "kind": "List", "items": items}


def test_a_cluster_full_of_troubles_tells_each() -> None:
    case, is_one = parse_evidence(json.dumps(_list("Pod", "Event")).encode())
    assert not is_one
    told = {one.code.value for one in diagnose_each(case)}
    assert {"NO_POD_IP", "OOM_KILLED", "TAINT", "NODEPOOL_LIMIT", "PVC_UNBOUND", "IMAGE_ARCH", "VOLUME_MOUNT"} <= told
