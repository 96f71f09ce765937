"""S3, S4, S5: secrets are in no log, on no command line, and what is written is its owner's alone."""

from __future__ import annotations

import base64
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from actions.base.errors import ConfigError
from actions.base.files import private_directory, write_private
from tests.faults.small import BLUEPRINT
from tests.support.scripting import Playing

CANARIES = {
    "AWS_ACCESS_KEY_ID": "AKIACANARYCANARY0000",
    "AWS_SECRET_ACCESS_KEY": "CANARY-secret-access-key",
    "AWS_SESSION_TOKEN": "CANARY-session-token",
    "KEY_OF_MINE": "CANARY-key-of-mine",
}
BEGINNING = BLUEPRINT.replace("stages:", """parameters:
  key: {type: secret, title: Key, default: ""}
secrets:
  key: {parameter: key, kind: opaque, key: value}
stages:""").replace("[objects.yaml]}", "[objects.yaml], secrets: [key]}")  # fmt: skip
FAILING = """
  - id: work
    kind: job
    title: Work
    needs: [objects]
    expect: 1s..5s
    manifests: [work.yaml]
    target: {api_version: batch/v1, kind: Job, name: work}
    watch: {logs: {pods: batch.kubernetes.io/job-name=work}}
"""
JOB = """
apiVersion: batch/v1
kind: Job
metadata: {name: work}
spec:
  backoffLimit: 0
  template:
    spec:
      restartPolicy: Never
      containers:
        - {name: main, image: "busybox:1", command: [sh, -c, "echo working; exit 3"]}
"""
SCRIPT = """
eksml-script: 1
steps:
  - launch: {blueprint: small, set: {key: "env:KEY_OF_MINE"}}
  - wait: {stage: objects, is: succeeded, within: 2m}
  - wait: {run: failed, within: 2m}
  - expect: {text: "${env:KEY_OF_MINE}"}
always:
  - teardown: {confirm: bionemo-on-eks}
"""


@dataclass(frozen=True)
class Life:
    """A run with a secret, from launch to teardown, and all that could be seen of it."""

    home: Path
    output: str
    command_lines: set[bytes]


@contextmanager
def _watching(seen: set[bytes]) -> Iterator[None]:
    """Collect the command lines of all processes of this machine."""
    over = threading.Event()

    def collect() -> None:
        while not over.wait(0.01):
            for path in Path("/proc").glob("[0-9]*/cmdline"):
                try:
                    seen.add(path.read_bytes())
                except OSError:  # it has ended
                    continue

    thread = threading.Thread(target=collect)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@pytest.fixture(scope="module")
def life(tmp_path_factory: pytest.TempPathFactory) -> Life:
    program = Playing(tmp_path_factory.mktemp("secretive"), CANARIES)
    folder = program.home / "blueprints" / "small"
    folder.mkdir(parents=True)
    for name, text in {
        "blueprint.yaml": BEGINNING + FAILING,
        "objects.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: of-mine}\n",
        "work.yaml": JOB,
    }.items():
        (folder / name).write_text(text)
    script = program.home / "script.yaml"
    script.write_text(SCRIPT)
    seen: set[bytes] = set()
    try:
        with _watching(seen):
            done = program.run(
                "--debug", "--demo", "--speed", "60", "--blueprints", str(folder.parent), "--script", str(script),
                "--report", str(program.home / "report.json"), "--artifacts", str(program.home / "artifacts"),
            )  # fmt: skip
    finally:
        program.end_all()
    assert done.returncode == 1, done.stdout + done.stderr  # the last step fails, by what it was to show
    assert "the run is failed" in done.stdout
    return Life(program.home, done.stdout + done.stderr, seen)


def _in(data: bytes) -> list[str]:
    """The canaries in some bytes, as they are or in base64."""
    forms = {name: (value.encode(), base64.b64encode(value.encode())) for name, value in CANARIES.items()}
    return [name for name, ways in forms.items() if any(way in data for way in ways)]


def test_s03_no_file_and_no_output_holds_a_secret(life: Life) -> None:
    assert _in(life.output.encode()) == []
    files = [path for path in life.home.rglob("*") if path.is_file()]
    assert len(files) > 15
    assert {str(path): found for path in files if (found := _in(path.read_bytes()))} == {}


def test_s04_no_command_line_holds_a_secret(life: Life) -> None:
    assert any(b"actions.run" in line for line in life.command_lines)
    assert any(b"actions.sandbox" in line for line in life.command_lines)
    assert {line: found for line in life.command_lines if (found := _in(line))} == {}
    for name in ("kubeconfig", "aws-credentials"):
        text = (life.home / "state" / "eksml-tui" / "sandbox" / "demo" / name).read_text()
        words = [word.encode() for word in text.split() if len(word) > 30]
        assert words
        assert [word for word in words for line in life.command_lines if word in line] == []


def test_s05_what_is_written_is_its_owners_alone(life: Life) -> None:
    state = life.home / "state" / "eksml-tui"
    folders = [state, *(path for path in state.rglob("*") if path.is_dir())]
    files = [path for path in state.rglob("*") if path.is_file()]
    assert {path.name for path in files} >= {"journal.jsonl", "kubeconfig", "runner.log", "aws-credentials"}
    assert {str(path) for path in folders if stat.S_IMODE(path.stat().st_mode) & 0o077} == set()
    assert {str(path) for path in files if stat.S_IMODE(path.stat().st_mode) & 0o077} == set()
    assert {path.name for path in files if path.stat().st_mode & stat.S_IXUSR} == {"terraform"}  # the sandbox's own
    made = [path for path in (life.home / "artifacts").rglob("*") if path.is_file()]
    assert made
    assert {str(path) for path in made if stat.S_IMODE(path.stat().st_mode) & 0o077} == set()


def test_s05_a_link_in_the_way_is_not_followed(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (tmp_path / "file").symlink_to(victim)
    write_private(tmp_path / "file", b"new")
    assert victim.read_text() == "precious"
    assert not (tmp_path / "file").is_symlink()


def test_s05_a_folder_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: tmp_path.stat().st_uid + 1)
    with pytest.raises(ConfigError, match="belongs to another user"):
        private_directory(tmp_path)
