"""D21, S7, S8: what cannot be used ends in one sentence, at once, with exit code 2, whatever it is and wherever."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from actions.base.errors import ConfigError, RefusedError
from actions.base.names import segment
from actions.blueprint.catalogue import Catalogue, validate
from actions.cluster.auth.kubeconfig import ClusterTarget
from actions.cluster.auth.session import KubeSession
from actions.cluster.logs.follow import ContainerLog
from actions.cluster.objects.client import ApiResource
from tests.support.answering import write_kubeconfig
from tests.support.program import Program
from tui.cli.console import require_begin

BLUEPRINT = """\
schema: eksml/v1
id: odd
title: T
summary: S
cluster: {name: c, region: us-west-2}
parameters:
  size: {type: integer, title: Size, default: SIZE}
  word: {type: text, title: Word, default: WORD, pattern: 'PATTERN'}
stages:
  - {id: access, kind: kubeconfig, title: A, expect: 1s..5s, cluster: c, region: r}
STAGES
"""
WORD = "a" * 40 + "!"
SECONDS = 120
"""More than any of these may take on a busy machine; what hangs takes for ever."""


def _blueprint(folder: Path, *, size: str = "1", word: str = "a", pattern: str = ".*", stages: str = "") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    texts = {"SIZE": size, "WORD": word, "PATTERN": pattern, "STAGES": stages}
    text = BLUEPRINT
    for name, value in texts.items():
        text = text.replace(name, value, 1)
    (folder / "blueprint.yaml").write_text(text)
    return folder


def _is_a_sentence(done: subprocess.CompletedProcess[str], *words: str, code: int = 2) -> None:
    assert done.returncode == code, done.stderr[-2000:]
    assert "Traceback" not in done.stderr
    last = done.stderr.splitlines()[-1]
    assert last.startswith("eksml-tui: ")
    assert len(last) < 2000
    assert all(word in last for word in words), last


BAD = {
    "decimal": ({"size": "9" * 5000}, ":7:47: ", "more than 64 digits"),
    "hexadecimal": ({"size": "0x" + "f" * 900_000}, ":7:47: ", "more than 64 digits"),
    "float": ({"size": "1" * 5000 + ".5"}, ":7:47: ", "more than 64 digits"),
    "tag": ({"size": "!!int x"}, ":7:47: ", "is not a number"),
    "regex": ({"pattern": "("}, ":8:", "pattern of word cannot be used"),
    "look-around": ({"pattern": "(?=a)a"}, ":8:", "look-around"),
    "back-reference": ({"pattern": r"(a)\1"}, ":8:", "back-references"),
    "regex-bomb": ({"pattern": "((((a?){100}){100}){100}){100}"}, ":8:", "pattern of word cannot be used"),
    "regex-long": ({"pattern": "a" * 5000}, ":8:", "more than 1000 characters"),
    "redos": ({"word": WORD, "pattern": "(a|a)*$"}, ":8:", "not a text of the form"),
    "redos-nested": ({"word": WORD, "pattern": "(a+)+$"}, ":8:", "not a text of the form"),
}


@pytest.mark.parametrize(("changes", "place", "words"), BAD.values(), ids=BAD)
def test_d21_a_bad_blueprint_is_a_sentence(program: Program, changes: dict[str, str], place: str, words: str) -> None:
    folder = _blueprint(program.home / "blueprints" / "odd", **changes)
    _is_a_sentence(program.command("validate", str(folder), seconds=SECONDS), f"{folder}/blueprint.yaml{place}", words)


def test_d21_bad_blueprints_hide_no_other(program: Program) -> None:
    home = program.home / "blueprints"
    for name, (changes, _, _) in BAD.items():
        _blueprint(home / f"a-{name}", **changes)
    (home / "z-unreadable").mkdir()
    (home / "z-unreadable" / "blueprint.yaml").mkdir()
    done = program.command("--blueprints", str(home), "blueprints", seconds=SECONDS)
    _is_a_sentence(done)
    assert "bionemo-esm1nv" in done.stdout
    assert len(done.stderr.splitlines()) == len(BAD) + 1


def test_d21_a_blueprint_that_meets_a_defect_hides_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("one", "two"):
        _blueprint(tmp_path / name)

    def defective(folder: Path) -> object:
        raise ZeroDivisionError(folder.name)

    monkeypatch.setattr("actions.blueprint.catalogue.load_blueprint", defective)
    found, broken = Catalogue([tmp_path]).read()
    assert not found
    assert ["ZeroDivisionError" in one.error.message for one in broken] == [True, True]


STEPS = {
    "integer": ("- wait: {nodes: {count: %s}}" % ("9" * 5000), "more than 64 digits"),
    "hexadecimal": ("- wait: {nodes: {count: 0x%s}}" % ("f" * 900_000), "more than 64 digits"),
    "within": ("- wait: {text: x, within: %s}" % ("9" * 5000), "more than 64 digits"),
    "within-text": ("- wait: {text: x, within: '%ss'}" % ("9" * 5000), "is not a duration"),
    "log": ('- wait: {log: "(?!x)"}', "look-around"),
    "pods": ('- wait: {pods: {name: "["}}', "not a usable regular expression"),
    "keys": ("- press: '%s'" % ("x" * 100_000), "is not a key"),
}


@pytest.mark.parametrize(("step", "words"), STEPS.values(), ids=STEPS)
def test_d21_a_bad_script_is_a_sentence(program: Program, step: str, words: str) -> None:
    script = program.home / "script.yaml"
    script.write_text(f"eksml-script: 1\nsteps:\n{step}\n")
    done = program.command("--script", str(script), "--script-check", seconds=SECONDS)
    _is_a_sentence(done, f"{script}:3:", words)


DOCUMENTS = {
    "integer": json.dumps({"kind": "Pod", "metadata": {"name": "a"}, "spec": {}}).replace('"a"', "9" * 5000),
    "restarts": '{"kind":"Pod","metadata":{"name":"a"},"status":{"containerStatuses":[{"restartCount":%s}]}}'
    % ("9" * 5000),
    "deep": "[" * 100_000,
    "huge-number": '{"neuron_runtime_data":[{"pid":%s}]}' % ("9" * 5000),
    "nccl": '{"results":[],"args":[],"out_of_bounds":{"count":"many"},"average_bus_bandwidth":{"bandwidth":1}}',
}


@pytest.mark.parametrize("text", DOCUMENTS.values(), ids=DOCUMENTS)
def test_d21_a_bad_document_is_a_sentence(program: Program, text: str) -> None:
    file = program.home / "document.json"
    file.write_text(text)
    verbs = [["why", "--from", str(file)], *(["read", kind, str(file)] for kind in ("log", "nccl", "neuron", "efa"))]
    for verb in verbs:
        done = program.command(*verb, "-o", "json", seconds=SECONDS)
        assert done.returncode in (0, 1, 2), (verb, done.stderr)
        assert "Traceback" not in done.stderr, verb


@pytest.mark.parametrize("arguments", [("nodes",), ("why",), ("--script", "SCRIPT")], ids=["nodes", "why", "script"])
def test_d21_an_address_with_a_password_is_refused_and_not_repeated(
    program: Program, arguments: tuple[str, ...]
) -> None:
    script = program.home / "script.yaml"
    script.write_text("eksml-script: 1\nsteps: [{open: nodes}]\n")
    file = write_kubeconfig(program.home / "kubeconfig", "https://admin:CANARY-password@127.0.0.1:1")
    words = [str(script) if word == "SCRIPT" else word for word in arguments]
    done = program.command("--debug", "--kubeconfig", str(file), *words, seconds=SECONDS)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith(f"eksml-tui: {file}: the server address of the cluster there holds")
    assert "CANARY" not in done.stdout + done.stderr


@pytest.mark.parametrize("namespace", ["../../nodes/x", "a/b", "A", "a%2f", "x" * 64, "a\nb"])
async def test_d21_a_namespace_is_a_name(tmp_path: Path, namespace: str) -> None:
    file = write_kubeconfig(tmp_path / "kubeconfig", "http://127.0.0.1:1")
    with pytest.raises(ConfigError, match="not a valid namespace"):
        await KubeSession.connect(ClusterTarget(file, namespace=namespace))


@pytest.mark.parametrize("name", ["../../nodes/x", "..", ".", "a/b", "a%2fb", "", "a\nb", "x" * 300])
def test_d21_no_name_leaves_its_place_in_a_path(name: str) -> None:
    with pytest.raises(RefusedError, match="not a name of an object"):
        segment(name)
    pods = ApiResource("v1", "Pod", "pods", is_namespaced=True)
    if name:
        with pytest.raises(RefusedError):
            pods.path("default", name)
    with pytest.raises(RefusedError):
        _ = ContainerLog("default", name, "main").path


@pytest.mark.parametrize(
    "path", ["/api/v1/../secrets", "/api/v1/%2e%2e/x", "/a b", "/a?b=c", "/a#b", "a", "//", "/a\r\nX: y"]
)
async def test_d21_no_path_is_sent_that_goes_up_or_holds_more(tmp_path: Path, path: str) -> None:
    session = await KubeSession.connect(ClusterTarget(write_kubeconfig(tmp_path / "kubeconfig", "http://127.0.0.1:1")))
    try:
        with pytest.raises(RefusedError, match="not a path"):
            await session.request("GET", path)
        with pytest.raises(RefusedError, match="not a path"):
            async with session.stream(path):
                pass
    finally:
        await session.aclose()


JOB = "  - {id: work, kind: job, title: W, needs: [%s], expect: 1s..5s, manifests: [work.yaml], target: %s}"
TARGET = "{api_version: batch/v1, kind: Job, name: work}"
MANIFEST = "apiVersion: batch/v1\nkind: Job\nmetadata: {name: work}\nspec: {}\n"
UP = "../../nodes/x"
ELSEWHERE = TARGET.replace("}", ", namespace: ../x}")
NAMES = {
    "target": (JOB % ("access", TARGET.replace("work", UP)), MANIFEST, ":11:", "not a valid Job name"),
    "namespace": (JOB % ("access", ELSEWHERE), MANIFEST, ":11:", "not a valid namespace name"),
    "version": (JOB % ("access", TARGET.replace("batch/v1", "../v1")), MANIFEST, ":11:", "not an API version"),
    "manifest": (JOB % ("access", TARGET), MANIFEST.replace("work", UP), "work.yaml:3:", "not a valid object name"),
    "no-access": (JOB % ("", TARGET), MANIFEST, ":11:", "no stage of kind kubeconfig"),
}


@pytest.mark.parametrize(("stage", "manifest", "place", "words"), NAMES.values(), ids=NAMES)
def test_d21_names_and_ways_into_the_cluster_are_checked(
    program: Program, stage: str, manifest: str, place: str, words: str
) -> None:
    folder = _blueprint(program.home / "odd", stages=stage)
    (folder / "work.yaml").write_text(manifest)
    done = program.command("validate", str(folder), seconds=SECONDS)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert any(place in line and words in line for line in done.stderr.splitlines()), done.stderr


def test_d21_a_blueprint_with_a_way_in_is_good(tmp_path: Path) -> None:
    folder = _blueprint(tmp_path / "odd", stages=JOB % ("access", TARGET))
    (folder / "work.yaml").write_text(MANIFEST)
    assert validate(folder) == []


@pytest.mark.parametrize("files", [12, 20, 40])
def test_d21_too_few_files_are_told_at_once(program: Program, files: int) -> None:
    script = program.home / "script.yaml"
    script.write_text("eksml-script: 1\ndeadline: 20s\nsteps: [{wait: {text: never}}]\n")
    done = subprocess.run(
        ["/bin/sh", "-c", f'ulimit -n {files}; exec "$@"', "sh", *program.argv("--demo", "--script", str(script))],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        env=dict(program.environment),
        check=False,
    )
    _is_a_sentence(done, f"Only {files} files", "ulimit -n")


async def test_d21_a_console_that_does_not_begin_ends_at_the_deadline() -> None:
    stuck = asyncio.create_task(asyncio.Event().wait())
    with pytest.raises(ConfigError, match="did not begin"):
        await require_begin(stuck, asyncio.Event(), seconds=0.05)
    assert stuck.cancelled()


async def test_d21_a_console_that_begins_or_ends_is_waited_for_no_longer() -> None:
    began = asyncio.Event()
    began.set()
    stuck = asyncio.create_task(asyncio.Event().wait())
    await require_begin(stuck, began, seconds=60)
    stuck.cancel()
    ended = asyncio.create_task(asyncio.sleep(0, result=True))
    await require_begin(ended, asyncio.Event(), seconds=60)


BEFORE_THE_PLAYER = """
import asyncio, sys
from tui.app import ConsoleApp
from tui.cli.main import main

async def stuck(self, **_):
    print("waiting", flush=True)
    await asyncio.Event().wait()

ConsoleApp.run_async = stuck
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_d21_signals_end_a_script_whose_player_is_not_there_yet(program: Program, number: signal.Signals) -> None:
    script = program.home / "script.yaml"
    script.write_text("eksml-script: 1\ndeadline: 600s\nsteps: [{wait: {text: never}}]\n")
    file = write_kubeconfig(program.home / "kubeconfig", "http://127.0.0.1:1")
    argv = [sys.executable, "-c", BEFORE_THE_PLAYER, "--kubeconfig", str(file), "--readonly", "--script", str(script)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, env=dict(program.environment)) as process:
        killer = threading.Timer(240, process.kill)
        killer.start()
        assert process.stdout is not None
        assert process.stdout.readline() == "waiting\n"
        process.send_signal(number)
        assert process.wait() == 130
        killer.cancel()
