"""Mistakes of operators, given to the real program: one sentence, an exit code, and nothing half done."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from actions.base.files import shipped_blueprints
from tests.support.answering import answering, status, write_kubeconfig
from tests.support.program import Program

BIONEMO = shipped_blueprints() / "bionemo-esm1nv"


def refused(done: subprocess.CompletedProcess[str], *words: str, code: int = 1) -> str:
    """The one sentence on stderr."""
    assert done.returncode == code, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    (line,) = done.stderr.splitlines()
    assert line.startswith("eksml-tui: ")
    for word in words:
        assert word in line, line
    return line


def nothing_was_begun(program: Program) -> bool:
    return program.run_folders() == [] and list(program.processes()) == []


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("plan", "bionemo"), ("'bionemo'", "Known blueprints: bionemo-esm1nv")),
        (("plan", "bionemo-esm1nv", "--preset", "quick"), ("'quick'", "short, rehearsal")),
        (("blueprints", "show", "bionemo"), ("'bionemo'", "bionemo-esm1nv")),
        (("nodes",), ("no kubeconfig", "--demo")),
        (("--kubeconfig", "nowhere", "nodes"), ("nowhere", "does not exist")),
        (("--kubeconfig", "/", "nodes"), ("/", "directory")),
        (("--kubeconfig", "/dev/zero", "nodes"), ("/dev/zero", "not a file")),
        (("--context", "prod", "nodes"), ("'prod'", "--kubeconfig")),
        (("runs", "show", "nosuch"), ("'nosuch'", "runs list")),
        (("runs", "resume", "latest"), ("'latest'", "runs list")),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else str(value),
)
def test_a_wrong_name_is_told_with_what_would_be_right(
    program: Program, arguments: tuple[str, ...], words: tuple[str, ...]
) -> None:
    of_our_own = arguments[:1] in (("plan",), ("blueprints",))  # to choose another one is a matter of usage
    refused(program.command(*arguments), *words, code=2 if of_our_own else 1)
    assert nothing_was_begun(program)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[" * 5000, ("nested too deeply",)),
        ("a: [1,\nb", (":2:", "not YAML")),
        ("\xff\xfe", ("cannot be read", "not text")),
        ("just words", ("holds no clusters",)),
        ("contexts: {a: b}", ("`contexts` is not a list",)),
        ("clusters: []", ("no current context",)),
    ],
    ids=["deep", "broken", "binary", "words", "shape", "empty"],
)
def test_a_malformed_kubeconfig_is_named(program: Program, text: str, words: tuple[str, ...]) -> None:
    file = program.home / "kubeconfig"
    file.write_bytes(text.encode("latin-1"))
    refused(program.command("--kubeconfig", str(file), "nodes"), str(file), *words)


@pytest.mark.parametrize(
    ("code", "body", "words"),
    [
        (401, status(401, "Unauthorized", "Unauthorized"), ("credentials", "Log in again")),
        (403, status(403, "Forbidden", 'User "bob" cannot list resource "nodes"'), ("Not allowed", "bob")),
        (502, "<html>\x1b[2J<title>Bad Gateway</title></html>", ("502", ": Bad Gateway.")),
        (200, "<html>please log in</html>", ("/version",)),
        (302, "", ("redirects", "server address")),
    ],
)
def test_a_server_that_refuses_is_quoted(program: Program, code: int, body: str, words: tuple[str, ...]) -> None:
    with answering(code, body) as server:
        file = write_kubeconfig(program.home / "kubeconfig", server, token="CANARY-of-the-kubeconfig")
        done = program.command("--debug", "--kubeconfig", str(file), "nodes")
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert all(word in last for word in words), last
    assert "\x1b" not in done.stderr
    assert "CANARY" not in done.stderr


@pytest.mark.parametrize(
    ("server", "words"),
    [
        ("http://127.0.0.1:1", ("http://127.0.0.1:1", "cannot be reached", "VPN")),
        ("http://no-such-host.invalid", ("no-such-host.invalid", "cannot be reached")),
        ("ftp://there", ("no usable server address",)),
    ],
)
def test_an_address_without_an_answer_is_named(program: Program, server: str, words: tuple[str, ...]) -> None:
    file = write_kubeconfig(program.home / "kubeconfig", server)
    refused(program.command("--kubeconfig", str(file), "nodes"), *words)


def test_a_server_without_tls_is_told_from_one_that_is_away(program: Program) -> None:
    with answering(200, "{}") as server:
        file = write_kubeconfig(program.home / "kubeconfig", server.replace("http:", "https:"))
        refused(program.command("--kubeconfig", str(file), "nodes"), "TLS", "certificate-authority")


def test_an_unknown_context_is_refused_before_a_script_plays(program: Program) -> None:
    kubeconfig = write_kubeconfig(program.home / "kubeconfig", "http://127.0.0.1:1")
    script = program.home / "life.yaml"
    script.write_text("eksml-script: 1\nsteps: [{open: nodes}]\n")
    done = program.run("--kubeconfig", str(kubeconfig), "--context", "prod", "--script", str(script))
    refused(done, "'prod'", "Known: here")
    assert done.stdout == ""


@pytest.mark.parametrize(
    ("text", "place", "words"),
    [
        ("- lunch: x", ":3:3: ", "Did you mean launch?"),
        ("- open: '${env:NO_SUCH_PANE}'", ":3:3: ", "NO_SUCH_PANE"),
        ("# " + "x" * (1 << 20), ": ", "limit"),
        ("- open: \xff", ":3: ", "not UTF-8"),
    ],
    ids=["verb", "environment", "huge", "binary"],
)
def test_a_wrong_script_ends_with_2_before_anything_runs(program: Program, text: str, place: str, words: str) -> None:
    script = program.home / "life.yaml"
    script.write_bytes(f"eksml-script: 1\nsteps:\n{text}\n".encode("latin-1"))
    refused(program.command("--demo", "--script", str(script)), f"{script}{place}", words, code=2)
    assert nothing_was_begun(program)


@pytest.mark.parametrize("place", ["nowhere.yaml", "/", "/dev/zero"])
def test_a_script_that_is_no_file_ends_with_2(program: Program, place: str) -> None:
    refused(program.command("--demo", "--script", place), place, "cannot be read", code=2)


@pytest.mark.parametrize(
    "arguments",
    [
        ("bogus",),
        ("runs", "lst"),
        ("--report", "report.json"),
        ("--script-check",),
        ("--script", "life.yaml", "nodes"),
        ("--demo", "--kubeconfig", "x", "nodes"),
        ("--speed", "0", "nodes"),
        ("--speed", "nan", "nodes"),
        ("sandbox", "--name", "../elsewhere"),
        ("sandbox", "--port", "70000"),
    ],
    ids=" ".join,
)
def test_wrong_usage_ends_with_2(program: Program, arguments: tuple[str, ...]) -> None:
    done = program.command(*arguments)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    *_, sentence, remedy = done.stderr.splitlines()
    assert "error: " in sentence
    assert remedy.startswith("See eksml-tui")
    assert remedy.endswith(" --help")
    assert nothing_was_begun(program)


@pytest.mark.parametrize("option", ["--report", "--junit", "--artifacts"])
def test_a_place_for_results_that_cannot_be_written_is_refused_before_the_script(program: Program, option: str) -> None:
    script = program.home / "life.yaml"
    script.write_text("eksml-script: 1\nsteps: [{open: nodes}]\n")
    place = (
        script / "results"
        if option == "--artifacts"
        else script / ("report.xml" if option == "--junit" else "report.json")
    )
    done = program.command("--demo", "--script", str(script), option, str(place))
    refused(done, str(place), "Choose another")
    assert nothing_was_begun(program)


def test_a_state_folder_that_cannot_be_made_is_named(program: Program) -> None:
    (program.home / "state").write_text("a file")
    refused(program.command("--demo", "nodes"), str(program.home / "state"), "Not a directory", "XDG_STATE_HOME")


def test_a_debug_traceback_shows_no_line_of_a_kubeconfig(program: Program) -> None:
    file = program.home / "kubeconfig"
    file.write_text("users:\n- name: me\n  user: {token: CANARY-token]\n")
    done = program.command("--debug", "--kubeconfig", str(file), "nodes")
    assert done.returncode == 1
    assert "Traceback" in done.stderr
    assert "CANARY" not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--blueprints", "nowhere", "blueprints"), ("nowhere", "--blueprints")),
        (("validate", "nowhere"), ("nowhere/blueprint.yaml", "No such file")),
    ],
)
def test_a_blueprint_that_is_not_there_ends_with_2(
    program: Program, arguments: tuple[str, ...], words: tuple[str, ...]
) -> None:
    refused(program.command(*arguments), *words, code=2)


def edited(program: Program, *changes: tuple[str, str]) -> Path:
    """A copy of the shipped blueprint with some text replaced, in a folder of blueprints."""
    folder = program.home / "blueprints" / "mine"
    shutil.copytree(BIONEMO, folder)
    for old, new in changes:
        file = next(file for file in sorted(folder.glob("*.yaml")) if old in file.read_text())
        file.write_text(file.read_text().replace(old, new, 1))
    return folder


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("\ntitle:", "\ntitel:", "Did you mean title?"),
        (
            "{file: manifests/pretrain.yaml, kind: PyTorchJob",
            "{file: manifests/pretrain.yaml, kind: Job",
            "no Job named",
        ),
    ],
    ids=["key", "target"],
)
def test_a_wrong_blueprint_is_named_with_line_and_column(program: Program, old: str, new: str, words: str) -> None:
    folder = edited(program, (old, new))
    done = program.command("validate", str(folder))
    assert done.returncode == 2
    first = done.stderr.splitlines()[0]
    file = "parameters" if "{file" in old else "blueprint"
    assert first.startswith(f"eksml-tui: {folder}/{file}.yaml:")
    assert words in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("broken", ["", "kind: [", "kind: &a x"], ids=["missing", "broken", "bomb"])
def test_a_manifest_that_cannot_be_read_is_told_once(program: Program, broken: str) -> None:
    folder = edited(program)
    manifest = folder / "manifests" / "pretrain.yaml"
    manifest.write_text(broken)
    if not broken:
        manifest.unlink()
    refused(program.command("validate", str(folder)), str(manifest), code=2)


@pytest.mark.parametrize("make", [os.mkfifo, lambda path: path.symlink_to("/dev/zero")], ids=["pipe", "device"])
def test_a_blueprint_that_is_no_file_does_not_hold_the_program_up(program: Program, make: object) -> None:
    folder = edited(program)
    (folder / "blueprint.yaml").unlink()
    assert callable(make)
    make(folder / "blueprint.yaml")
    refused(program.command("validate", str(folder), seconds=120), "blueprint.yaml", code=2)
