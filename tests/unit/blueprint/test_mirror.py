"""The files in a mirror are those that were taken the first time, or those that the blueprint records."""

from __future__ import annotations

import hashlib
from pathlib import Path

import msgspec
import pytest

from actions.base.clock import SystemClock
from actions.base.errors import ConflictError, FormatError
from actions.blueprint.mirror import Basis, Mirror, pinned_operators
from actions.blueprint.operators import operator_manifests
from actions.blueprint.stages import Source

FILE = b"""\
apiVersion: v1
kind: Namespace
metadata: {name: kubeflow}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: mpijobs.kubeflow.org}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: training-operator, namespace: kubeflow}
spec: {template: {spec: {containers: [{name: manager, args: [--leader-elect]}, {name: other}]}}}
"""
DIGEST = hashlib.sha256(FILE).hexdigest()


def a_source(**changes: object) -> Source:
    source = Source(name="training-operator", version="1.8.1", url="https://example.invalid/x.yaml", sha256="")
    return msgspec.structs.replace(source, **changes)


def take(mirror: Mirror, source: Source, data: bytes = FILE, *, by_hand: bool = False) -> Basis:
    return mirror.take(source, data, origin="x.yaml", by_hand=by_hand, clock=SystemClock()).basis


def test_a_recorded_digest_verifies_and_another_file_is_refused(tmp_path: Path) -> None:
    mirror = Mirror(tmp_path)
    assert take(mirror, a_source(sha256=DIGEST.upper()), by_hand=True) is Basis.RECORDED
    with pytest.raises(ConflictError, match="the blueprint records"):
        take(mirror, a_source(sha256="0" * 64))


def test_the_first_download_is_kept_and_nothing_else_is_taken_afterwards(tmp_path: Path) -> None:
    mirror = Mirror(tmp_path)
    assert take(mirror, a_source()) is Basis.FIRST_DOWNLOAD
    held = mirror.held(a_source())
    assert held is not None
    assert (held.sha256, held.size, held.basis) == (DIGEST, len(FILE), Basis.FIRST_DOWNLOAD)
    with pytest.raises(ConflictError, match="recorded the first time"):
        take(mirror, a_source(), FILE + b"\n# changed upstream\n")


def test_a_file_that_was_changed_in_the_mirror_is_told(tmp_path: Path) -> None:
    mirror = Mirror(tmp_path)
    take(mirror, a_source(), by_hand=True)
    (tmp_path / "training-operator/1.8.1/manifest.yaml").write_bytes(FILE + b"---\n")
    with pytest.raises(ConflictError, match="recorded the first time"):
        mirror.held(a_source())


@pytest.mark.parametrize("data", [b"", b"<html>Not Found</html>", b"kind: [", FILE[:70], b"just: text\n"])
def test_what_is_no_file_of_objects_is_refused(tmp_path: Path, data: bytes) -> None:
    with pytest.raises(FormatError):
        take(Mirror(tmp_path), a_source(), data)
    assert not list(tmp_path.rglob("manifest.yaml"))


def test_a_damaged_lock_is_told(tmp_path: Path) -> None:
    (tmp_path / "lock.json").write_text("{")
    with pytest.raises(FormatError, match=r"lock\.json"):
        Mirror(tmp_path).lock()


def test_an_operators_stage_takes_what_the_mirror_holds_without_what_clashes(tmp_path: Path) -> None:
    source = a_source(
        without=("CustomResourceDefinition/mpijobs.kubeflow.org",),
        arguments={"manager": ("--enable-scheme=pytorchjob", "--leader-elect")},
    )
    take(Mirror(tmp_path), source)
    found = operator_manifests(source, [tmp_path])
    assert [each["kind"] for each in found] == ["Namespace", "Deployment"]
    manager, other = found[1]["spec"]["template"]["spec"]["containers"]
    assert manager["args"] == ["--leader-elect", "--enable-scheme=pytorchjob"]
    assert "args" not in other


def test_every_operator_of_the_shipped_blueprints_is_wanted_once() -> None:
    from actions.blueprint.catalogue import Catalogue

    wanted = pinned_operators(Catalogue.usual([]).list())
    keys = [one.key for one in wanted]
    assert keys == sorted(set(keys))
    assert {"training-operator/1.8.1", "mpi-operator/0.8.0"} <= set(keys)
