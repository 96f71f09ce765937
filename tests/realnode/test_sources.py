"""The manifests in Go's modules are those that blueprints pin, and each of their images is one that is made here."""

from __future__ import annotations

from pathlib import Path

from actions.blueprint.operators import operator_manifests
from actions.blueprint.targets import containers_of
from tests.realnode.harness.operators import OPERATORS
from tests.realnode.harness.sources import fill_mirror, operator_sources


def test_every_release_has_the_sums_of_its_blueprint(tmp_path: Path) -> None:
    assert len(fill_mirror(tmp_path)) == len(list(operator_sources()))


def test_every_image_of_a_manifest_is_made(tmp_path: Path) -> None:
    fill_mirror(tmp_path)
    used = {
        container["image"].removeprefix("docker.io/")
        for source in operator_sources()
        for manifest in operator_manifests(source, [tmp_path])
        for container in containers_of(manifest)
    }
    assert used == {each.name.removeprefix("docker.io/") for each in OPERATORS}
