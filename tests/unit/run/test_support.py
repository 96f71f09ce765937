"""The archive for a bug report: no secret is in it, what could not be had is named, names are masked on request."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from actions.base.clock import SystemClock
from actions.base.errors import ConfigError, UnreachableError
from actions.base.untrusted import KNOWN
from actions.run.client import load_run
from actions.run.journal.folder import blueprint_path, environment_path, kubeconfig_path, runner_log_path
from actions.run.support.archive import list_text, write_archive
from actions.run.support.filters import SupportFilter, learn_secrets
from actions.run.support.pieces import LOG_BYTES, Piece, run_pieces
from tests.support.fixed_runs import store_text
from tests.unit.run.world import make_run

CLOCK = SystemClock()
CANARIES = {
    "MY_HUB_TOKEN": "canary-of-the-shell-1",
    "DB_PASSWORD": "canary of the run 22",
    "IN_FILE": "canary-in-a-file-333",
    "KUBE": "canary.kube.token.4444",
    "KEY_DATA": "Y2FuYXJ5LWNsaWVudC1rZXktNTU1NTU=",
    "TERRAFORM": "canary-terraform-666",
    "SENSITIVE": "canary-sensitive-output-7",
}
UNKNOWN = {
    "named": ("wandb: api_key=canary-named-88888888 ok", "canary-named-88888888"),
    "json": ('{"auth":{"password":"canary-json-9"}}', "canary-json-9"),
    "escaped": ('"{\\"token\\": \\"canary-escaped-10\\"}"', "canary-escaped-10"),
    "address": ("fatal: https://bob:canary-pass-11@git.example/x.git", "canary-pass-11"),
    "header": ("Authorization: Basic Y2FuYXJ5LWJhc2ljLTEy", "Y2FuYXJ5LWJhc2ljLTEy"),
    "key": ("-----BEGIN RSA PRIVATE KEY-----\nY2FuYXJ5a2V5MTM=\n-----END RSA PRIVATE KEY-----", "Y2FuYXJ5a2V5MTM="),
    "cut key": ("Y2FuYXJ5a2V5MTRzc3Nzc3NzcwAA\nAAAABBBB\n-----END PRIVATE KEY-----", "Y2FuYXJ5a2V5MTRzc3Nzc3NzcwAA"),
    "access key": ("AKIACANARYCANARY0015", "AKIACANARYCANARY0015"),
    "webhook": ("POST https://hooks.slack.com/services/T0/B0/canaryWebhook17", "canaryWebhook17"),
    "model hub": ("sk-canarycanarycanary16x", "sk-canarycanarycanary16x"),
}  # fmt: skip
HARMLESS = "tokens=4096 token: 17 secretName: web password: env:HUB token_file=/x secret: file:/key access_key: null"


@pytest.fixture(autouse=True)
def _no_secrets() -> Iterator[None]:
    KNOWN.forget()
    yield
    KNOWN.forget()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = make_run(tmp_path, CLOCK)
    secret = tmp_path / "key.txt"
    secret.write_text(CANARIES["IN_FILE"])
    environment_path(folder).write_text(json.dumps({"DB_PASSWORD": CANARIES["DB_PASSWORD"], "AWS_REGION": "us-west-2"}))
    user = {"name": "me", "user": {"token": CANARIES["KUBE"], "client-key-data": CANARIES["KEY_DATA"]}}
    kubeconfig_path(folder).write_text(json.dumps({"users": [user]}))
    terraform = folder / "terraform" / "provision"
    terraform.mkdir(parents=True)
    (terraform / "run.tfvars.json").write_text(json.dumps({"grafana_password": CANARIES["TERRAFORM"]}))
    output = {"value": {"inner": CANARIES["SENSITIVE"]}, "sensitive": True}
    (terraform / "terraform.tfstate").write_text(json.dumps({"version": 4, "outputs": {"any": output}}))
    everything = "\n".join([*CANARIES.values(), *(text for text, _ in UNKNOWN.values()), HARMLESS])
    runner_log_path(folder).write_text(everything)
    store_text(folder, "train", "train-0", everything + "\n")
    return folder


def archived(folder: Path, tmp_path: Path, *pieces: Piece, masked: dict[str, str] | None = None) -> dict[str, str]:
    """Make an archive; return its texts by name."""
    parameters = {"key": f"file:{tmp_path / 'key.txt'}", "workers": 2}
    learn_secrets(folder, parameters, {"MY_HUB_TOKEN": CANARIES["MY_HUB_TOKEN"], "EDITOR": "vi"})
    file = tmp_path / "report.tar.gz"
    made = [*run_pieces(folder, load_run(folder), CLOCK), *pieces]
    listed = write_archive(file, made, SupportFilter(masked), name="support-x", made_at=CLOCK.now())
    assert file.stat().st_mode & 0o777 == 0o600
    with tarfile.open(file) as archive:
        texts = {}
        for member in archive.getmembers():
            opened = archive.extractfile(member)
            assert opened is not None
            assert member.mode == 0o600
            texts[member.name.removeprefix("support-x/")] = opened.read().decode("utf-8", "replace")
    assert [one.name for one in listed if not one.is_missing] == list(texts)[-1:] + list(texts)[:-1]
    return texts


def test_the_components_of_the_runs_blueprint_are_in_it(folder: Path, tmp_path: Path) -> None:
    component = blueprint_path(folder) / "common" / "network.yaml"
    component.parent.mkdir(parents=True)
    component.write_text("stages: {}\n")
    assert archived(folder, tmp_path)["common/network.yaml"] == "stages: {}\n"


def test_no_secret_is_in_it_and_what_is_none_stays(folder: Path, tmp_path: Path) -> None:
    texts = archived(folder, tmp_path)
    assert {"journal.txt", "runner.log", "run.txt", "run.json", "terraform.txt", "logs/train.log"} < set(texts)
    whole = "\n".join(texts.values())
    for secret in (*CANARIES.values(), *(hidden for _, hidden in UNKNOWN.values())):
        assert secret not in whole, secret
    assert HARMLESS in texts["runner.log"]
    assert "${env:MY_HUB_TOKEN}" in texts["logs/train.log"]
    assert texts["environment-of-run.txt"].split() == ["AWS_REGION", "DB_PASSWORD"]
    assert "created" in texts["journal.txt"].splitlines()[0]
    assert "runner.log" in texts["README.txt"]


def test_names_are_masked_the_same_in_all_files(folder: Path, tmp_path: Path) -> None:
    text = (
        "arn:aws:sts::123456789012:assumed-role/Trainer/jane@acme 123456789012.dkr.ecr.us-west-2.amazonaws.com/x:1 "
        "ip-10-0-1-7.us-west-2.compute.internal 10.0.1.7 127.0.0.1 bastion-7 jane@bastion-7 step 1234567890123456 "
        "0123456789ABCDEF0123456789ABCDEF.gr7.us-west-2.eks.amazonaws.com driver 570.86.15"
    )
    two = [Piece(name, "", lambda: text) for name in ("one.txt", "two.txt")]
    texts = archived(folder, tmp_path, *two, masked={"bastion-7": "host", "jane": "user"})
    assert texts["one.txt"] == texts["two.txt"]
    for hidden in ("123456789012.", "123456789012:", "ip-10-0", "10.0.1.7", "bastion", "jane", "eks.amazonaws"):
        assert hidden not in texts["one.txt"], hidden
    for kept in ("127.0.0.1", "1234567890123456", "570.86.15", "account-1.dkr.ecr"):
        assert kept in texts["one.txt"], kept
    unmasked = SupportFilter(None).text(text)
    assert unmasked == text


def test_what_cannot_be_had_is_named_and_the_rest_is_there(folder: Path, tmp_path: Path) -> None:
    def fail() -> str:
        raise UnreachableError("Nobody answers at 10.0.0.1.")

    (folder / "journal.jsonl").write_bytes(b"no database")
    runner_log_path(folder).unlink()
    pieces = [*run_pieces(folder, None, CLOCK), Piece("cluster.json", "the cluster", fail)]
    listed = write_archive(tmp_path / "a.tar.gz", pieces, SupportFilter({}), name="x", made_at=CLOCK.now())
    missing = {one.name: one.about for one in listed if one.is_missing}
    assert set(missing) >= {"journal.txt", "runner.log", "cluster.json"}
    assert "Nobody answers at host-1." in missing["cluster.json"]
    assert "logs/train.log" in list_text(listed)


def test_an_archive_replaces_nothing_and_a_failed_one_leaves_nothing(tmp_path: Path) -> None:
    file = tmp_path / "report.tar.gz"
    file.write_text("mine")
    with pytest.raises(ConfigError, match="exists"):
        write_archive(file, [], SupportFilter(None), name="x", made_at=CLOCK.now())
    assert file.read_text() == "mine"

    def fail() -> str:
        raise KeyboardInterrupt

    pieces = [Piece("a", "", fail)]
    with pytest.raises(KeyboardInterrupt):
        write_archive(tmp_path / "b.tar.gz", pieces, SupportFilter(None), name="x", made_at=CLOCK.now())
    assert [path.name for path in tmp_path.iterdir()] == ["report.tar.gz"]


def test_a_log_is_cut_to_its_end_at_the_begin_of_a_line(folder: Path, tmp_path: Path) -> None:
    store_text(folder, "data", "data-0", "".join(f"line {number:07}\n" for number in range(60_000)))
    text = archived(folder, tmp_path)["logs/data.log"]
    assert len(text) < 2 * LOG_BYTES
    assert text.splitlines()[-1].endswith("line 0059999")
    assert all(" data-0 line " in line for line in text.splitlines())
