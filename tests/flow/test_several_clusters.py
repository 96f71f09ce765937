"""Two clusters that are processes of their own, in one kubeconfig: one is stopped and comes back; plugins hang."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from msgspec.structs import replace

from actions.cluster.auth.kubeconfig import ClusterTarget
from actions.sandbox.locate import RunningSandbox
from tests.faults.rehearsal import a_sandbox
from tests.support.program import Program
from tests.support.waiting import settle, wait_for
from tui.app import ConsoleApp
from tui.settings.settings import ConsoleSettings
from tui.textual_private import screen_text

SIZE = (160, 45)
PLUGIN = "client.authentication.k8s.io/v1"


@pytest.fixture
def sandboxes(program: Program, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, RunningSandbox]]:
    for name in ("XDG_STATE_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, program.environment[name])
    with a_sandbox("east") as east, a_sandbox("west") as west:
        try:
            yield {"east": east, "west": west}
        finally:
            os.kill(west.process.identity().pid, signal.SIGCONT)


def write_contexts(file: Path, sandboxes: dict[str, RunningSandbox], plugins: dict[str, Path] | None = None) -> None:
    """Write one kubeconfig with a context for each sandbox, and for each plugin one that leads to the first of them."""
    document: dict[str, Any] = {"current-context": "east", "contexts": [], "clusters": [], "users": []}

    def add(name: str, cluster: object, user: object) -> None:
        document["clusters"].append({"name": name, "cluster": cluster})
        document["users"].append({"name": name, "user": user})
        document["contexts"].append({"name": name, "context": {"cluster": name, "user": name}})

    for name, sandbox in sandboxes.items():
        known = yaml.safe_load(sandbox.kubeconfig.read_text())
        add(name, known["clusters"][0]["cluster"], known["users"][0]["user"])
    for name, path in (plugins or {}).items():
        plugin = {"apiVersion": PLUGIN, "command": str(path), "interactiveMode": "Never"}
        add(name, document["clusters"][0]["cluster"], {"exec": plugin})
    file.write_text(yaml.safe_dump(document))


def a_plugin(file: Path, script: str) -> Path:
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(0o700)
    return file


def nodes_of(program: Program, kubeconfig: Path, *arguments: str) -> tuple[int, dict[str, Any], str]:
    """Exit code, document and errors of `nodes`."""
    done = program.command("--kubeconfig", str(kubeconfig), *arguments, "nodes", "-o", "json")
    return done.returncode, json.loads(done.stdout), done.stderr


async def test_one_of_two_that_is_stopped_is_unknown_or_as_last_seen_and_comes_back(
    program: Program, sandboxes: dict[str, RunningSandbox], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other one goes on: its nodes are read while the first one is silent."""
    kubeconfig, west = program.home / "two", sandboxes["west"].process.identity().pid
    write_contexts(kubeconfig, sandboxes)
    monkeypatch.setattr("tui.cli.tables.clusters.ANSWER_SECONDS", 15.0)
    settings = ConsoleSettings(target=ClusterTarget(kubeconfig, "east"), contexts=("east", "west"))
    assert nodes_of(program, kubeconfig, "--contexts", "all")[0] == 0

    app = ConsoleApp(settings)
    async with app.run_test(size=SIZE, notifications=True) as pilot:

        async def shows(*texts: str) -> None:
            await wait_for(pilot, lambda: all(text in screen_text(app) for text in texts), f"{texts} on screen")

        await shows("Fleet of 2 clusters", "▶ east · live", "  west · live", "4 nodes, all ready")
        os.kill(west, signal.SIGSTOP)
        app.dispatcher.submit("open nodes")
        await shows("CLUSTER", "as last seen", "? west")
        code, document, errors = nodes_of(program, kubeconfig, "--contexts", "west,east")
        assert (code, errors.count("eksml-tui: west: ")) == (1, 1)
        assert {one["context"]: one["summary"] is None for one in document["clusters"]} == {"east": False, "west": True}
        assert {node["cluster"] for node in document["nodes"]} == {"east"}
        app.dispatcher.submit("cordon node/" + document["nodes"][0]["name"])
        await shows("Cordon Node", "context east")
        await settle(pilot)
        await pilot.press("y")
        await shows("◐ Cordoned")
        os.kill(west, signal.SIGCONT)
        await wait_for(pilot, lambda: "as last seen" not in screen_text(app), "it is back")

    os.kill(west, signal.SIGSTOP)
    again = ConsoleApp(replace(settings, contexts=("east", "west")))
    async with again.run_test(size=SIZE) as pilot:
        found: Callable[[str], bool] = lambda text: text in screen_text(again)  # noqa: E731
        await wait_for(pilot, lambda: found("? nodes · ? $/h") and found("≥ 2 nodes"), "east without west")
        os.kill(west, signal.SIGCONT)
        await wait_for(pilot, lambda: found("4 nodes"), "both")


def test_a_plugin_that_fails_or_hangs_is_of_its_own_context_alone(
    program: Program, sandboxes: dict[str, RunningSandbox], monkeypatch: pytest.MonkeyPatch
) -> None:
    token = yaml.safe_load(sandboxes["east"].kubeconfig.read_text())["users"][0]["user"]["token"]
    answer = json.dumps({"apiVersion": PLUGIN, "kind": "ExecCredential", "status": {"token": token}})
    plugins = {
        "login": a_plugin(program.home / "login", f"echo '{answer}'"),
        "broken": a_plugin(program.home / "broken", "echo no session >&2; exit 3"),
        "hangs": a_plugin(program.home / "hangs", "exec sleep 600"),
    }
    kubeconfig = program.home / "many"
    write_contexts(kubeconfig, sandboxes, plugins)
    monkeypatch.setattr("tui.cli.tables.clusters.ANSWER_SECONDS", 15.0)
    allowed = [word for path in plugins.values() for word in ("--allow-plugin", str(path))]
    code, document, errors = nodes_of(program, kubeconfig, *allowed, "--contexts", "login,broken,hangs,west")
    by_context = {one["context"]: one for one in document["clusters"]}
    assert code == 1
    assert (by_context["login"]["error"], by_context["west"]["error"]) == ("", "")
    assert "no session" in by_context["broken"]["error"]
    assert by_context["hangs"]["error"]
    assert errors.count("eksml-tui: ") == 2
    assert len(document["nodes"]) == 4
    same = nodes_of(program, kubeconfig, *allowed, "--contexts", "login,east,west")[1]
    assert {one["context"]: one["same_as"] for one in same["clusters"]} == {"east": "", "login": "east", "west": ""}
    assert same["summary"]["nodes"] == 4
