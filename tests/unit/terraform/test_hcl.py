"""Blocks of Terraform's language, however they are written."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from actions.base.errors import FormatError
from actions.blueprint.source_files import declarations_of, empty_variables, git_modules, needs_account
from actions.terraform.backend import own_backend
from actions.terraform.hcl import blocks_in, outer_modules, source_of

VARIABLES = """
# variable "commented" { type = string }
/* variable "remarked" {} */
// variable "slashed" {}
variable "run_id" { type = string }
variable "plain" {
  type    = string  # default = "no"
}
variable "a" {} variable "b" { default = "" }
variable "empty" { default = "" } # default = "x"
  variable "indented" { default = 1 }
variable bare { default = true }
variable "object" {
  type = object({ a = string, default = number })
}
variable "listed" {
  default = [
    "a", # "b"
    "}"
  ]
}
variable "text" {
  default = <<-EOT
    variable "inside" { type = string }
    }
  EOT
}
variable "template" { default = "${var.a == "}" ? "x" : "{"}" }
variable
"split" {}
locals { text = "variable \\"quoted\\" {" }
output "one" { value = 1 }
output "two" {
  value = "${output}"
}
"""


def test_variables_are_found_however_they_are_written(tmp_path: Path) -> None:
    (tmp_path / "main.tf").write_text(VARIABLES)
    found = declarations_of(tmp_path.parent, tmp_path.name)
    needed = {"run_id", "plain", "a", "object"}
    given = {"b", "empty", "indented", "bare", "listed", "text", "template"}
    assert {name for name, is_needed in found.variables.items() if is_needed} == needed
    assert {name for name, is_needed in found.variables.items() if not is_needed} == given
    assert found.outputs == {"one", "two"}
    assert empty_variables(tmp_path.parent, tmp_path.name) == {"b", "empty"}


def test_with_windows_line_ends_they_are_the_same(tmp_path: Path) -> None:
    (tmp_path / "main.tf").write_bytes(b'variable "x" {\r\n  default = ""\r\n}\r\nvariable "y" { type = string }\r\n')
    assert declarations_of(tmp_path.parent, tmp_path.name).variables == {"x": False, "y": True}
    assert empty_variables(tmp_path.parent, tmp_path.name) == {"x"}


@pytest.mark.parametrize(
    ("text", "is_of_aws"),
    [
        ('provider "aws" { region = "x" }', True),
        ('resource "aws_vpc" "v" {}', True),
        ('module "m" { source = "./x" }', True),
        ('terraform { required_providers { aws = { source = "hashicorp/aws" } } }', True),
        ('resource "terraform_data" "v" { input = "aws_vpc" }', False),
        ('# provider "aws" {}\nlocals {}', False),
    ],
)
def test_a_root_of_an_account_is_known(text: str, is_of_aws: bool, tmp_path: Path) -> None:
    (tmp_path / "main.tf").write_text(text)
    assert needs_account(tmp_path.parent, tmp_path.name) is is_of_aws


def test_modules_and_backends_on_one_line(tmp_path: Path) -> None:
    (tmp_path / "main.tf").write_text(
        'terraform { backend "s3" { bucket = "b" } }\nmodule "m" { source = "git::https://x.test/y" }\n'
    )
    assert own_backend(tmp_path) == "s3"
    assert git_modules(tmp_path.parent, tmp_path.name) == ("git::https://x.test/y",)


def test_local_modules_outside_of_a_root_are_found_also_from_those_inside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "root"
    files = {
        "main.tf": '# tags\nmodule "a" {\n  source = "./inner"\n}\nmodule "b" { source = "../root-2" }\n',
        "more.tf": 'module "c" { source = "terraform-aws-modules/eks/aws" }\nlocals { source = "../no" }\n',
        "inner/main.tf": 'module "d" { source = "../deep" }\n\nmodule "e" {\n  count = 1\n  source = "../../tags"\n}\n',
        "deep/main.tf": 'module "f" { source = "../inner" }\n',
    }
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    found = [(each.file.relative_to(root), each.line, each.source) for each in outer_modules(root)]
    assert found == [(Path("main.tf"), 5, "../root-2"), (Path("inner/main.tf"), 5, "../../tags")]
    monkeypatch.chdir(root)
    assert [(each.file, each.line, each.source) for each in outer_modules(Path())] == found


@pytest.mark.parametrize(
    "piece", ["{", '"${', "<<A\n", "/*", "a {", "a = [", '"', "\\", "${", "a = <<B\n", "}", 'variable "x" {\n']
)
def test_what_is_none_takes_time_by_its_length_alone(piece: str) -> None:
    began = time.process_time()
    blocks_in(piece * 20_000)
    assert time.process_time() - began < 10


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "zero.tf").symlink_to("/dev/zero")
    with pytest.raises(FormatError, match=r"zero\.tf cannot be read"):
        source_of(tmp_path)
