"""The archive of a run: everything except secrets, restored whole or not at all, and never carried out by itself."""

from __future__ import annotations

import hashlib
import stat
import threading
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from actions.base.clock import SystemClock
from actions.base.errors import ConfigError, ConflictError, ConsoleError, FormatError, RefusedError
from actions.base.untrusted import KNOWN
from actions.cluster.logs.lines import LogLine
from actions.run.client import list_runs, load_run, resume_interrupted, send_request, start_runner
from actions.run.comparison import read_run
from actions.run.forget import forget_run, survey_run
from actions.run.journal.elsewhere import note_elsewhere
from actions.run.journal.folder import environment_path, journal_path, kubeconfig_path, restored_path
from actions.run.journal.machine import machine_id
from actions.run.journal.mirrored import MirrorMark, write_mark
from actions.run.journal.reader import RunReader
from actions.run.journal.store import Journal
from actions.run.output import segments
from actions.run.output.reader import OutputReader
from actions.run.output.writer import OutputWriter
from actions.run.state.records import Operator, Output, RequestKind
from actions.run.state.view import NoticeKind
from actions.run.storage.archive import MANIFEST, Manifest, archive_run, restore_run, take_up
from actions.terraform.working_directory import SIMULATED_STATE
from tests.support.released import CASES, unpack
from tests.support.streams import segments_of
from tests.unit.run.test_runner import carry_out
from tests.unit.run.world import make_run
from tui.cli.main import main

CLOCK = SystemClock()
SECRET = "hunter2-hunter2"


def lines_of(folder: Path) -> list[object]:
    return [OutputReader(folder, stage.id).lines()[0] for stage in load_run(folder).stages]


@pytest.mark.parametrize("case", CASES)
def test_a_run_of_every_version_comes_back(case: str, tmp_path: Path) -> None:
    folder = unpack(case, tmp_path)
    file = tmp_path / "run.zip"
    manifest = archive_run(folder, file, CLOCK)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert not [each for each in manifest.withheld if "tfstate" in each.path]
    restore_run(file, CLOCK, base=tmp_path / "elsewhere")
    other = tmp_path / "elsewhere" / folder.name
    assert RunReader(other).records() == RunReader(folder).records()
    assert lines_of(other) == lines_of(folder)
    assert read_run(other).metrics() == read_run(folder).metrics()
    assert (other / "blueprint" / "blueprint.yaml").read_bytes() == (folder / "blueprint/blueprint.yaml").read_bytes()
    assert (other / "terraform/network/terraform.tfstate").exists() or case.endswith("failed")


def test_output_is_archived_in_its_segments_without_secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segments, "SEAL_BYTES", 1000)
    folder = make_run(tmp_path, CLOCK)
    writer = OutputWriter(folder, "train")
    source = writer.source("default", "worker-0", "main", "uid")
    texts = [f"line {number}" + f" AKIAABCDEFGHIJKLMNOP and more {'x' * 40}" * (number == 30) for number in range(100)]
    for number, text in enumerate(texts):
        writer.write_lines(source, [LogLine(10**18 + number, text)])
    writer.close()
    assert len(segments_of(folder, "train", "lines")) > 3
    archive_run(folder, tmp_path / "run.zip", CLOCK)
    restore_run(tmp_path / "run.zip", CLOCK, base=tmp_path / "elsewhere")
    other = tmp_path / "elsewhere" / folder.name
    reader = OutputReader(other, "train")
    found = [line.text for line in reader.lines(limit_bytes=-1)[0]]
    assert found[:30] + found[31:] == texts[:30] + texts[31:]
    assert "AKIA" not in found[30]
    assert reader.lost_lines == 0
    ours, theirs = (segments_of(place, "train", "lines") for place in (folder, other))
    assert (theirs[0].name, theirs[0].read_bytes()) == (ours[0].name, ours[0].read_bytes())
    assert len(theirs) == len(ours)
    assert theirs[-1].read_bytes() == ours[-1].read_bytes()  # at another place: what is before it has become shorter


