"""The real program where something of its surroundings is missing: streams, locale, programs, company."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.support.polling import wait
from tests.support.program import Program

LOOK = "eksml-script: 1\nsteps: [{open: nodes}]\n"
NEEDS_TERRAFORM = "eksml-script: 1\nsteps: [{launch: {blueprint: bionemo-esm1nv}}]\n"
UNREACHABLE = """\
schema: eksml/v1
id: gangs
title: A test
summary: None.
cluster: {name: gangs, region: us-west-2}
stages:
  - {id: access, kind: kubeconfig, cluster: gangs, region: us-west-2, title: Access, expect: 1s..2s}
  - id: operators
    kind: manifests
    title: Operator
    needs: [access]
    expect: 1s..2s
    source: {name: gang, version: 2.0.0, url: "http://127.0.0.1:9/gang.yaml", sha256: %s}
""" % ("0" * 64)
REHEARSE = """\
eksml-script: 1
steps:
  - launch: {blueprint: bionemo-esm1nv, preset: rehearsal}
  - wait: {stage: network, is: awaiting_approval, within: 1m}
always:
  - teardown: {confirm: bionemo-on-eks, delete_data: true, within: 2m}
"""


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    """A program whose demo was asked for by four at once."""
    started = Program(tmp_path_factory.mktemp("circumstances"))
    asking = [
        subprocess.Popen(
            started.argv("--demo", "nodes"),
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=dict(started.environment),
        )
        for _ in range(4)
    ]  # fmt: skip
    try:
        answers = [process.communicate(timeout=240)[0].decode() for process in asking]
        assert [process.returncode for process in asking] == [0] * 4, answers
        yield started
    finally:
        started.end_all()


def play(
    program: Program,
    text: str,
    *arguments: str,
    stdout: int = subprocess.PIPE,
    environment: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    script = program.home / "script.yaml"
    script.write_text(text)
    return subprocess.run(
        program.argv(*arguments, "--script", str(script)),
        stdin=subprocess.DEVNULL, stdout=stdout, stderr=subprocess.PIPE, text=True, check=False, cwd=program.home,
        env={**program.environment, **(environment or {})},
    )  # fmt: skip


def without_terraform(program: Program) -> dict[str, str]:
    folder = program.home / "bin"
    if not folder.exists():
        folder.mkdir()
        (folder / "mv").symlink_to(shutil.which("mv") or "/bin/mv")  # with which an operation records its process
    return {"PATH": str(folder)}


def sandboxes(program: Program) -> list[int]:
    """Pids of the processes that serve a sandbox of this state folder."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            argv = (entry / "cmdline").read_bytes().split(b"\0")
        except OSError:  # it has ended meanwhile
            continue
        if b"actions.sandbox" in argv and any(part.startswith(os.fsencode(program.state)) for part in argv):
            found.append(int(entry.name))
    return found


def test_two_that_want_the_demo_at_once_share_one(demo: Program) -> None:
    wait(lambda: len(sandboxes(demo)) == 1, "the end of those that came second")


@pytest.mark.parametrize("ending", [">&-", "2>&-", "<&-", "<&- >&- 2>&-"])
def test_closed_streams_do_no_harm(demo: Program, ending: str) -> None:
    done = subprocess.run(
        ["/bin/sh", "-c", f'exec "$@" {ending}', "sh", *demo.argv("--demo", "nodes")],
        capture_output=True, text=True, env=dict(demo.environment), check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")


def test_a_full_disk_behind_the_output_is_one_sentence(demo: Program) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            demo.argv("--demo", "nodes"), stdout=full, stderr=subprocess.PIPE, text=True, env=dict(demo.environment),
            check=False,
        )  # fmt: skip
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert "No space left on device" in line


def test_a_reader_that_leaves_early_hears_no_complaint(demo: Program) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = subprocess.run(
            demo.argv("--demo", "nodes"), stdout=writer, stderr=subprocess.PIPE, env=dict(demo.environment), check=False
        )
    finally:
        os.close(writer)
    assert (done.returncode, done.stderr) == (141, b"")


