"""The command line, where argparse alone would be too strict."""

from __future__ import annotations

from pathlib import Path

import pytest

from actions.base.errors import ConfigError, ConsoleError
from actions.cluster.auth.kubeconfig import ClusterTarget
from tui.cli.arguments import VERSION, parse_arguments
from tui.cli.main import main
from tui.cli.streams import speaks_unicode
from tui.cli.target import followed_contexts


@pytest.mark.parametrize(
    "words", [["workers=4", "--preset", "short"], ["--preset", "short", "workers=4"], ["--preset=short", "workers=4"]]
)
def test_parameters_of_a_plan_stand_before_or_after_its_options(words: list[str]) -> None:
    options = parse_arguments(["plan", "bionemo-esm1nv", *words])
    assert (options.blueprint, options.preset, options.set) == ("bionemo-esm1nv", "short", ["workers=4"])


@pytest.mark.parametrize(
    ("words", "place", "value"),
    [
        (["read", "log", "-o", "plot", "train.log"], "file", "train.log"),
        (["read", "log", "train.log", "-o", "plot"], "file", "train.log"),
        (["read", "-o", "plot", "log", "train.log"], "file", "train.log"),
        (["read", "log", "--metric", "lr", "-o", "plot", "train.log"], "file", "train.log"),
        (["read", "log", "-o", "plot"], "file", "-"),
        (["why", "-o", "json", "pod/train-0"], "object", "pod/train-0"),
        (["forward", "--local", "6006", "tensorboard"], "to", "tensorboard"),
        (["blueprints", "show", "-o", "json", "nemo-gpt3-5b"], "blueprint", "nemo-gpt3-5b"),
        (["blueprints", "-o", "json", "show", "nemo-gpt3-5b"], "output", "json"),
        (["blueprints", "-o", "json"], "output", "json"),
    ],
)
def test_the_last_argument_stands_before_or_behind_the_options(words: list[str], place: str, value: str) -> None:
    assert getattr(parse_arguments(words), place) == value


@pytest.mark.parametrize("words", [["plan", "x"], ["doctor", "x"], ["launch", "x"]])
def test_a_home_stands_before_or_behind_the_command(words: list[str]) -> None:
    assert parse_arguments(["--store", "s3://team/runs", *words]).store == "s3://team/runs"
    assert parse_arguments([*words, "--store", "s3://team/runs"]).store == "s3://team/runs"
    assert parse_arguments(words).store == ""


@pytest.mark.parametrize("command", ["plan", "doctor", "launch"])
def test_a_namespace_stands_behind_each_command_of_a_launch(command: str) -> None:
    assert parse_arguments([command, "x", "-n", "team"]).namespace == "team"


@pytest.mark.parametrize(
    "words", [["read", "log", "a.log", "-o", "plot", "b.log"], ["plan", "x", "--presett", "short"], ["nodes", "extra"]]
)
def test_what_is_not_known_is_refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        parse_arguments(words)
    assert ended.value.code == 2
    refused, where = capsys.readouterr().err.splitlines()
    assert "unrecognized arguments" in refused
    assert where.startswith(f"See eksml-tui {words[0]}")
    assert where.endswith(" --help")


@pytest.mark.parametrize(
    ("environment", "speaks"),
    [
        ({}, True),
        ({"LANG": "en_US.UTF-8"}, True),
        ({"LC_ALL": "C.utf8", "LANG": "C"}, True),
        ({"LC_ALL": "C", "LANG": "en_US.UTF-8"}, False),
        ({"LC_ALL": "", "LC_CTYPE": "POSIX"}, False),
        ({"LANG": "de_DE.ISO-8859-1"}, False),
    ],
)
def test_a_locale_that_names_no_unicode_has_none(environment: dict[str, str], speaks: bool) -> None:
    assert speaks_unicode(environment) is speaks


@pytest.mark.parametrize(
    "words",
    [
        ["read", "log", "train.log", "-o", "plot"],
        ["read", "log", "-o", "plot", "train.log"],
        ["read", "-o", "plot", "log", "train.log"],
        ["read", "log", "--output=plot", "train.log"],
        ["read", "log", "-oplot", "train.log"],
        ["read", "log", "--out", "plot", "train.log"],
    ],
)
def test_options_stand_before_or_after_a_file(words: list[str]) -> None:
    options = parse_arguments(words)
    assert (options.kind, options.file, options.output) == ("log", "train.log", "plot")


