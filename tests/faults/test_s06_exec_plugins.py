"""S6: a program that a kubeconfig names is started only when somebody has allowed it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from actions.base.files import state_folder
from actions.cluster.auth.exec_plugins import ALLOW_VARIABLE, CONFIRMED, PluginUnconfirmedError, confirm
from actions.run.journal.folder import load_environment
from actions.run.state.view import RunState
from tests.faults.rehearsal import a_sandbox
from tests.faults.small import BLUEPRINT, CONFIG_MAP
from tests.support.answering import answering, write_kubeconfig
from tests.support.program import Program
from tests.support.smallrun import a_small_run, carry_out, torn_down
from tests.support.terminal import Terminal, needs_tmux

REMEDIES = ("--allow-plugin", "EKSML_ALLOW_PLUGINS", "kuberc")
VERSION = '{"gitVersion": "v1.34.4", "items": [], "metadata": {"resourceVersion": "1"}}'


def a_kubeconfig(program: Program, server: str) -> tuple[Path, Path]:
    """A kubeconfig whose plugin leaves a trace, and the trace."""
    trace = program.home / "started"
    plugin = program.home / "cloudco-login"
    plugin.write_text(f"""#!/bin/sh\necho started >> {trace}\necho '{{"status": {{"token": "t"}}}}'\n""")
    plugin.chmod(0o700)
    user = {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": str(plugin), "args": ["--for", "me"]}}
    document = {
        "current-context": "here",
        "clusters": [{"name": "there", "cluster": {"server": server}}],
        "contexts": [{"name": "here", "context": {"cluster": "there", "user": "me"}}],
        "users": [{"name": "me", "user": user}],
    }
    file = program.home / "kubeconfig"
    file.write_text(json.dumps(document))
    return file, trace


@pytest.mark.parametrize("verb", [["nodes"], ["why"], ["watch", "job/x"]])
def test_s6_without_a_terminal_it_is_refused_in_one_sentence(program: Program, verb: list[str]) -> None:
    file, trace = a_kubeconfig(program, "http://127.0.0.1:1")
    done = program.command("--kubeconfig", str(file), *verb)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert f"{file} would start {program.home}/cloudco-login" in done.stderr
    assert all(remedy in done.stderr for remedy in REMEDIES)
    assert not trace.exists()


def test_s6_a_script_is_refused_before_it_plays(program: Program) -> None:
    file, trace = a_kubeconfig(program, "http://127.0.0.1:1")
    script = program.home / "script.yaml"
    script.write_text("eksml-script: 1\nsteps: [{open: nodes}]\n")
    done = program.run("--kubeconfig", str(file), "--script", str(script))
    assert (done.returncode, done.stdout) == (2, "")
    assert "has not been allowed" in done.stderr
    assert not trace.exists()


def test_s6_a_flag_or_a_kuberc_allows_it(program: Program) -> None:
    with answering(200, VERSION) as server:
        file, trace = a_kubeconfig(program, server)
        allowed = program.command(
            "--kubeconfig", str(file), "--allow-plugin", str(program.home / "cloudco-login"), "nodes"
        )
        assert "has not been allowed" not in allowed.stderr
        assert trace.read_text() == "started\n"
        kuberc = program.home / ".kube" / "kuberc"
        kuberc.parent.mkdir()
        preference = {"apiVersion": "kubectl.config.k8s.io/v1beta1", "kind": "Preference"}
        kuberc.write_text(json.dumps(preference | {"credentialPluginPolicy": "AllowAll"}))
        program.command("--kubeconfig", str(file), "nodes")
        assert trace.read_text() == "started\n" * 2
        kuberc.write_text(json.dumps(preference | {"credentialPluginPolicy": "DenyAll"}))
        denied = program.command("--kubeconfig", str(file), "--allow-plugin", "cloudco-login", "nodes")
        assert denied.returncode == 2
        assert "forbids all exec plugins" in denied.stderr
        assert trace.read_text() == "started\n" * 2


async def test_s6_a_run_keeps_what_was_allowed_when_it_was_launched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    with a_sandbox("plugin", speed=60.0) as sandbox:
        document = yaml.safe_load(sandbox.kubeconfig.read_bytes())
        plugin = tmp_path / "cloudco-login"
        plugin.write_text(
            f"""#!/bin/sh\necho '{{"status": {{"token": "{document["users"][0]["user"]["token"]}"}}}}'\n"""
        )
        plugin.chmod(0o700)
        document["users"][0]["user"] = {"exec": {"command": str(plugin)}}
        kubeconfig = tmp_path / "with-plugin"
        kubeconfig.write_text(yaml.safe_dump(document))
        files = {"blueprint.yaml": BLUEPRINT, "objects.yaml": CONFIG_MAP.replace("NAME", "of-a-plugin")}
        with pytest.raises(PluginUnconfirmedError) as unconfirmed:
            a_small_run(tmp_path, files, kubeconfig=kubeconfig)
        confirm(unconfirmed.value.request)
        folder = a_small_run(tmp_path, files, kubeconfig=kubeconfig)
        assert (await carry_out(folder)).state is RunState.SUCCEEDED
        (state_folder() / CONFIRMED).unlink()
        plugin.write_text(plugin.read_text() + "# of a newer version\n")
        assert (await torn_down(folder)).state is RunState.TORN_DOWN


def test_s6_a_run_keeps_the_names_that_were_allowed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ALLOW_VARIABLE, "cloudco-login")
    files = {"blueprint.yaml": BLUEPRINT, "objects.yaml": CONFIG_MAP.replace("NAME", "of-a-plugin")}
    folder = a_small_run(tmp_path, files, kubeconfig=write_kubeconfig(tmp_path / "config", "http://127.0.0.1:1"))
    assert load_environment(folder)[ALLOW_VARIABLE] == "cloudco-login"


@needs_tmux
@pytest.mark.terminal
def test_s6_on_a_terminal_it_is_asked_once(program: Program) -> None:
    with answering(200, VERSION) as server:
        file, trace = a_kubeconfig(program, server)

        def a_terminal() -> Terminal:
            argv = program.argv("--kubeconfig", str(file), "--readonly")
            return Terminal(argv, environment=program.environment, size=(100, 30), directory=program.home)

        refusing = a_terminal()
        try:
            refusing.wait("Start this program for a token")
            refusing.wait(r"--for")
            assert not trace.exists()
            refusing.press("n")
            assert refusing.wait_end() == 2
            assert "not been allowed" in refusing.text().replace("\n", "")  # it may wrap anywhere
        finally:
            refusing.close()
        assert not trace.exists()
        for expected in ("Start this program for a token", ""):
            console = a_terminal()
            try:
                if expected:
                    console.wait(expected)
                    console.press("y")
                console.until(trace.exists, "the start of the plugin")
                console.wait("nodes")
                assert "Start this program" not in console.text()
            finally:
                console.close()
            trace.unlink()
