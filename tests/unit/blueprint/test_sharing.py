"""Blueprints of git repositories: addresses, the pin, what may not be fetched, and that nothing is run."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from actions.base import process
from actions.base.errors import (
    BlueprintError,
    ConfigError,
    ConsoleError,
    MissingError,
    RefusedError,
    ToolError,
    UnreachableError,
    UsageError,
)
from actions.base.files import config_folder, shipped_blueprints
from actions.base.process import identity_of
from actions.blueprint.catalogue import load_blueprint
from actions.blueprint.sharing import fetching, origins
from actions.blueprint.sharing.effects import effects_of
from actions.blueprint.sharing.fetching import GitRepository, fetched
from actions.blueprint.sharing.origins import (
    Origin,
    Pin,
    changing,
    digest_of_folder,
    parse_origin,
    read_pins,
    write_pin,
)
from tui.cli.main import main
from tui.cli.sharing import blueprints

BLUEPRINT = """\
schema: eksml/v1
id: hello
title: Hello
summary: One Job.
cluster: {name: my-cluster, region: us-west-2}
stages:
  - {id: kubeconfig, kind: kubeconfig, title: Access, expect: 1s..30s, cluster: my-cluster, region: us-west-2}
  - id: train
    kind: job
    title: Training
    needs: [kubeconfig]
    expect: 5s..1m
    manifests: [train.yaml]
    target: {api_version: batch/v1, kind: Job, name: hello}
"""
JOB = """\
apiVersion: batch/v1
kind: Job
metadata: {name: hello}
spec:
  template:
    spec:
      restartPolicy: Never
      containers: [{name: train, image: "busybox:1.36", securityContext: {privileged: true}}]
      volumes: [{name: host, hostPath: {path: /var/run}}]
