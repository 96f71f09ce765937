"""The ids of locks in Terraform's own log. Recorded from Terraform 1.11.4."""

from __future__ import annotations

from pathlib import Path

import pytest

from actions.terraform.detached import lock_ids, logged_to

OWN = "f750acd4-0c4f-4a2c-d2c4-486a17f4876c"
OTHER = "5b5e3a6d-63fe-4f55-8a5f-4f4a3d4e7b10"
ATTEMPT = (
    "2026-11-23T18:22:19.480Z [INFO]  backend-s3: Attempting to lock remote state (S3 Native only)...: "
    f'tf_backend.lock.id={OWN} tf_backend.lock.info="" tf_backend.lock.operation=OperationTypePlan '
    "tf_backend.lock.path=team-runs/ml/net.tfstate tf_backend.lock.version=1.11.4 tf_backend.lock.who=root@vm "
    "tf_backend.operation=Lock tf_backend.req_id=1c6f5dac-4f39-bbb4-781a-5dc01b77a9e6\n"
)


def test_an_attempt_names_the_lock_and_a_release_does_not(tmp_path: Path) -> None:
    log = tmp_path / "plan.log"
    unlock = f"2026-11-23T18:22:20Z [INFO]  backend-s3: Attempting to unlock remote state: tf_backend.lock.id={OTHER}\n"
    log.write_text(f"2026-11-23T18:22:19Z [INFO]  Terraform version: 1.11.4\n{ATTEMPT}{ATTEMPT}{unlock}")
    assert lock_ids(log) == (OWN,)
    assert lock_ids(tmp_path / "none.log") == ()


def test_each_process_gets_a_private_empty_log(tmp_path: Path) -> None:
    log = tmp_path / "plan.log"
    log.write_text(ATTEMPT)
    assert logged_to(log, {}) == {"TF_LOG_CORE": "INFO", "TF_LOG_PATH": str(log)}
    assert (log.read_bytes(), log.stat().st_mode & 0o777) == (b"", 0o600)


@pytest.mark.parametrize("name", ["TF_LOG", "TF_LOG_CORE", "TF_LOG_PATH"])
def test_an_operators_own_logging_stays_and_an_earlier_log_is_not_taken_for_this_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    log = tmp_path / "plan.log"
    log.write_text(ATTEMPT)
    assert logged_to(log, {name: "TRACE"}) == {}
    assert lock_ids(log) == ()
    monkeypatch.setenv(name, "TRACE")
    assert logged_to(log, {}) == {}