def test_a_single_dash_is_a_file_and_two_end_the_options() -> None:
    assert parse_arguments(["read", "log", "-", "-o", "json"]).file == "-"
    assert parse_arguments(["read", "log", "-o", "json", "--", "-odd.log"]).file == "-odd.log"


def test_a_value_that_is_out_of_bounds_is_bad_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "efa-nccl-tests", "nodes=abc", "--no-checks"]) == 2
    assert "nodes is 'abc'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["node"], "eksml-tui: error: there is no command 'node'. Did you mean nodes?\nSee eksml-tui --help\n"),
        (
            ["approve", "latest"],
            "eksml-tui: error: there is no command 'approve'. Did you mean runs approve?\nSee eksml-tui --help\n",
        ),
        (["xyzzy"], "eksml-tui: error: there is no command 'xyzzy'.\nSee eksml-tui --help\n"),
        (
            ["runs", "lst"],
            "eksml-tui runs: error: there is no verb 'lst'. Did you mean list?\nSee eksml-tui runs --help\n",
        ),
        (
            ["blueprints", "bionemo-esm1nv"],
            "eksml-tui blueprints: error: there is no verb 'bionemo-esm1nv'. Did you mean show bionemo-esm1nv?\n"
            "See eksml-tui blueprints --help\n",
        ),
        (
            ["pods", "-o", "xml"],
            "eksml-tui pods: error: -o/--output cannot be 'xml'; "
            "it is one of table, wide, json, jsonl, yaml, csv, name\n"
            "See eksml-tui pods --help\n",
        ),
    ],
)
def test_a_wrong_word_is_a_sentence_with_the_words_that_are_near(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        parse_arguments(words)
    assert caught.value.code == 2
    assert capsys.readouterr().err == said


def test_a_misspelt_parameter_names_its_neighbours(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "bionemo-esm1nv", "worker=3", "--no-checks"]) == 2
    assert capsys.readouterr().err.endswith("has no parameter 'worker'. Did you mean workers?\n")