def test_lists_and_logs_are_selected_by_labels(demo: Program) -> None:
    names = demo.command("--demo", "pods", "-A", "-l", "app=ebs-csi-node", "-o", "name").stdout.split()
    assert len(names) == 2
    assert all(name.startswith("pod/ebs-csi-node-") for name in names)
    zones = demo.command("--demo", "nodes", "-L", "topology.kubernetes.io/zone", "--no-headers").stdout.splitlines()
    assert [line.split()[-1] for line in zones] == [line.split()[2] for line in zones]
    lines = demo.command("--demo", "logs", "-A", "-l", "app=ebs-csi-node", "-c", "ebs-plugin", "--tail", "1").stdout
    assert {line.split()[0] for line in lines.splitlines()} == {name.removeprefix("pod/") for name in names}
    with subprocess.Popen(
        demo.argv("--demo", "pods", "-n", "kube-system", "-w"), stdout=subprocess.PIPE, env=dict(demo.environment)
    ) as watching:
        assert watching.stdout is not None
        assert watching.stdout.readline().split()[:2] == [b"NAMESPACE", b"NAME"]
        assert watching.stdout.readline().startswith(b"kube-system")
        watching.send_signal(signal.SIGINT)
    assert watching.returncode == 130


def test_a_script_plays_to_its_end_without_a_reader_of_its_output(demo: Program) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = play(demo, LOOK, "--demo", "--report", "heard.json", stdout=writer)
    finally:
        os.close(writer)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads((demo.home / "heard.json").read_text())["result"] == "passed"


@pytest.mark.parametrize("terminal", ["dumb", ""])
def test_a_locale_without_our_letters_gets_question_marks(demo: Program, terminal: str) -> None:
    plain = {"LC_ALL": "POSIX", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": "ascii"}
    done = subprocess.run(
        demo.argv("--demo", "nodes"), capture_output=True, check=False,
        env={**demo.environment, **plain, "TERM": terminal},
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.count(b"compute.internal") == 2


def test_a_real_launch_without_terraform_is_refused_before_anything_is_made(demo: Program) -> None:
    kubeconfig = str(demo.kubeconfig())
    done = play(demo, NEEDS_TERRAFORM, "--kubeconfig", kubeconfig, environment=without_terraform(demo))
    assert done.returncode == 1
    assert "The launch would fail: terraform: The terraform program is not on PATH" in done.stdout
    assert demo.run_folders() == []


def test_an_operator_that_cannot_be_fetched_is_told_before_there_is_a_run(demo: Program) -> None:
    folder = demo.home / "blueprints" / "gangs"
    folder.mkdir(parents=True)
    (folder / "blueprint.yaml").write_text(UNREACHABLE)
    launch = "eksml-script: 1\nsteps: [{launch: {blueprint: gangs}}]\n"
    kubeconfig = ("--kubeconfig", str(demo.kubeconfig()))
    done = play(demo, launch, "--blueprints", str(folder.parent), *kubeconfig, environment={"NO_PROXY": "127.0.0.1"})
    assert done.returncode == 1
    assert "http://127.0.0.1:9/gang.yaml cannot be reached from here: Cannot connect to host" in done.stdout
    assert demo.run_folders() == []


def test_a_rehearsal_without_terraform_takes_the_sandboxes_and_says_so(demo: Program) -> None:
    done = play(demo, REHEARSE, "--demo", environment=without_terraform(demo))
    assert done.returncode == 0, done.stdout
    (folder,) = demo.run_folders()
    logged = demo.command("runs", "logs", folder.name)
    assert "This is the demo's stand-in for Terraform" in logged.stdout


def test_a_state_file_of_a_process_that_has_gone_is_not_believed(program: Program) -> None:
    folder = program.state / "sandbox" / "demo"
    folder.mkdir(parents=True, mode=0o700)
    stale = {
        "pid": os.getpid(), "start_ticks": 1, "boot_id": "another", "url": "http://127.0.0.1:1",
        "kubeconfig": str(folder / "kubeconfig"), "aws_endpoint_url": "http://127.0.0.1:1/aws", "speed": 1.0,
    }  # fmt: skip
    (folder / "process.json").write_text(json.dumps(stale))
    done = program.run("--demo", "nodes")
    assert done.returncode == 0, done.stderr
    assert json.loads((folder / "process.json").read_text())["pid"] != os.getpid()


def test_modules_of_the_working_folder_are_not_imported(demo: Program) -> None:
    decoy = demo.home / "actions"
    decoy.mkdir()
    (decoy / "__init__.py").write_text("raise SystemExit('the decoy was imported')\n")
    done = subprocess.run(
        [sys.executable, "-P", "-m", "tui.cli", "--demo", "nodes"],
        capture_output=True, text=True, cwd=demo.home, env=dict(demo.environment), check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