def test_no_runner_is_started_for_a_restored_run_until_its_operator_says_so(tmp_path: Path) -> None:
    folder = unpack("0.1.0/killed", tmp_path)
    archive_run(folder, tmp_path / "run.zip", CLOCK)
    home = tmp_path / "elsewhere"
    restore_run(tmp_path / "run.zip", CLOCK, base=home)
    restored = home / folder.name
    (summary,) = list_runs(home)
    assert not summary.is_interrupted
    assert [notice.kind for notice in summary.notices] == [NoticeKind.RESTORED]
    assert resume_interrupted(base=home, endpoints=["http://127.0.0.1:43521/aws"]) == []
    records = RunReader(restored).records()
    for act in (start_runner, lambda run: send_request(run, RequestKind.TEARDOWN, start=False)):
        with pytest.raises(RefusedError, match="restored from an archive"):
            act(restored)
    assert RunReader(restored).records() == records
    take_up(restored, CLOCK)
    (summary,) = list_runs(home)
    assert summary.is_interrupted
    with pytest.raises(RefusedError, match="was not restored"):
        take_up(restored, CLOCK)


async def test_a_restored_run_that_is_taken_up_is_torn_down(tmp_path: Path) -> None:
    folder = unpack("0.1.0/killed", tmp_path)
    archive_run(folder, tmp_path / "run.zip", CLOCK)
    restore_run(tmp_path / "run.zip", CLOCK, base=tmp_path / "elsewhere")
    restored = tmp_path / "elsewhere" / folder.name
    take_up(restored, CLOCK)
    send_request(restored, RequestKind.TEARDOWN, delete_data=True, even_if_shared=True, start=False)
    assert (await carry_out(restored)).state.value == "torn down"


def test_what_binds_a_run_to_this_machine_is_in_no_archive(tmp_path: Path) -> None:
    folder = unpack("0.1.0/torn-down", tmp_path)
    machine_id(folder)
    write_mark(folder, MirrorMark("s3://team/runs", 0.0))
    note_elsewhere(folder, Operator("grace", "bastion-2"), 2)
    (folder / "reserve").write_bytes(bytes(10))
    manifest = archive_run(folder, tmp_path / "run.zip", CLOCK)
    bound = {"machine", "mirror.json", "fence", "heartbeat", "starts", "reserve", "restored.json"}
    assert not bound & {each.path for each in manifest.files}


def test_a_restored_copy_may_go_at_any_time(tmp_path: Path) -> None:
    folder = unpack("0.1.0/killed", tmp_path)
    archive_run(folder, tmp_path / "run.zip", CLOCK)
    assert survey_run(folder).obstacles
    restore_run(tmp_path / "run.zip", CLOCK, base=tmp_path / "elsewhere")
    restored = tmp_path / "elsewhere" / folder.name
    forget_run(restored, confirm=folder.name)
    assert not restored.exists()


def test_a_run_is_archived_before_it_is_forgotten(tmp_path: Path) -> None:
    folder = unpack("0.1.0/killed", tmp_path / "one")
    archive_run(folder, tmp_path / "run.zip", CLOCK)
    restore_run(tmp_path / "run.zip", CLOCK, base=tmp_path / "two")
    copy = tmp_path / "two" / folder.name
    with pytest.raises(ConfigError, match="exists"):
        forget_run(copy, confirm=copy.name, archive=lambda: archive_run(copy, tmp_path / "run.zip", CLOCK))
    assert copy.exists()
    forget_run(copy, confirm=copy.name, archive=lambda: archive_run(copy, tmp_path / "last.zip", CLOCK))
    assert (tmp_path / "last.zip").exists()


def all_bytes(file: Path) -> bytes:
    with zipfile.ZipFile(file) as archive:
        return b"".join(name.encode() + archive.read(name) for name in archive.namelist())


