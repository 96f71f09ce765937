"""Our own exec plugin, with which neither Terraform nor kubectl needs the program `aws`."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from actions.base.files import shipped_blueprints
from actions.base.process import own_module
from actions.cloud.eks import EXEC_MODULE, EksCluster, TokenRequest, kubeconfig_for, request_of

CLUSTER = EksCluster("x", "us-west-2", "arn:aws:eks:us-west-2:1:cluster/x", "ACTIVE", "1.33", "https://x", "")
ARGUMENTS = ["--cluster-name", "x", "--region", "eu-west-1"]


def started(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    known = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    variables = {**known, "AWS_EC2_METADATA_DISABLED": "true", "AWS_CONFIG_FILE": os.devnull, **environment}
    command = [sys.executable, "-P", "-m", EXEC_MODULE, *arguments]
    return subprocess.run(command, env=variables, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)


def test_it_prints_what_the_cluster_takes(tmp_path: Path) -> None:
    done = started(*ARGUMENTS, AWS_ACCESS_KEY_ID="AKIAX", AWS_SECRET_ACCESS_KEY="s", HOME=str(tmp_path))
    assert (done.returncode, done.stderr) == (0, "")
    document = json.loads(done.stdout)
    assert (document["kind"], document["apiVersion"]) == ("ExecCredential", "client.authentication.k8s.io/v1beta1")
    assert document["status"]["expirationTimestamp"].endswith("Z")
    body = document["status"]["token"].removeprefix("k8s-aws-v1.")
    url = base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)).decode()
    assert url.startswith("https://sts.eu-west-1.amazonaws.com/?Action=GetCallerIdentity")
    assert "AKIAX" in url


@pytest.mark.parametrize("arguments", [[], ["--cluster-name"], [*ARGUMENTS, "--role-arn", "r"], ["eks", *ARGUMENTS]])
def test_a_failure_is_one_line(tmp_path: Path, arguments: list[str]) -> None:
    done = started(*arguments, HOME=str(tmp_path))
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert "--cluster-name NAME" in done.stderr


def test_without_credentials_it_fails_with_a_sentence(tmp_path: Path) -> None:
    done = started(*ARGUMENTS, HOME=str(tmp_path), AWS_SHARED_CREDENTIALS_FILE=os.devnull)
    assert done.returncode == 1
    assert "There are no AWS credentials" in done.stderr


def test_this_program_makes_the_token_itself_whichever_installation_wrote_the_file() -> None:
    for python in (sys.executable, "/gone/bin/python3"):
        for options in (["-P"], []):
            argv = [python, *options, "-m", EXEC_MODULE, *ARGUMENTS]
            assert request_of(argv) == TokenRequest("x", "eu-west-1", "")
    assert request_of([sys.executable, "-m", "http.server", *ARGUMENTS]) is None
    assert request_of([sys.executable, "-c", EXEC_MODULE, *ARGUMENTS]) is None


def test_a_kubeconfig_names_it_where_there_is_no_aws_program() -> None:
    for has_aws_cli, command in ((True, "aws"), (False, own_module(EXEC_MODULE)[0])):
        written = yaml.safe_load(kubeconfig_for(CLUSTER, profile="ops", has_aws_cli=has_aws_cli))
        plugin = written["users"][0]["user"]["exec"]
        assert plugin["command"] == command
        assert plugin["env"] == [{"name": "AWS_PROFILE", "value": "ops"}]
        assert request_of([plugin["command"], *plugin["args"]]) == TokenRequest("x", "us-west-2", "")


def test_the_shared_cluster_root_needs_no_aws_program() -> None:
    from actions.base.files import shipped_blueprints

    text = (shipped_blueprints() / "common" / "terraform" / "cluster" / "versions.tf").read_text()
    assert EXEC_MODULE in text
    assert 'command     = "aws"' not in text


def test_the_helm_releases_of_the_cluster_root_need_no_program_but_this_one() -> None:
    """With `aws` in its place they would fail where it is not, after the cluster is made and paid for."""
    root = shipped_blueprints() / "common" / "terraform" / "cluster" / "versions.tf"
    assert f'[var.token_program, "-P", "-m", "{EXEC_MODULE}"]' in root.read_text(encoding="utf-8")
