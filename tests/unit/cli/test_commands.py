"""Every command of the command line is there."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from actions.base.errors import ConfigError
from actions.cluster.auth.kubeconfig import ClusterTarget
from tui.cli.arguments import parser
from tui.cli.inspect.audit import context_to
from tui.cli.main import _COMMANDS, function_of


def test_every_command_that_can_be_written_has_a_module() -> None:
    actions = [action for action in parser()._actions if action.dest == "command"]
    written = {name for action in actions for name in action.choices or ()}
    assert written == {name for name in _COMMANDS if name is not None}


@pytest.mark.parametrize("command", list(_COMMANDS))
def test_every_command_has_a_function(command: str | None) -> None:
    assert callable(function_of(command))


@pytest.mark.parametrize("words", [["runs", "list"], ["--ascii", "runs", "show", "x", "-o", "json"], ["nodes"], []])
def test_a_parser_of_some_words_parses_them_as_the_whole_one(words: list[str]) -> None:
    assert vars(parser(words).parse_args(words)) == vars(parser().parse_args(words))


def test_help_is_whole_though_a_parser_is_not() -> None:
    assert parser(["--help"]).format_help() == parser().format_help()


def test_an_audit_by_name_takes_the_context_that_leads_to_that_cluster(tmp_path: Path) -> None:
    arns = {name: f"arn:aws:eks:us-west-2:111122223333:cluster/{name}" for name in ("one", "two")}
    pairs = {arns["one"]: "one", "look": arns["two"], "again": arns["one"], "other": arns["one"]}
    document = {
        "clusters": [{"name": name, "cluster": {"server": "https://a.example"}} for name in ("one", *arns.values())],
        "contexts": [{"name": name, "context": {"cluster": cluster}} for name, cluster in pairs.items()],
    }
    file = tmp_path / "kubeconfig"
    file.write_text(json.dumps(document))
    target = ClusterTarget(file)
    assert context_to("one", target).context == arns["one"], "by its own name, before others of that cluster"
    assert context_to("two", target).context == "look"
    assert context_to("one", ClusterTarget(file, "again")).context == "again"
    with pytest.raises(ConfigError, match=r"--context look does not lead to a cluster 'one'"):
        context_to("one", ClusterTarget(file, "look"))
    with pytest.raises(ConfigError, match="No context of the kubeconfig leads to a cluster 'three'"):
        context_to("three", target)
