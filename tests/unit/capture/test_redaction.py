"""A capture holds no secret, and everything else as it was."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from actions.base.untrusted import KNOWN
from actions.capture.redaction import redacted_document, redacted_documents, redacted_lines, redacted_text

CORPUS = Path(__file__).parents[2] / "fixtures" / "corpus" / "logs"
TOKEN = "k8s-aws-v1.aHR0cHM6Ly9zdHMuYW1hem9uYXdzLmNvbS8"
CANARIES = {
    "eks token": (f"token {TOKEN} was sent", TOKEN),
    "access key": ("id AKIAIOSFODNN7EXAMPLE here", "AKIAIOSFODNN7EXAMPLE"),
    "secret key": ("aws_secret_access_key=wJalrXUtnFEMI/K7MDENG", "wJalrXUtnFEMI"),
    "bearer": ("Authorization: Bearer abcdef.ghijk", "abcdef.ghijk"),
    "hugging face": ("login hf_abcdefghijklmnopqrstuvwxyz", "hf_abcdefghijklmnopqrstuvwxyz"),
    "jwt": ("eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJ4In0.c2lnbmF0dXJl", "eyJhbGciOiJSUzI1NiJ9.eyJzdWIi"),
    "variable": ("export WANDB_API_KEY=0123456789abcdef0123", "0123456789abcdef0123"),
    "quoted": ("env: {'MY_PASSWORD': 'correct-horse-battery'}", "correct-horse-battery"),
}


@pytest.mark.parametrize("name", CANARIES)
def test_a_secret_is_not_kept(name: str) -> None:
    text, secret = CANARIES[name]
    document = json.dumps({"spec": {"args": ["-c", text], text: 1}}).encode()
    for kept in (
        redacted_text(text).encode(),
        redacted_lines(f"before\n{text}\nafter\n".encode()),
        redacted_document(document),
        redacted_documents(document + b"\n" + b'{"fine":1}\n'),
    ):
        assert secret.encode() not in kept
    assert json.loads(redacted_document(document))
    assert redacted_lines(f"before\n{text}\nafter".encode()).endswith(b"\nafter")


def test_values_of_secret_variables_are_not_kept_wherever_an_object_has_them() -> None:
    secret = "s3cr3t"
    container = {"env": [{"name": "MLFLOW_TRACKING_TOKEN", "value": secret}, {"name": "WORLD_SIZE", "value": "8"}]}
    applied = json.dumps({"spec": {"containers": [container]}}, separators=(",", ":"))
    pod = {"metadata": {"annotations": {"kubectl.kubernetes.io/last-applied-configuration": applied}}}
    kept = redacted_document(json.dumps(pod | {"spec": {"containers": [container]}}, separators=(",", ":")).encode())
    assert secret.encode() not in kept
    assert {"name": "WORLD_SIZE", "value": "8"} in json.loads(kept)["spec"]["containers"][0]["env"]


def test_secrets_that_this_process_has_read_are_named_in_their_place_in_any_form() -> None:
    secret = 'pass"word with\\quotes'
    KNOWN.add(secret, "${env:DB_LOGIN}")
    coded = base64.b64encode(f"x{secret}".encode()).decode()
    kept = redacted_document(json.dumps({"a": f"it is {secret}!", "b": coded}).encode())
    assert json.loads(kept)["a"] == "it is ${env:DB_LOGIN}!"
    assert coded not in kept.decode()


def test_what_only_looks_like_json_is_redacted_as_text() -> None:
    assert TOKEN.encode() not in redacted_document(f'{{"cut": "{TOKEN}'.encode())


def test_bytes_that_are_no_text_stay_as_they_are() -> None:
    data = bytes(range(256)) + b"\n"
    assert redacted_lines(data * 2000) == data * 2000


@pytest.mark.parametrize("file", sorted(CORPUS.glob("*.log")), ids=lambda file: file.stem)
def test_logs_of_trainers_are_kept_as_they_are(file: Path) -> None:
    data = file.read_bytes()
    assert redacted_lines(data) == data
