"""Protobuf bodies are read, or refused in words."""

from __future__ import annotations

import pytest

from actions.sandbox.apiserver.requests.bodies import decode_object
from actions.sandbox.apiserver.storage.errors import StatusError


def field(number: int, content: bytes) -> bytes:
    return bytes([number << 3 | 2, len(content)]) + content


def enveloped(kind: str, raw: bytes, *, version: str = "v1") -> bytes:
    described = field(1, version.encode()) + field(2, kind.encode())
    return b"k8s\x00" + field(1, described) + field(2, raw)


METADATA = field(1, b"name") + field(2, b"") + field(11, field(1, b"a") + field(2, b"b")) + bytes([7 << 3, 0])


def test_a_config_map_reads_as_its_json() -> None:
    raw = field(1, METADATA) + field(2, field(1, b"k") + field(2, b"v")) + field(3, field(1, b"x") + field(2, b"\xff"))
    assert decode_object(enveloped("ConfigMap", raw)) == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "name", "labels": {"a": "b"}},
        "data": {"k": "v"},
        "binaryData": {"x": "/w=="},
    }


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"{}", 400),
        (enveloped("Podlet", b""), 415),
        (enveloped("Namespace", b"\x0a\x7fxx"), 400),
        (b"k8s\x00\xff", 400),
    ],
)
def test_what_cannot_be_read_is_refused(body: bytes, code: int) -> None:
    with pytest.raises(StatusError) as refusal:
        decode_object(body)
    assert refusal.value.code == code


def test_nested_messages_numbers_and_special_forms_read_as_their_json() -> None:
    resources = field(1, field(1, b"cpu") + field(2, field(1, b"500m")))
    container = field(1, b"main") + field(8, resources)
    volume = field(1, b"v") + field(2, field(2, b""))
    pod = field(1, volume) + field(2, container)
    template = field(3, field(2, pod))
    strategy = field(4, field(2, field(1, bytes([8, 0, 16, 1]))))
    raw = field(2, bytes([8, 0]) + template + strategy)
    assert decode_object(enveloped("Deployment", raw, version="apps/v1")) == {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "spec": {
            "replicas": 0,
            "template": {
                "spec": {
                    "volumes": [{"name": "v", "emptyDir": {}}],
                    "containers": [{"name": "main", "resources": {"limits": {"cpu": "500m"}}}],
                }
            },
            "strategy": {"rollingUpdate": {"maxUnavailable": 1}},
        },
    }
