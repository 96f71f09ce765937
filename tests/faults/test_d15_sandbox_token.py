"""D15: the sandbox asks for a token of its own, which other users of the machine cannot read."""

from __future__ import annotations

import json
import signal
import stat
import subprocess
from pathlib import Path

import pytest

from actions.cluster.auth.kubeconfig import ClusterTarget, load_context
from actions.sandbox.locate import RunningSandbox
from tests.faults.rehearsal import a_sandbox
from tests.support.otheruser import as_nobody, needs_another_user, status_for_nobody
from tests.support.polling import wait
from tests.support.program import Program
from tests.support.sandboxes import account_of, http_of

SANDBOX_SPEED = 60.0
SANDBOX_IS_EXECUTED = True
SECRETS = "/api/v1/namespaces/default/secrets"
UPGRADE = ("-H", "Connection: Upgrade", "-H", "Upgrade: websocket", "-H", "Sec-WebSocket-Version: 13",
           "-H", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==")  # fmt: skip


def _secrets_of(sandbox: RunningSandbox) -> dict[str, str]:
    account = account_of(sandbox.folder)
    return {
        "administrator": load_context(ClusterTarget(sandbox.kubeconfig)).token,
        "viewer": load_context(ClusterTarget(sandbox.kubeconfig, context="viewer")).token,
        "access key": account["AWS_ACCESS_KEY_ID"],
        "secret key": account["AWS_SECRET_ACCESS_KEY"],
    }


@needs_another_user
def test_d15_another_user_gets_401(sandbox: RunningSandbox) -> None:
    url = sandbox.process.url
    for path in (SECRETS, "/api", "/apis", "/openapi/v3", "/sandbox/faults", "/nothing"):
        assert status_for_nobody(url + path) == 401, path
    assert status_for_nobody(f"{url}/sandbox/faults", "-d", '{"kind": "broken"}') == 401
    assert status_for_nobody(f"{url}{SECRETS}", "-H", "Authorization: Bearer guessed") == 401
    assert status_for_nobody(f"{url}{SECRETS}", "-H", "Authorization: Bearer k8s-aws-v1.aHR0cHM6Ly9zdHM") == 401
    assert status_for_nobody(f"{url}{SECRETS}", "-H", "Impersonate-User: viewer") == 401
    assert status_for_nobody(f"{url}/api/v1/namespaces/default/pods/p/exec?command=id", *UPGRADE) == 401
    assert status_for_nobody(f"{url}/version") == 200
    told = json.loads(as_nobody("curl", "-k", "-s", url + SECRETS).stdout)
    assert (told["kind"], told["status"], told["reason"], told["code"]) == ("Status", "Failure", "Unauthorized", 401)


@needs_another_user
def test_d15_another_user_gets_nothing_of_the_account(sandbox: RunningSandbox) -> None:
    endpoint = sandbox.process.aws_endpoint_url
    signed = "Authorization: AWS4-HMAC-SHA256 Credential=demo/20250101/us-west-2/eks/aws4_request, SignedHeaders=host"
    for arguments in ((), ("-H", signed), ("-d", "Action=GetCallerIdentity&Version=2011-06-15")):
        assert status_for_nobody(f"{endpoint}/", *arguments) == 403
    assert status_for_nobody(f"{endpoint}/clusters") == 403


@needs_another_user
def test_d15_another_user_cannot_read_the_token(sandbox: RunningSandbox) -> None:
    for file in sandbox.folder.iterdir():
        assert as_nobody("cat", str(file)).returncode != 0, file.name


def test_d15_the_secrets_are_in_private_files_only(sandbox: RunningSandbox) -> None:
    secrets = _secrets_of(sandbox)
    assert all(len(secret) >= 20 for secret in secrets.values())
    assert stat.S_IMODE(sandbox.folder.stat().st_mode) == 0o700
    holders = set()
    for file in filter(Path.is_file, sandbox.folder.iterdir()):
        assert stat.S_IMODE(file.stat().st_mode) == 0o600, file.name
        if any(secret in file.read_text(errors="replace") for secret in secrets.values()):
            holders.add(file.name)
    assert holders == {"kubeconfig", "aws-credentials"}
    pid = sandbox.process.pid
    for what in ("cmdline", "environ"):
        told = Path(f"/proc/{pid}/{what}").read_bytes()
        assert not [name for name, secret in secrets.items() if secret.encode() in told]


def test_d15_each_start_makes_new_secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    with a_sandbox("twice") as first:
        before = _secrets_of(first)
    with a_sandbox("twice") as second:
        after = _secrets_of(second)
    assert not set(before.values()) & set(after.values())


async def test_d15_the_owner_gets_in(sandbox: RunningSandbox) -> None:
    async with http_of(sandbox.kubeconfig) as http, http.get(SECRETS) as answer:
        assert answer.status == 200
    async with http_of(sandbox.kubeconfig, has_token=False) as http, http.get(SECRETS) as answer:
        assert answer.status == 401


def test_d15_the_verb_tells_of_the_kubeconfig_and_of_no_token(program: Program) -> None:
    said = program.home / "said"
    with said.open("w") as output:
        argv = program.argv("sandbox", "--name", "shown")
        child = subprocess.Popen(argv, env=dict(program.environment), stdout=output, stderr=output)
    try:
        wait(lambda: said.read_text().count("\n") >= 3, "three lines of output")
        first, second, *_ = said.read_text().splitlines()
        kubeconfig = Path(first)
        assert kubeconfig == program.kubeconfig("shown")
        assert f"kubectl --kubeconfig {kubeconfig}" in second
        token = load_context(ClusterTarget(kubeconfig)).token
        assert token
        assert program.command("sandbox", "--name", "shown", "faults", "overloaded").returncode == 0
    finally:
        child.send_signal(signal.SIGTERM)
        child.wait(timeout=60)
    assert token not in said.read_text()