def test_only_what_is_required_is_called_so(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse_arguments(["plan"])
    assert "required: BLUEPRINT\n" in capsys.readouterr().err


def test_words_of_others_are_ended_before_the_hint() -> None:
    assert ConsoleError("Unable to locate credentials", hint="Log in.").sentence() == (
        "Unable to locate credentials. Log in."
    )
    assert ConsoleError("It is away.", hint="Wait.").sentence() == "It is away. Wait."


def test_launches_of_a_script_are_checked_before_it_starts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = tmp_path / "life.yaml"
    launches = (
        "{blueprint: nope}",
        "{blueprint: bionemo-esm1nv, preset: nope}",
        "{blueprint: bionemo-esm1nv, set: {worker: 3}}",
        "{blueprint: bionemo-esm1nv, set: {workers: 1000}}",
        "{blueprint: bionemo-esm1nv, preset: short, set: {workers: 3}}",
    )
    script.write_text("eksml-script: 1\nsteps:\n" + "".join(f"- launch: {one}\n" for one in launches))
    assert main(["--script", str(script), "--script-check"]) == 2
    told = capsys.readouterr().err.splitlines()
    assert [line.split(":")[2] for line in told] == ["3", "4", "5", "6"]
    assert [word in line for word, line in zip(("'nope'", "preset", "worker'", "1000"), told, strict=True)] == [
        True
    ] * 4


@pytest.mark.parametrize(
    "words",
    [
        ["plan", "nope"],
        ["plan", "bionemo-esm1nv", "--preset", "nope"],
        ["plan", "bionemo-esm1nv", "colour=red"],
        ["doctor", "nope"],
        ["doctor", "bionemo-esm1nv", "--preset", "nope"],
        ["launch", "nope"],
        ["launch", "bionemo-esm1nv", "--preset", "nope"],
        ["blueprints", "show", "nope"],
        ["validate", "nope"],
        ["mirror", "nope"],
    ],
)
def test_a_name_that_the_program_does_not_know_is_wrong_usage(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 2
    said = capsys.readouterr().err
    assert "nope" in said or "colour" in said
    assert said.count("\n") == 1


def test_all_wrong_parameters_are_named_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("gpu", "workers=1000", "colour=red", "worker=3")
    assert main(["plan", "bionemo-esm1nv", *words, "--preset", "nope"]) == 2
    lines = capsys.readouterr().err.splitlines()
    expected = ("Write name=value", "preset 'nope'", "1000", "eksml-tui blueprints show bionemo-esm1nv", "mean workers")
    for word, line in zip(expected, lines, strict=True):
        assert word in line
    assert main(["plan", "bionemo-esm1nv", "workers=1000", "worker=3"]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 2


def test_a_title_of_the_form_names_its_parameter(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "bionemo-esm1nv", "results=/fsx/b"]) == 2
    assert "Did you mean experiment_dir?" in capsys.readouterr().err


_KUBECONFIG = """
current-context: west
contexts:
- {name: west, context: {cluster: one, user: u}}
- {name: arn:aws:eks:us-east-1:444455556666:cluster/east, context: {cluster: two, user: u}}
- {name: west-as-viewer, context: {cluster: one, user: v}}
clusters: [{name: one, cluster: {server: 'https://127.0.0.1:1'}}, {name: two, cluster: {server: 'https://127.0.0.1:2'}}]
users: [{name: u, user: {token: t}}, {name: v, user: {token: v}}]
"""
_EAST = "arn:aws:eks:us-east-1:444455556666:cluster/east"


@pytest.mark.parametrize(
    ("chosen", "wanted", "followed"),
    [
        ("", [], ()),
        ("", ["east", "west"], ("west", _EAST)),
        ("", ["east"], (_EAST,)),
        ("west-as-viewer", ["east"], ("west-as-viewer", _EAST)),
        ("", ["all"], ("west", _EAST)),
        ("west-as-viewer", ["all"], ("west-as-viewer", _EAST)),
    ],
)
def test_contexts_are_followed_by_name_or_one_of_each_cluster_the_chosen_one_first(
    chosen: str, wanted: list[str], followed: tuple[str, ...], tmp_path: Path
) -> None:
    kubeconfig = tmp_path / "config"
    kubeconfig.write_text(_KUBECONFIG)
    assert followed_contexts(ClusterTarget(kubeconfig, chosen), wanted) == followed


def test_a_context_that_is_none_is_refused_with_those_that_there_are(tmp_path: Path) -> None:
    kubeconfig = tmp_path / "config"
    kubeconfig.write_text(_KUBECONFIG)
    with pytest.raises(ConfigError, match="no context 'north'") as refused:
        followed_contexts(ClusterTarget(kubeconfig), ["west", "north"])
    assert "west-as-viewer" in refused.value.hint


def test_several_contexts_are_refused_by_a_command_that_asks_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert parse_arguments(["--contexts", "a, b"]).contexts == ["a", "b"]
    with pytest.raises(SystemExit):
        parse_arguments(["--contexts", "a,b", "events"])
    assert "events asks one: give --context" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["help"], 0, "usage: eksml-tui [-h]"),
        (["help", "runs", "resume"], 0, "usage: eksml-tui runs resume "),
        (["help", "pod"], 2, "there is no command 'pod'. Did you mean pods?"),
        (["help", "runs", "lst"], 2, "there is no verb 'lst'. Did you mean list?"),
        (["version"], 0, f"eksml-tui {VERSION}\n"),
        (["-V"], 0, f"eksml-tui {VERSION}\n"),
        (["runs"], 2, "usage: eksml-tui runs [-h] VERB"),
        (["prices"], 2, "usage: eksml-tui prices [-h] VERB"),
        (["get", "nodes"], 2, "there is no command 'get'. nodes, pods"),
        (["nodes", "--namspace", "x"], 2, "unrecognized arguments: --namspace x. Did you mean --namespace"),
        (["pods", "--no-header"], None, ""),
        (["logs", "x", "--tail", "-1"], 2, "--tail"),
        (["logs", "x", "--since", "soon"], 2, "write 90s, 2m or 1h30m"),
    ],
)
def test_habits_of_other_programs_are_answered(
    words: list[str], code: int | None, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    if code is None:  # as argparse has it, the beginning of an option is enough
        assert parse_arguments(words).no_headers is True
        return
    try:
        ended: object = main(words)
    except SystemExit as error:
        ended = error.code
    assert (ended, said in "".join(capsys.readouterr())) == (code, True)
