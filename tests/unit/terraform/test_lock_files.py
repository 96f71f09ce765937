"""S16: the shipped roots pin what they download, to one version and by hash."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from actions.base.files import shipped_blueprints
from actions.blueprint.source_files import SHARED
from actions.terraform.working_directory import LOCK_FILE, locked_providers

HOME = shipped_blueprints() / SHARED / "terraform"
ROOTS = sorted(path.name for path in HOME.iterdir() if path.is_dir())
_SOURCE = re.compile(r'source\s+= "(?:hashicorp/)([a-z]+)"\s+version\s+= "([^"]+)"')
_MODULE = re.compile(r'source\s+= "terraform-aws-modules/[^"]+"\s+version\s+= "([^"]+)"')
_EXACT = re.compile(r"\d+\.\d+\.\d+")


def text_of(root: str) -> str:
    return "\n".join(path.read_text() for path in sorted((HOME / root).glob("*.tf")))


@pytest.mark.parametrize("root", ROOTS)
def test_every_provider_that_a_root_names_is_locked_at_exactly_that_version(root: str) -> None:
    named = dict(_SOURCE.findall(text_of(root)))
    locked = locked_providers(HOME / root / LOCK_FILE)
    assert named
    assert {name: locked[f"hashicorp/{name}"] for name in named} == named
    assert all(_EXACT.fullmatch(version) for version in locked.values())


@pytest.mark.parametrize("root", ROOTS)
def test_modules_are_pinned_to_one_version(root: str) -> None:
    assert all(_EXACT.fullmatch(version) for version in _MODULE.findall(text_of(root)))


def test_the_roots_agree_on_each_provider() -> None:
    versions: dict[str, set[str]] = {}
    hashes: dict[str, set[frozenset[str]]] = {}
    for root in ROOTS:
        text = (HOME / root / LOCK_FILE).read_text()
        for name, version in locked_providers(HOME / root / LOCK_FILE).items():
            versions.setdefault(name, set()).add(version)
            block = text[text.index(f"/{name}") :].partition("\n}\n")[0]
            hashes.setdefault(name, set()).add(frozenset(re.findall(r'"((?:zh:[0-9a-f]{64})|(?:h1:[^"]+))"', block)))
    assert {name: len(found) for name, found in versions.items()} == dict.fromkeys(versions, 1)
    assert {name: len(found) for name, found in hashes.items()} == dict.fromkeys(hashes, 1)
    assert all(len(next(iter(found))) > 10 for found in hashes.values())


@pytest.mark.parametrize("root", ROOTS)
def test_no_hash_is_named_twice_or_malformed(root: str) -> None:
    for block in (HOME / root / LOCK_FILE).read_text().split("provider ")[1:]:
        listed = re.findall(r'^    "(.+)",$', block, re.M)
        assert len(listed) == len(set(listed))
        assert all(re.fullmatch(r"zh:[0-9a-f]{64}|h1:[A-Za-z0-9+/]{43}=", item) for item in listed)


def test_a_folder_without_a_lock_file_locks_nothing(tmp_path: Path) -> None:
    assert locked_providers(tmp_path / LOCK_FILE) == {}
