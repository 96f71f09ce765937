"""Backends: those that operators configure are found wherever they are written, and no other."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from actions.base.errors import AccessError, RefusedError, UnreachableError
from actions.base.files import shipped_blueprints
from actions.terraform.backend import (
    OVERRIDE_FILE,
    StateBackend,
    asks_aws,
    own_backend,
    require_locks,
)
from actions.terraform.failure import backend_failure

HOME = StateBackend("team", "ml/runs/r/terraform/net.tfstate", "eu-west-1")


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ('terraform {\n  required_version = ">= 1.5"\n  backend "s3" {\n  }\n}\n', "s3"),
        ('terraform { backend "http" {} }', "http"),
        ('terraform {\n  cloud {\n    organization = "x"\n  }\n}\n', "cloud"),
        ('terraform {\n  required_providers { a = { source = "x" } }\n  backend "gcs" {}\n}\n', "gcs"),
        ('locals {\n  a = "${b ? "y" : "{"} \\" $${ "\n}\nterraform {\n  backend "local" {}\n}\n', "local"),
        ('# terraform {\n#  backend "s3" {}\n# }\n/* terraform { backend "s3" {} } */\n', ""),
        ('// terraform { backend "s3" {} }\nterraform {\n  required_version = "1"\n}\n', ""),
        (
            'resource "a" "b" {\n  x = <<-EOT\n    terraform {\n    backend "s3" {}\n    }\n  EOT\n  cloud {\n  }\n}\n',
            "",
        ),
        ('locals {\n  a = "terraform { backend \\"s3\\" {} }"\n}\nresource "a" "b" {\n  backend "s3" {}\n}\n', ""),
        ("", ""),
        ('terraform {\n  backend "s3', ""),
    ],
)
def test_a_backend_is_a_block_of_the_terraform_block(tmp_path: Path, text: str, kind: str) -> None:
    (tmp_path / "main.tf").write_text(text)
    assert own_backend(tmp_path) == kind


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ('{"terraform": {"backend": {"s3": {}}}}', "s3"),
        ('{"terraform": [{"required_version": "1"}, {"backend": [{"local": {}}]}]}', "local"),
        ('{"terraform": {"cloud": [{}]}}', "cloud"),
        ('{"terraform": {"required_version": "1"}}', ""),
        ('{"terraform": 3}', ""),
        ("[]", ""),
        ("{torn", ""),
    ],
)
def test_a_backend_may_be_written_in_json(tmp_path: Path, text: str, kind: str) -> None:
    (tmp_path / "main.tf.json").write_text(text)
    assert own_backend(tmp_path) == kind


def test_our_own_override_is_not_the_operators(tmp_path: Path) -> None:
    (tmp_path / OVERRIDE_FILE).write_bytes(HOME.configuration())
    assert own_backend(tmp_path) == ""


def test_no_root_that_ships_has_a_backend() -> None:
    roots = [path.parent for path in shipped_blueprints().rglob("versions.tf")]
    assert roots
    assert {own_backend(root) for root in roots} == {""}


def test_a_state_in_a_home_is_locked_and_encrypted_and_its_settings_hold_no_secret() -> None:
    settings = msgspec.json.decode(HOME.configuration())["terraform"]["backend"]["s3"]
    assert settings == {
        "bucket": "team",
        "key": "ml/runs/r/terraform/net.tfstate",
        "region": "eu-west-1",
        "encrypt": True,
        "use_lockfile": True,
        "workspace_key_prefix": "ml/runs/r/terraform/net.tfstate.workspaces",
    }


def test_a_service_like_s3_needs_more_settings() -> None:
    settings = StateBackend("team", "k", "eu-west-1", is_aws=False).settings()
    assert settings["use_path_style"] is settings["skip_requesting_account_id"] is True


@pytest.mark.parametrize(
    ("environment", "is_aws"),
    [
        ({}, True),
        ({"AWS_ENDPOINT_URL": ""}, True),
        ({"AWS_ENDPOINT_URL": "http://127.0.0.1:4566"}, False),
        ({"AWS_ENDPOINT_URL_S3": "https://bucket.vpce-1.s3.eu-west-1.vpce.amazonaws.com"}, True),
        ({"AWS_ENDPOINT_URL_S3": "https://minio.example.com", "AWS_ENDPOINT_URL": ""}, False),
        ({"AWS_ENDPOINT_URL": "https://amazonaws.com.example.com"}, False),
    ],
)
def test_who_answers_for_s3(environment: dict[str, str], is_aws: bool) -> None:
    assert asks_aws(environment) is is_aws


def test_a_terraform_that_cannot_lock_in_s3_is_refused() -> None:
    with pytest.raises(
        RefusedError, match=r"Terraform 1\.9 cannot lock a state in s3://team: use_lockfile came with 1\.10"
    ):
        require_locks((1, 9), "s3://team")
    require_locks((1, 10), "s3://team")
    require_locks((2, 0), "s3://team")


S3 = "Error: Unable to list objects in S3 bucket: operation error S3: ListObjectsV2, {what}"


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (
            S3.format(what="exceeded maximum number of attempts, 5, https response error StatusCode: 0, dial"),
            UnreachableError,
        ),
        (S3.format(what="https response error StatusCode: 503, RequestID: , api error SlowDown: m"), UnreachableError),
        (S3.format(what="https response error StatusCode: 400, RequestID: , api error ExpiredToken: x"), AccessError),
        ("Error: No valid credential sources found", AccessError),
    ],
)
def test_a_backend_that_is_away_is_waited_for(text: str, kind: type[Exception]) -> None:
    assert isinstance(backend_failure(text), kind)


@pytest.mark.parametrize(
    "text",
    [
        "Error: Unsupported argument",
        S3.format(what="https response error StatusCode: 404, RequestID: , NoSuchBucket: "),
    ],
)
def test_a_backend_that_refuses_is_not_waited_for(text: str) -> None:
    assert backend_failure(text) is None