@pytest.fixture
def talkative(tmp_path: Path) -> Path:
    """A run with a secret wherever one could be."""
    folder = make_run(tmp_path, CLOCK)
    KNOWN.add(SECRET, "env:TOKEN")
    journal = Journal(journal_path(folder), CLOCK)
    journal.append(Output({"password": SECRET}), stage="train")
    journal.close()
    environment_path(folder).write_bytes(
        msgspec.json.encode({"AWS_REGION": "us-west-2", "API_KEY": "k-1234567", "AWS_SESSION_TOKEN": ""})
    )
    user = {"token": "t-1234567", "client-key-data": "a2V5LTEyMzQ1Njc=", "password": "p-1234567", "username": "jo"}
    plugin = {"command": "login", "args": [], "env": [{"name": "SECRET_ID", "value": "s-1234567"}]}
    kubeconfig_path(folder).write_bytes(
        msgspec.json.encode(
            {
                "clusters": [{"name": "c", "cluster": {"server": "https://c", "proxy-url": "http://a:b-1234567@p"}}],
                "users": [{"name": "u", "user": user | {"exec": plugin}}],
            }
        )
    )
    stage = folder / "terraform" / "provision"
    (stage / ".terraform" / "providers").mkdir(parents=True)
    (stage / ".terraform" / "providers" / "plugin").write_bytes(b"binary")
    (stage / "main.tf").write_text(f'token = "{SECRET}"\n')
    (stage / SIMULATED_STATE).write_text(f'{{"resources": ["terraform_data.vpc"], "variables": {{"x": "{SECRET}"}}}}')
    (stage / "run.tfplan").write_bytes(b"PK plan-1234567")
    (stage / "apply.log").write_text("log-1234567")
    state = {
        "version": 4, "serial": 1, "lineage": "x", "outputs": {},
        "resources": [
            {"mode": "managed", "type": "random_password", "name": "db",
             "instances": [{"attributes": {"result": "r-1234567"}, "sensitive_attributes": [[{"type": "get_attr"}]]}]}
        ],
    }  # fmt: skip
    (stage / "terraform.tfstate").write_bytes(msgspec.json.encode(state))
    older = {
        **state,
        "resources": [
            {"mode": "managed", "type": "aws_db", "name": "x", "instances": [{"attributes": {"password": "o-1234567"}}]}
        ],
    }
    (stage / "terraform.tfstate.backup").write_bytes(msgspec.json.encode(older))
    writer = OutputWriter(folder, "train")
    source = writer.source("default", "worker-0", "main", "uid")
    writer.write_lines(source, [LogLine(10**18, f"using {SECRET}"), LogLine(10**18 + 1, "AKIAIOSFODNN7EXAMPLE")])
    writer.close()
    (folder / "notes.txt").write_text("n-1234567")
    return folder


def test_no_secret_is_in_an_archive(talkative: Path, tmp_path: Path) -> None:
    manifest = archive_run(talkative, tmp_path / "run.zip", CLOCK)
    data = all_bytes(tmp_path / "run.zip")
    assert SECRET.encode() not in data
    assert b"1234567" not in data
    assert b"AKIAIOSFODNN7EXAMPLE" not in data
    assert b"binary" not in data
    assert {each.path for each in manifest.withheld} == {
        "environment.json:API_KEY",
        "kubeconfig",
        "terraform/provision/terraform.tfstate",
        "terraform/provision/terraform.tfstate.backup",
    }
    restore_run(tmp_path / "run.zip", CLOCK, base=tmp_path / "elsewhere")
    restored = tmp_path / "elsewhere" / talkative.name
    assert (restored / "terraform" / "provision" / SIMULATED_STATE).exists()
    assert load_run(restored).outputs["train"] == {"password": "env:TOKEN"}
    assert msgspec.json.decode(environment_path(restored).read_bytes()) == {
        "AWS_REGION": "us-west-2", "AWS_SESSION_TOKEN": ""
    }  # fmt: skip
    assert b'"server": "https://c"' in kubeconfig_path(restored).read_bytes()
    with pytest.raises(RefusedError, match=r"terraform\.tfstate of run .* is not in its archive"):
        take_up(restored, CLOCK)
    assert restored_path(restored).exists()