"""


PIN = Pin("https://example.com/r", "", "", commit="c" * 40, sha256="d" * 64, added_at="2026-11-29T00:00:00Z")


def git(folder: Path, *words: str) -> str:
    """Run git in a repository of the test's, as an author with a name."""
    author = ["-c", "user.name=Anna", "-c", "user.email=anna@example.com", "-c", "commit.gpgsign=false"]
    argv = ["git", *author, "-C", str(folder), *words]
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with one blueprint in `esm/hello`, tagged v1."""
    folder = tmp_path / "repository"
    (folder / "esm" / "hello").mkdir(parents=True)
    git(folder, "init", "--quiet", "--initial-branch=main")
    (folder / "esm" / "hello" / "blueprint.yaml").write_text(BLUEPRINT)
    (folder / "esm" / "hello" / "train.yaml").write_text(JOB)
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "--message=One")
    git(folder, "tag", "v1")
    return folder


@pytest.mark.parametrize(
    ("text", "origin"),
    [
        ("github.com/acme/ml", Origin("https://github.com/acme/ml")),
        ("https://github.com/acme/ml.git@v1.2//a/b", Origin("https://github.com/acme/ml.git", "v1.2", "a/b")),
        ("git@github.com:acme/ml@feature/x", Origin("git@github.com:acme/ml", "feature/x")),
        ("git@github.com:acme/ml//a", Origin("git@github.com:acme/ml", "", "a")),
        ("git@host:/srv/ml@v1//a", Origin("git@host:/srv/ml", "v1", "a")),
        ("ssh://git@host:2222/acme/ml@main", Origin("ssh://git@host:2222/acme/ml", "main")),
        ("/srv/ml@v1//a", Origin("/srv/ml", "v1", "a")),
        ("/srv/ml@llama@1.2", Origin("/srv/ml", "llama@1.2")),
    ],
)
def test_an_address_is_read_and_written_alike(text: str, origin: Origin) -> None:
    assert parse_origin(text) == origin
    assert parse_origin(str(origin)) == origin


@pytest.mark.parametrize(
    "text",
    [
        "",
        "hello",
        "ext::sh -c touch% ran",
        "http://host/ml",
        "https://anna:secret@host/ml",
        "https://token@host/ml",
        "https://host/",
        "--upload-pack=touch ran",
        "/srv/ml@--output=x",
        "/srv/ml@a..b",
        "/srv/ml//../etc",
        "/srv/ml@main:path",
        "/srv/ml@",
    ],
)
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_origin(text)
    assert "secret" not in caught.value.sentence()


@pytest.mark.parametrize("ref", ["", "v1", "main", "COMMIT"])
def test_a_blueprint_is_fetched_at_a_branch_tag_or_commit(repository: Path, tmp_path: Path, ref: str) -> None:
    commit = git(repository, "rev-parse", "HEAD")
    origin = Origin(str(repository), ref.replace("COMMIT", commit), "esm/hello")
    with fetched(origin, tmp_path / "own") as found:
        assert (found.blueprint.id, found.commit) == ("hello", commit)
        digest = digest_of_folder(found.blueprint.folder)
        assert digest == digest_of_folder(repository / "esm" / "hello")
        (found.blueprint.folder / "train.yaml").write_text(JOB + "\n")
        assert digest_of_folder(found.blueprint.folder) != digest
    assert os.listdir(tmp_path / "own") == []


def test_a_repository_without_such_a_ref_folder_or_blueprint_is_named(repository: Path, tmp_path: Path) -> None:
    place = str(repository)
    cases: list[tuple[Origin, type[Exception], str]] = [
        (Origin(place, "v9", "esm/hello"), MissingError, "v9"),
        (Origin(place, "0" * 40, "esm/hello"), MissingError, "0000"),
        (Origin(place, "", "nowhere"), MissingError, "nowhere"),
        (Origin(str(tmp_path / "none")), MissingError, "none"),
        (Origin(place), BlueprintError, "//esm/hello"),
    ]
    for origin, kind, named in cases:
        with pytest.raises(kind) as caught, fetched(origin, tmp_path / "own"):
            pass
        assert named in str(getattr(caught.value, "sentence", lambda: "")()), origin


@pytest.mark.parametrize(
    ("tail", "kind"),
    [
        ("fatal: could not read Username for 'https://host': terminal prompts disabled", RefusedError),
        ("git@host: Permission denied (publickey).", RefusedError),
        ("fatal: unable to access 'https://host/': Could not resolve host: host", UnreachableError),
        ("fatal: '/srv/none' does not appear to be a git repository", MissingError),
        ("fatal: repository 'https://host/certificate/' not found", MissingError),
        ("fatal: unable to access 'https://host/certificate/': Failed to connect to host port 443", UnreachableError),
        ("fatal: unable to access 'https://host/': The requested URL returned error: 410", ToolError),
        ("fatal: unable to access 'https://host/': gnutls_handshake() failed: An unexpected TLS packet.", ToolError),
        ("remote: ERROR: The project could not be found or you don't have permission to view it.", ToolError),
    ],
)
def test_a_refusal_a_silence_an_absence_and_what_is_not_known_are_told_apart(tail: str, kind: type[Exception]) -> None:
    boilerplate = (
        "fatal: Could not read from remote repository.\n\nPlease make sure you have the correct access rights\n"
        "and the repository exists.\n"
    )
    git_error = ToolError(["git"], exit_code=128, tail=f"Receiving: 9%\rremote: \n{tail}\n{boilerplate}")
    found: ConsoleError = GitRepository(Origin("https://host/ml"), Path("x"))._refusal(git_error)
    assert type(found) is kind
    assert tail in found.sentence()


def test_links_and_what_has_mistakes_are_not_taken(repository: Path, tmp_path: Path) -> None:
    folder = repository / "esm" / "hello"
    (folder / "secret.yaml").symlink_to("/etc/passwd")
    git(repository, "add", ".")
    git(repository, "commit", "--quiet", "--message=Link")
    origin = Origin(str(repository), "", "esm/hello")
    with pytest.raises(BlueprintError, match=r"secret\.yaml is not a plain file"), fetched(origin, tmp_path / "own"):
        pass
    (folder / "secret.yaml").unlink()
    (folder / "blueprint.yaml").write_text(BLUEPRINT.replace("needs: [kubeconfig]", "needs: [kubeconfg]"))
    git(repository, "commit", "--quiet", "--all", "--message=Mistake")
    with (
        pytest.raises(BlueprintError, match=r"2 mistakes: blueprint\.yaml:11:13: train needs"),
        fetched(origin, tmp_path / "own"),
    ):
        pass


def test_what_is_too_large_is_refused_before_it_is_read(repository: Path, tmp_path: Path) -> None:
    (repository / "esm" / "hello" / "data.bin").write_bytes(bytes(17 << 20))
    git(repository, "add", ".")
    git(repository, "commit", "--quiet", "--message=Large")
    origin = Origin(str(repository), "", "esm/hello")
    with pytest.raises(BlueprintError, match="more than 2000 files or 16 MiB"), fetched(origin, tmp_path / "own"):
        pass


def test_a_tree_of_a_billion_files_and_an_endless_pack_are_given_up(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "_LOOK_SECONDS", 0.01)
    monkeypatch.setattr(fetching, "_MOST_PRINTED_BYTES", 1 << 20)

    def tree_of(kind: str, name: str) -> str:
        made = ["git", "-C", str(repository), "mktree"]
        entries = "".join(f"{kind} {name}\t{number}\n" for number in range(10))
        return subprocess.run(made, input=entries, check=True, capture_output=True, text=True).stdout.strip()

    tree = tree_of("100644 blob", git(repository, "rev-parse", "HEAD:esm/hello/train.yaml"))
    for _ in range(8):
        tree = tree_of("040000 tree", tree)
    git(repository, "update-ref", "refs/heads/bomb", git(repository, "commit-tree", "-m", "Bomb", tree))
    with (
        pytest.raises(BlueprintError, match="more than 2000 files"),
        fetched(Origin(str(repository), "bomb"), tmp_path),
    ):
        pass
    (repository / "data.bin").write_bytes(os.urandom(4 << 20))
    git(repository, "add", ".")
    git(repository, "commit", "--quiet", "--message=Large")
    monkeypatch.setattr(fetching, "_MOST_SENT_BYTES", 1 << 20)
    with pytest.raises(BlueprintError, match="more than 2000 files"), fetched(Origin(str(repository)), tmp_path):
        pass


def test_nothing_of_a_repository_is_run(repository: Path, tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    for hook in ("post-checkout", "reference-transaction", "pre-auto-gc"):
        path = repository / ".git" / "hooks" / hook
        path.write_text(f"#!/bin/sh\ntouch {ran}\n")
        path.chmod(0o755)
    (repository / ".gitattributes").write_text("* filter=run\n*.yaml export-subst\n")
    git(repository, "config", "filter.run.smudge", f"touch {ran}")
    git(repository, "add", ".gitattributes")
    git(repository, "commit", "--quiet", "--message=Attributes")
    ran.unlink(missing_ok=True)
    with fetched(Origin(str(repository), "", "esm/hello"), tmp_path / "own"):
        pass
    assert not ran.exists()


def test_what_it_may_do_is_said_of_each_stage() -> None:
    said = effects_of(load_blueprint(shipped_blueprints() / "nemo-gpt3-5b"))
    joined = "\n".join(said)
    for part in (
        "Terraform root common/terraform/cluster",
        "mpi-operator 0.",
        "pinned by SHA-256",
        "with docker",
        "Secret",
    ):
        assert part in joined, joined
    assert len(set(said)) == len(said)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return config_folder() / "blueprints"


def test_added_updated_and_removed(repository: Path, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = f"{repository}//esm/hello"
    assert main(["blueprints", "add", place, "--yes"]) == 0
    said = capsys.readouterr().err
    assert "runs the image busybox:1.36" in said
    assert "privileged" in said
    assert "mounts /var/run of its nodes" in said
    first = read_pins(home)["hello"]
    assert first.commit == git(repository, "rev-parse", "HEAD")
    assert main(["blueprints", "list", "-o", "json"]) == 0
    listed = {each["id"]: each["origin"] for each in json.loads(capsys.readouterr().out)}
    assert listed["hello"] == f"{place} at {first.commit[:12]}"
    assert listed["bionemo-esm1nv"] == "shipped"

    (repository / "esm" / "hello" / "train.yaml").write_text(JOB.replace("1.36", "1.37\\e[2J"))
    git(repository, "commit", "--quiet", "--all", "--message=Two")
    assert main(["blueprints", "update", "--yes"]) == 0
    shown = capsys.readouterr()
    assert "+      containers" in shown.out
    assert "busybox:1.37" in shown.err
    assert "\x1b" not in shown.out + shown.err
    assert read_pins(home)["hello"].commit != first.commit
    assert main(["blueprints", "update", "hello"]) == 0
    assert "is as it was" in capsys.readouterr().err

    (home / "hello" / "train.yaml").write_text(JOB)
    assert main(["blueprints", "update", "hello", "--yes"]) == 1
    assert "was changed after it was added" in capsys.readouterr().err
    assert main(["blueprints", "list"]) == 0
    assert "changed here" in capsys.readouterr().out
    assert main(["blueprints", "remove", "hello"]) == 1
    assert main(["blueprints", "remove", "hello", "--yes"]) == 0
    assert not (home / "hello").exists()
    assert read_pins(home) == {}


def test_pins_that_are_written_at_the_same_time_are_all_kept(home: Path) -> None:
    names = [f"b{number}" for number in range(24)]

    def write(name: str) -> None:
        with changing(home):
            write_pin(home, name, PIN)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(write, names))
    assert set(read_pins(home)) == set(names)
    write_pin(home, "b0", None)
    assert set(read_pins(home)) == set(names) - {"b0"}


def test_what_was_killed_after_its_pin_is_added_or_updated_again(
    repository: Path, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = f"{repository}//esm/hello"
    for again in (["add", place], ["update", "hello"]):
        assert main(["blueprints", "add", place, "--yes"]) == 0
        shutil.rmtree(home / "hello")
        assert main(["blueprints", *again, "--yes"]) == 0
        assert digest_of_folder(home / "hello") == read_pins(home)["hello"].sha256
        assert main(["blueprints", "remove", "hello"]) == 0
    assert "is as it was" not in capsys.readouterr().err


def test_one_that_cannot_be_read_any_more_is_listed_as_changed(
    repository: Path, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["blueprints", "add", f"{repository}//esm/hello", "--yes"]) == 0
    (home / "hello" / "data").symlink_to("/etc")
    capsys.readouterr()
    assert main(["blueprints", "list"]) in {0, 2}
    assert "bionemo-esm1nv" in capsys.readouterr().out
    assert main(["blueprints", "remove", "hello", "--yes"]) == 0
    assert not (home / "hello").exists()


def test_programs_in_pods_are_among_what_it_may_do(repository: Path) -> None:
    folder = repository / "esm" / "hello"
    watch = "    watch: {logs: {exec: [tail, -f, /var/log/a b], pod: app=hello}}\n"
    (folder / "blueprint.yaml").write_text(BLUEPRINT + watch)
    assert "runs tail -f '/var/log/a b' in its pods" in effects_of(load_blueprint(folder))


def test_a_place_that_is_taken_is_not_written_over(repository: Path, home: Path) -> None:
    (home / "hello").mkdir(parents=True)
    assert main(["blueprints", "add", f"{repository}//esm/hello", "--yes"]) == 1
    assert os.listdir(home / "hello") == []
    (repository / "esm" / "hello" / "blueprint.yaml").write_text(BLUEPRINT.replace("id: hello", "id: bionemo-esm1nv"))
    git(repository, "commit", "--quiet", "--all", "--message=Taken")
    assert main(["blueprints", "add", f"{repository}//esm/hello", "--yes"]) == 1


def test_without_a_terminal_nothing_is_added_unasked(repository: Path, home: Path) -> None:
    assert main(["blueprints", "add", f"{repository}//esm/hello"]) == 2
    assert not (home / "hello").exists()
    assert not (home / "blueprints.lock").exists()


def test_of_two_changes_at_once_one_is_refused_and_what_a_killed_one_left_goes(
    repository: Path, home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(origins, "_LOCK_SECONDS", 0.05)
    add = ["blueprints", "add", f"{repository}//esm/hello", "--yes"]
    with changing(home):
        (home / ".fetched-killed" / "git").mkdir(parents=True)
        assert main(add) == 1
    assert "is being changed by another process" in capsys.readouterr().err
    assert sorted(os.listdir(home)) == [".fetched-killed", ".held"]
    assert main(add) == 0
    assert sorted(os.listdir(home)) == [".held", "blueprints.lock", "hello"]


def test_programs_stay_programs_and_a_change_of_that_is_one(
    repository: Path, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = repository / "esm" / "hello" / "prepare.sh"
    script.write_text("#!/bin/sh\n")
    git(repository, "add", ".")
    git(repository, "commit", "--quiet", "--message=Script")
    assert main(["blueprints", "add", f"{repository}//esm/hello", "--yes"]) == 0
    script.chmod(0o755)
    git(repository, "commit", "--quiet", "--all", "--message=Program")
    assert main(["blueprints", "update", "--yes"]) == 0
    assert "old mode 100644\nnew mode 100755\n" in capsys.readouterr().out
    assert {path.name: path.stat().st_mode & 0o777 for path in (home / "hello").iterdir()} == {
        "blueprint.yaml": 0o600,
        "prepare.sh": 0o700,
        "train.yaml": 0o600,
    }
    (home / "hello" / "prepare.sh").chmod(0o600)
    assert main(["blueprints", "update", "--yes"]) == 1
    assert "was changed after it was added" in capsys.readouterr().err


def test_an_update_takes_a_rewritten_history_and_goes_on_behind_what_cannot_be_updated(
    repository: Path, home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (repository / "gone").mkdir()
    shutil.copy(repository / "esm" / "hello" / "train.yaml", repository / "gone")
    (repository / "gone" / "blueprint.yaml").write_text(BLUEPRINT.replace("id: hello", "id: gone"))
    git(repository, "add", ".")
    git(repository, "commit", "--quiet", "--message=Gone")
    other = tmp_path / "other"
    shutil.copytree(repository, other)
    for place in (f"{other}//gone", f"{repository}//esm/hello"):
        assert main(["blueprints", "add", place, "--yes"]) == 0
    before = git(repository, "rev-parse", "HEAD")
    shutil.rmtree(other)
    (repository / "esm" / "hello" / "train.yaml").write_text(JOB.replace("1.36", "1.37"))
    git(repository, "reset", "--quiet", "--soft", "v1")
    git(repository, "commit", "--quiet", "--all", "--amend", "--message=Rewritten")
    git(repository, "reflog", "expire", "--expire=now", "--all")
    git(repository, "gc", "--quiet", "--prune=now")
    assert main(["blueprints", "update", "--yes"]) == 1
    shown = capsys.readouterr()
    assert '+      containers: [{name: train, image: "busybox:1.37"' in shown.out
    assert f"{other} is not there" in shown.err
    pins = read_pins(home)
    assert pins["gone"].commit == before
    assert pins["hello"].commit == git(repository, "rev-parse", "HEAD")


def test_a_wait_is_announced_and_a_signal_ends_it_with_nothing_left(
    repository: Path, home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    ssh, started = repository.parent / "ssh", repository.parent / "started"
    monkeypatch.setattr(blueprints, "_WORD_SECONDS", 0.0)
    monkeypatch.setenv("GIT_SSH_COMMAND", str(ssh))
    for number in ("INT", "TERM", "HUP"):
        ssh.write_text(f"#!/bin/sh\necho $$ > {started}\nkill -{number} {os.getpid()}\nexec tail -f /dev/null\n")
        ssh.chmod(0o755)
        assert main(["blueprints", "add", f"git@host:{repository}//esm/hello", "--yes"]) == 130
        assert "Waiting for git@host:" in capsys.readouterr().err
        assert os.listdir(home) == [".held"]
        assert identity_of(int(started.read_text())) is None
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


@pytest.mark.parametrize(
    ("name", "changed"),
    [
        ("../kept", {}),
        ("hello", {"repository": "--upload-pack=touch ran"}),
        ("hello", {"repository": "ext::sh -c touch% ran"}),
        ("hello", {"ref": "-x"}),
        ("hello", {"path": "../.."}),
        ("hello", {"commit": "\u001b[2J"}),
        ("hello", {"sha256": ""}),
    ],
)
def test_a_pin_that_this_program_does_not_write_is_refused(
    home: Path, name: str, changed: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    (home.parent / "kept").mkdir(parents=True)
    home.mkdir()
    pin = {key: getattr(PIN, key) for key in PIN.__struct_fields__} | changed
    (home / "blueprints.lock").write_text(json.dumps({"schema": "eksml-blueprints-lock/1", "blueprints": {name: pin}}))
    for verb in (["update"], ["remove", name, "--yes"], ["list"]):
        assert main(["blueprints", *verb]) == 1
        assert "blueprints.lock cannot be read" in capsys.readouterr().err
    assert (home.parent / "kept").exists()


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("{", "Bring it back"),
        ("[]", "Bring it back"),
        ('{"schema": "eksml-blueprints-lock/9", "blueprints": {}}', "Bring it back"),
        ("{\n<<<<<<< HEAD\n", "It holds a merge conflict of git: resolve that."),
    ],
)
def test_a_lock_file_that_cannot_be_read_is_not_taken_for_none(home: Path, text: str, hint: str) -> None:
    home.mkdir(parents=True)
    (home / "blueprints.lock").write_text(text)
    with pytest.raises(ConfigError, match=r"blueprints\.lock") as caught:
        read_pins(home)
    assert caught.value.hint.startswith(hint)
