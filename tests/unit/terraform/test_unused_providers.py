"""Providers in the shared cache go when no working directory needs them, and not before."""

from __future__ import annotations

import fcntl
from pathlib import Path

import pytest

from actions.base.clock import SystemClock
from actions.base.errors import RefusedError
from actions.terraform.plugin_cache import LOCK_FILE, remove_unused_providers, survey_providers
from actions.terraform.providers import discard_installed, installing

AWS = "registry.terraform.io/hashicorp/aws/5.100.0/linux_amd64"
TOY = "example.com/tests/toy/1.0.0/linux_amd64"
ROOT = 'terraform {\n  required_providers {\n    aws = { source = "hashicorp/aws" }\n  }\n}\n'


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name in ("TF_PLUGIN_CACHE_DIR", "TF_CLI_CONFIG_FILE"):
        monkeypatch.delenv(name, raising=False)
    place = tmp_path / "cache" / "eksml-tui" / "terraform-plugins"
    for folder in (AWS, TOY):
        (place / folder).mkdir(parents=True)
        (place / folder / "terraform-provider").write_bytes(b"x" * 1000)
    return place


def a_user(folder: Path, cache: Path, *links: str) -> Path:
    for link in links:
        path = folder / ".terraform" / "providers" / link
        path.parent.mkdir(parents=True)
        path.symlink_to(cache / link)
    return folder


def test_each_provider_is_named_with_its_size_and_users(cache: Path, tmp_path: Path) -> None:
    work = a_user(tmp_path / "work", cache, AWS)
    toy, aws = survey_providers([work])
    assert (aws.name, aws.version, aws.platform, aws.size_bytes) == ("hashicorp/aws", "5.100.0", "linux_amd64", 1000)
    assert (aws.used_by, toy.used_by) == ((work,), ())
    assert toy.name == "example.com/tests/toy"


def test_what_no_run_needs_is_removed(cache: Path, tmp_path: Path) -> None:
    work = a_user(tmp_path / "work", cache, AWS)
    (removed,) = remove_unused_providers([work])
    assert removed.name == "example.com/tests/toy"
    assert not (cache / "example.com").exists()
    assert (cache / AWS / "terraform-provider").exists()
    discard_installed(work)
    assert [item.name for item in remove_unused_providers([work])] == ["hashicorp/aws"]
    assert survey_providers([work]) == ()


async def test_a_run_of_another_state_folder_counts_by_its_init(cache: Path, tmp_path: Path) -> None:
    work = tmp_path / "elsewhere" / "work"
    work.mkdir(parents=True)
    (work / "main.tf").write_text(ROOT)
    async with installing(work, {}, SystemClock()):
        a_user(work, cache, AWS, TOY)
    assert remove_unused_providers() == ()
    (work / "main.tf").unlink()
    for link in (AWS, TOY):
        (work / ".terraform" / "providers" / link).unlink()
    assert len(remove_unused_providers()) == 2


def test_nothing_is_removed_during_an_init(cache: Path) -> None:
    with (cache / LOCK_FILE).open("w") as lock:
        fcntl.flock(lock.fileno(), fcntl.LOCK_EX)
        with pytest.raises(RefusedError, match="is using the cache"):
            remove_unused_providers()
    assert len(survey_providers()) == 2


def test_a_cache_that_does_not_exist_holds_nothing(tmp_path: Path) -> None:
    assert survey_providers(cache=tmp_path / "absent") == remove_unused_providers(cache=tmp_path / "absent") == ()
