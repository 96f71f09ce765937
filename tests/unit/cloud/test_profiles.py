"""The credentials that count, those that would ask at the terminal, and when they end. Without a network."""

from __future__ import annotations

import getpass
import hashlib
import json
from argparse import Namespace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from actions.base.errors import AccessError
from actions.cloud.account import end_sentence, fetch_end, fetch_identity
from actions.cloud.aws_session import AwsSession, profile_environment
from tests.unit.cloud.fake_aws import FakeAws
from tui.cli.plan import credentials_warning
from tui.cli.target import aws_environment

NOW = datetime(2026, 11, 22, 12, 0, tzinfo=UTC)
CONFIG = """
[profile ops]
aws_access_key_id = AKIAOPS
aws_secret_access_key = x
region = eu-west-1

[profile mfa]
role_arn = arn:aws:iam::111122223333:role/ops
source_profile = ops
mfa_serial = arn:aws:iam::111122223333:mfa/op

[profile above-mfa]
role_arn = arn:aws:iam::111122223333:role/above
source_profile = mfa

[sso-session corp]
sso_start_url = https://corp.awsapps.com/start
sso_region = us-east-1

[profile login]
sso_session = corp
sso_account_id = 111122223333
sso_role_name = Ops

[profile old-login]
sso_start_url = https://old.awsapps.com/start
sso_region = us-east-1
sso_account_id = 111122223333
sso_role_name = Ops
"""


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "config").write_text(CONFIG)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr("botocore.credentials.SSOProvider._SSO_TOKEN_CACHE_DIR", str(tmp_path / ".aws/sso/cache"))


@pytest.fixture
def _no_prompt(monkeypatch: pytest.MonkeyPatch) -> None:
    def prompted(_text: str = "") -> str:
        raise AssertionError("a prompt over the screen")

    monkeypatch.setattr(getpass, "getpass", prompted)
    monkeypatch.setattr("builtins.input", prompted)


def a_login(home: Path, name: str, **fields: str) -> None:
    cache = home / ".aws" / "sso" / "cache"
    cache.mkdir(parents=True, exist_ok=True)
    token = {"accessToken": "t", **fields}
    (cache / f"{hashlib.sha1(name.encode()).hexdigest()}.json").write_text(json.dumps(token))


def keys_of(session: AwsSession) -> str:
    return str(session.raw().get_credentials().access_key)


def test_a_profile_of_the_command_line_wins_over_exported_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAEXPORTED")
    given = aws_environment(Namespace(profile="ops", region="us-east-2"))
    assert given == {**profile_environment("ops"), "AWS_REGION": "us-east-2"}
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    assert keys_of(AwsSession()) == keys_of(AwsSession(profile="ops")) == "AKIAOPS"


def test_without_a_profile_the_environment_stays_as_it_is() -> None:
    assert aws_environment(Namespace(profile="", region="")) == {}
    assert profile_environment("") == {}


def test_a_web_identity_does_not_win_over_a_profile_either(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("AWS_ROLE_ARN", "arn:aws:iam::111122223333:role/pod")
    monkeypatch.setenv("AWS_WEB_IDENTITY_TOKEN_FILE", str(tmp_path / "token"))
    for name, value in profile_environment("ops").items():
        monkeypatch.setenv(name, value)
    assert keys_of(AwsSession()) == "AKIAOPS"


@pytest.mark.usefixtures("_no_prompt")
@pytest.mark.parametrize("profile", ["mfa", "above-mfa"])
async def test_a_profile_with_mfa_gets_a_sentence_and_no_prompt(profile: str) -> None:
    with pytest.raises(AccessError) as caught:
        await fetch_identity(AwsSession(profile=profile, region="us-west-2"))
    assert "The AWS profile mfa asks for an MFA code" in caught.value.message
    assert "aws sts get-session-token --serial-number arn:aws:iam::111122223333:mfa/op" in caught.value.hint


async def test_exported_keys_count_before_a_profile_with_mfa_that_is_only_exported(
    aws: FakeAws, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_PROFILE", "mfa")
    identity = await fetch_identity(AwsSession(region="us-west-2"))
    assert (identity.account, identity.partition) == ("111122223333", "aws")


@pytest.mark.usefixtures("_no_prompt")
@pytest.mark.parametrize("profile", ["login", "old-login"])
async def test_a_missing_login_gets_the_command_for_it(profile: str) -> None:
    with pytest.raises(AccessError) as caught:
        await fetch_identity(AwsSession(profile=profile, region="us-west-2"))
    assert f"The login of the profile {profile} is missing or has ended" in caught.value.message
    assert f"aws sso login --profile {profile}" in caught.value.hint


async def test_a_login_without_a_refresh_token_ends_with_its_token(tmp_path: Path) -> None:
    a_login(tmp_path, "https://old.awsapps.com/start", expiresAt="2026-11-22T13:00:00Z")
    assert await fetch_end(AwsSession(profile="old-login")) == NOW + timedelta(hours=1)


async def test_what_renews_itself_has_no_known_end(tmp_path: Path) -> None:
    a_login(tmp_path, "corp", expiresAt="2026-11-22T13:00:00Z", refreshToken="r")
    assert await fetch_end(AwsSession(profile="login")) is None
    assert await fetch_end(AwsSession(profile="ops")) is None


async def test_exported_credentials_end_when_they_say(monkeypatch: pytest.MonkeyPatch) -> None:
    assert await fetch_end(AwsSession()) is None
    monkeypatch.setenv("AWS_CREDENTIAL_EXPIRATION", "2026-11-22T12:40:00Z")
    assert await fetch_end(AwsSession()) == NOW + timedelta(minutes=40)
    assert await fetch_end(AwsSession(profile="ops")) is None


def test_an_end_before_the_runs_is_said() -> None:
    ends_at = NOW + timedelta(minutes=40)
    assert end_sentence(ends_at, seconds=1800, now=NOW) == ""
    assert end_sentence(None, seconds=1e9, now=NOW) == ""
    assert "end at 12:40 UTC, before the run may" in end_sentence(ends_at, seconds=3600, now=NOW)
    assert "have expired" in end_sentence(NOW, seconds=3600, now=NOW)


def test_a_plan_warns_without_any_request(monkeypatch: pytest.MonkeyPatch) -> None:
    assert credentials_warning("", 3600) == ""
    monkeypatch.setenv("AWS_CREDENTIAL_EXPIRATION", "2020-01-01T00:00:00Z")
    assert "have expired" in credentials_warning("", 3600)
    assert "asks for an MFA code" not in credentials_warning("ops", 3600)
