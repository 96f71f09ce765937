"""S9: values are data: no shell of ours sees them, and what is not of a parameter's form is refused."""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from actions.base.errors import ConsoleError
from actions.base.files import shipped_blueprints
from actions.blueprint.catalogue import load_blueprint
from actions.blueprint.model import ParameterType
from actions.blueprint.parameters import read_value
from actions.cluster.logs.pod_file import quoted_glob
from tests.support.sources import ROOT, SourceModule, modules_of
from tests.unit.terraform.support import a_driver, a_root, needs_terraform

BLUEPRINTS = sorted(path.parent.name for path in shipped_blueprints().glob("*/blueprint.yaml"))

PAYLOADS = [
    "; touch PWNED",
    "$(touch PWNED)",
    "`touch PWNED`",
    "| touch PWNED",
    "&& touch PWNED",
    "\ntouch PWNED\n",
    "'; touch PWNED; '",
    '"; touch PWNED; "',
    "${terraform.workspace}",
    "%{ for x in [1] }%{ endfor }",
    "-x --kubeconfig=/etc/passwd",
]


@pytest.mark.parametrize("name", BLUEPRINTS)
def test_s09_no_text_of_a_shipped_blueprint_takes_what_a_shell_would_act_upon(name: str) -> None:
    blueprint = load_blueprint(shipped_blueprints() / name)
    texts = {key: item for key, item in blueprint.parameters.items() if item.type is ParameterType.TEXT}
    for key, parameter in texts.items():
        for payload in PAYLOADS:
            for value in (payload, f"{parameter.default}{payload}", f"{parameter.default}\n"):
                with pytest.raises(ConsoleError):
                    read_value(key, parameter, value)


def test_s09_shipped_blueprints_take_texts() -> None:
    blueprints = (load_blueprint(shipped_blueprints() / name) for name in BLUEPRINTS)
    assert any(item.type is ParameterType.TEXT for blueprint in blueprints for item in blueprint.parameters.values())


@needs_terraform
async def test_s09_what_terraform_is_given_is_no_expression_and_no_command(tmp_path: Path) -> None:
    root = a_root(tmp_path / "root")
    main = root / "main.tf"
    main.write_text(main.read_text().replace("type = number", "type = string"))
    hostile = "".join(PAYLOADS)
    driver = a_driver(root, tmp_path / "work")
    await driver.init()
    plan = await driver.plan({"size": hostile})
    assert await driver.apply(plan.plan_hash) == {"size": hostile}
    assert list(tmp_path.rglob("PWNED")) == []


@pytest.mark.parametrize("payload", PAYLOADS)
def test_s09_a_path_that_a_shell_expands_is_one_word(tmp_path: Path, payload: str) -> None:
    said = subprocess.run(
        ["/bin/sh", "-c", f"printf '%s' {quoted_glob(f'a/{payload}')}"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert said.stdout == f"a/{payload}"
    assert list(tmp_path.iterdir()) == []


def test_s09_no_program_is_started_through_a_shell() -> None:
    """But the one that introduces a detached process: a constant text, with its arguments behind it."""
    shells = [place for module in modules_of("actions", "tui") for place in _shells(module)]
    assert [place for place in shells if "detached.py" not in place] == []
    text = (ROOT / "actions" / "terraform" / "detached.py").read_text(encoding="utf-8")
    assert '["/bin/sh", "-c", _INTRODUCE, str(self._identity_file), *argv]' in text
    assert re.search(r"_INTRODUCE = \(\n(?:    '[^']*'\n)+\)", text)  # nothing is put into it


def _shells(module: SourceModule) -> Iterator[str]:
    if "sandbox" in module.path.parts:  # its containers run generators, not programs
        return
    lines = [node.lineno for node in module.nodes(ast.Constant) if node.value in ("/bin/sh", "/bin/bash")]
    lines += [node.lineno for node in module.nodes(ast.keyword) if node.arg == "shell"]
    calls = ("create_subprocess_shell", "system", "popen")
    lines += [node.lineno for node in module.nodes(ast.Attribute) if node.attr in calls]
    yield from (f"{module.path}:{line}" for line in lines)


@pytest.mark.parametrize(
    "path", sorted((ROOT / "blueprints").rglob("*.tf")), ids=lambda path: str(path.relative_to(ROOT))
)
def test_s09_no_command_of_a_shipped_root_is_made_of_a_value(path: Path) -> None:
    """Values come to a `local-exec` by its environment, never by its text."""
    for command in re.findall(r"^\s*command\s*=\s*(.*)$", path.read_text(encoding="utf-8"), re.MULTILINE):
        assert not re.search(r"\$\{(?!path\.module)|\bvar\.|\bself\.", command), command
