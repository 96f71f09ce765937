"""The facts that a state file holds about itself."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from actions.base.errors import FormatError
from actions.terraform.state import EMPTY_STATE, read_state
from tests.unit.terraform.support import PROGRAM, needs_terraform

ROOT = """
variable "key" { default = "a\\"b" }
resource "terraform_data" "keyed" { for_each = toset(["x", var.key, "$${y}"]) }
resource "terraform_data" "counted" { count = 2 }
module "inner" {
  source = "./inner"
  count  = 1
}
"""


def a_state(**fields: object) -> bytes:
    return json.dumps({"version": 4, "serial": 3, "lineage": "l", "resources": [], **fields}).encode()


def test_nothing_is_the_state_of_what_was_never_applied() -> None:
    assert read_state(b" \n") is EMPTY_STATE


def test_an_object_that_waits_for_its_end_is_not_tracked_as_the_resource() -> None:
    resource = {"mode": "managed", "type": "t", "name": "n", "instances": [{"deposed": "ab12"}]}
    assert read_state(a_state(resources=[resource])).addresses == ()


@pytest.mark.parametrize("data", [b"{}", b"[]", b"\xff", b'{"version": 4}', a_state(version=3)])
def test_what_is_no_state_is_refused(data: bytes) -> None:
    with pytest.raises(FormatError):
        read_state(data)


@needs_terraform
def test_addresses_are_those_that_terraform_lists(tmp_path: Path) -> None:
    assert PROGRAM is not None
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "main.tf").write_text('resource "terraform_data" "this" {}\n')
    (tmp_path / "main.tf").write_text(ROOT)

    def terraform(*words: str) -> str:
        argv = [str(PROGRAM), *words]
        return subprocess.run(argv, cwd=tmp_path, check=True, capture_output=True, text=True).stdout

    terraform("init", "-input=false")
    terraform("apply", "-auto-approve", "-input=false")
    state = read_state((tmp_path / "terraform.tfstate").read_bytes())
    assert sorted(state.addresses) == sorted(terraform("state", "list").splitlines())
    assert len(state.addresses) == 6
    assert (state.serial, bool(state.lineage)) > (0, False)
