"""Roots of built-in resources, and the real program where there is one."""

from __future__ import annotations

from pathlib import Path

from actions.terraform.driver import TerraformDriver
from actions.terraform.program import find_program
from tests.support.missing import needs

PROGRAM = find_program()

needs_terraform = needs("terraform")


def a_root(folder: Path, *, seconds: float = 0.0, command: str = "") -> Path:
    """Two resources, the second made by a command; one variable; one output."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "main.tf").write_text(
        f"""
variable "size" {{ type = number }}

resource "terraform_data" "first" {{
  input = var.size
}}

resource "terraform_data" "second" {{
  provisioner "local-exec" {{
    command = "{command or f"sleep {seconds}"}"
  }}
  depends_on = [terraform_data.first]
}}

output "size" {{ value = terraform_data.first.output }}
output "hidden" {{
  value     = "s3cret"
  sensitive = true
}}
""",
        encoding="utf-8",
    )
    return folder


def a_driver(root: Path, work: Path) -> TerraformDriver:
    """A driver of the real program."""
    assert PROGRAM is not None
    return TerraformDriver(root, work, {}, program=PROGRAM)