@pytest.mark.parametrize("words", [("archive",), ("rm",)])
def test_a_fresh_process_knows_the_secrets_that_it_has_never_read(
    words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("MY_HUB_TOKEN", "canary-of-the-shell-1")
    folder = unpack("0.1.0/torn-down", tmp_path / "state" / "eksml-tui" / "runs")
    stage = folder / "terraform" / "provision"
    stage.mkdir(parents=True, exist_ok=True)
    (stage / "run.tfvars.json").write_text('{"grafana_password": "canary-terraform-2"}')
    (stage / "main.tf").write_text('token = "canary-of-the-shell-1"')
    file = tmp_path / "run.zip"
    KNOWN.forget()
    try:
        asked = ["archive", folder.name, str(file)]
        if words == ("rm",):
            asked = ["rm", folder.name, "--confirm", folder.name, "--archive", str(file)]
        assert main(["runs", *asked]) == 0
    finally:
        KNOWN.forget()
    data = all_bytes(file)
    assert b"canary" not in data
    assert b"${env:MY_HUB_TOKEN}" in data


def test_a_run_at_work_is_archived_as_of_one_moment(tmp_path: Path) -> None:
    folder = make_run(tmp_path, CLOCK)
    writer = OutputWriter(folder, "train")
    source = writer.source("default", "worker-0", "main", "uid")
    is_over = threading.Event()

    def work() -> None:
        number = 0
        while not is_over.is_set():
            number += 1
            text = f"{number}/9999999 [00:10<01:00, 1.73it/s, reduced_train_loss={number % 97}.5]"
            writer.write_lines(source, [LogLine(10**18 + number * 10**6, text)])

    thread = threading.Thread(target=work)
    thread.start()
    try:
        for number in range(5):
            file = tmp_path / f"{number}.zip"
            archive_run(folder, file, CLOCK)
            home = tmp_path / f"home-{number}"
            restore_run(file, CLOCK, base=home)
            again = OutputWriter(home / folder.name, "train")
            again.open()
            assert again.losses() == ()
            again.close()
    finally:
        is_over.set()
        thread.join()
        writer.close()


Change = Callable[[dict[str, bytes], list[str]], None]


def rewritten(file: Path, target: Path, change: Change, *, is_listed: bool = True) -> Path:
    """Write an archive anew with other files, its manifest adapted to them."""
    with zipfile.ZipFile(file) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    manifest = msgspec.json.decode(files.pop(MANIFEST))
    links: list[str] = []
    change(files, links)
    if is_listed:
        manifest["files"] = [
            {"path": name, "size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
            for name, data in files.items()
        ]
    manifest |= msgspec.json.decode(files.pop("+manifest", b"{}"))
    manifest["files"] = [each for each in manifest["files"] if each["path"] != "+manifest"]
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in {**files, MANIFEST: msgspec.json.encode(manifest)}.items():
            info = zipfile.ZipInfo(name)
            info.external_attr = (stat.S_IFLNK | 0o777 if name in links else 0o600) << 16
            archive.writestr(info, data)
    return target


def _with(name: str, data: bytes = b"x") -> Change:
    return lambda files, links: files.update({name: data})


def _link(files: dict[str, bytes], links: list[str]) -> None:
    files["output/train/lines/lines.log"] = b"/etc/passwd"
    links.append("output/train/lines/lines.log")


HOSTILE: dict[str, tuple[Change, bool, str]] = {
    "up": (_with("logs/../../../up"), True, "not a file of a run"),
    "absolute": (_with("/etc/eksml"), True, "not a file of a run"),
    "backslash": (_with("logs\\x\\y"), True, "not a file of a run"),
    "control": (_with("logs/a\x1b[2J"), True, "not a file of a run"),
    "heartbeat": (_with("heartbeat"), True, "not a file of a run"),
    "write-ahead-log": (_with("journal.db-wal"), True, "not a file of a run"),
    "note": (_with("restored.json", b"{}"), True, "not a file of a run"),
    "folder": (_with("output/train/lines/", b""), True, "not a file of a run"),
    "link": (_link, True, "not a plain file"),
    "unlisted": (_with("output/train/lines/more.log"), False, "not those of its manifest"),
    "changed": (_with("environment.json", b'{"PATH": "/evil"}'), False, "has another size"),
    "same-size": (
        lambda files, _: files.update({"environment.json": files["environment.json"][::-1]}),
        False,
        "is not what",
    ),
    "no-journal": (lambda files, _: files.update({"journal.db": b""}), True, "it is empty"),
    "no-database": (lambda files, _: files.update({"journal.db": b"x" * 5000}), True, "is damaged"),
    "other-id": (_with("+manifest", b'{"run": "other-1121-0001"}'), True, "that of another run"),
    "id-with-path": (_with("+manifest", b'{"run": "../x"}'), True, "not the id of a run"),
    "more-keys": (_with("+manifest", b'{"shell": "rm"}'), True, "manifest cannot be read"),
    "later": (_with("+manifest", b'{"schema": "eksml-run-archive/9"}'), True, "later version"),
    "negative": (
        _with("+manifest", b'{"files": [{"path": "x", "size": -1, "sha256": ""}]}'),
        True,
        "manifest",
    ),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_archive_is_refused_and_leaves_nothing(name: str, tmp_path: Path) -> None:
    folder = make_run(tmp_path, CLOCK)
    archive_run(folder, tmp_path / "run.zip", CLOCK)
    change, is_listed, words = HOSTILE[name]
    file = rewritten(tmp_path / "run.zip", tmp_path / "hostile.zip", change, is_listed=is_listed)
    home = tmp_path / "elsewhere"
    with pytest.raises(ConsoleError) as caught:
        restore_run(file, CLOCK, base=home)
    assert words in caught.value.sentence()
    assert list(home.iterdir()) == []


def _bits(data: bytes) -> Iterator[bytes]:
    for place in range(0, len(data), max(1, len(data) // 150)):
        yield data[:place] + bytes([data[place] ^ 0x10]) + data[place + 1 :]
        yield data[:place]


def test_any_changed_bit_and_any_cut_is_found_or_does_not_matter(tmp_path: Path) -> None:
    folder = make_run(tmp_path, CLOCK)
    archive_run(folder, tmp_path / "run.zip", CLOCK)
    whole = RunReader(folder).records()
    file = tmp_path / "changed.zip"
    refused = 0
    for number, data in enumerate(_bits((tmp_path / "run.zip").read_bytes())):
        file.write_bytes(data)
        home = tmp_path / f"home-{number}"
        try:
            restore_run(file, CLOCK, base=home)
        except (FormatError, ConfigError):
            refused += 1
            assert list(home.iterdir()) == []
        else:
            assert RunReader(home / folder.name).records() == whole
    assert refused > 200


def test_an_archive_of_many_small_files_is_not_read_into_memory(tmp_path: Path) -> None:
    file = tmp_path / "many.zip"
    with zipfile.ZipFile(file, "w") as archive:
        for number in range(50_100):
            archive.writestr(zipfile.ZipInfo(f"logs/{number}"), b"")
    with pytest.raises(FormatError, match="50100 files"):
        restore_run(file, CLOCK, base=tmp_path / "elsewhere")


def test_a_run_that_exists_is_left_as_it_is(tmp_path: Path) -> None:
    folder = make_run(tmp_path, CLOCK)
    archive_run(folder, tmp_path / "run.zip", CLOCK)
    with pytest.raises(ConflictError, match="already a run"):
        restore_run(tmp_path / "run.zip", CLOCK, base=tmp_path / "runs")
    assert not restored_path(folder).exists()
    with pytest.raises(ConfigError, match="exists"):
        archive_run(folder, tmp_path / "run.zip", CLOCK)


def test_the_manifest_lists_every_file_with_its_digest(tmp_path: Path) -> None:
    folder = unpack("0.1.0/succeeded", tmp_path)
    archive_run(folder, tmp_path / "run.zip", CLOCK)
    with zipfile.ZipFile(tmp_path / "run.zip") as archive:
        assert archive.testzip() is None
        manifest = msgspec.json.decode(archive.read(MANIFEST), type=Manifest)
        for each in manifest.files:
            assert hashlib.sha256(archive.read(each.path)).hexdigest() == each.sha256


def test_a_script_that_reads_a_key_is_archived_as_it_is(tmp_path: Path) -> None:
    folder = make_run(tmp_path, CLOCK)
    script = b"AWS_SECRET_ACCESS_KEY=$(key aws_secret_access_key)\n"
    (folder / "blueprint" / "start.sh").write_bytes(script)
    archive_run(folder, tmp_path / "run.zip", CLOCK)
    with zipfile.ZipFile(tmp_path / "run.zip") as archive:
        assert archive.read("blueprint/start.sh") == script
