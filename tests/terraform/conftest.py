"""Providers and modules for real `terraform`, or `tofu`, without the internet."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from actions.terraform.program import find_program, registry_of
from tests.support.missing import skip_without
from tests.terraform.registry import module_registry
from tests.terraform.stub import StubAccount, provider_mirror
from tests.terraform.workspaces import FINDINGS

MODULES = Path(os.environ.get("EKSML_TERRAFORM_MODULES") or Path(__file__).parent / "modules")
"""Our stand-ins, or a folder with the real modules (README.md)."""

CHEAPLY = {"TF_DISABLE_PLUGIN_TLS": "1", "GOGC": "400"}
"""A third less work: no keys for every start of a provider (sixteen in a plan), and less collecting."""


@pytest.fixture(scope="session")
def terraform_environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, str]]:
    """The environment in which `terraform` finds the stub provider and the modules, and asks nobody else."""
    program = find_program()
    if program is None:
        skip_without("terraform")
    folder = tmp_path_factory.mktemp("terraform")
    mirror = provider_mirror(folder / "mirror")
    with module_registry(MODULES) as url:
        settings = folder / "terraformrc"
        settings.write_text(
            "disable_checkpoint = true\n"
            f'host "{registry_of(program)}" {{\n  services = {{ "modules.v1" = "{url}" }}\n}}\n'
            f'provider_installation {{\n  filesystem_mirror {{ path = "{mirror}" }}\n}}\n'
        )
        yield {"TF_CLI_CONFIG_FILE": str(settings), "TF_IN_AUTOMATION": "1", "CHECKPOINT_DISABLE": "1", **CHEAPLY}


@pytest.fixture
def account(tmp_path: Path) -> StubAccount:
    """An empty AWS account."""
    return StubAccount(tmp_path / "account", FINDINGS)
