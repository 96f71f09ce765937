"""Archives of runs: what is in one, what is not, and that a hostile one leaves nothing."""

from __future__ import annotations

import asyncio
import hashlib
import io
import os
import subprocess
import tarfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from actions.base.clock import SystemClock
from actions.base.errors import ConfigError, ConsoleError, FormatError, MissingError, RefusedError, UsageError
from actions.base.untrusted import KNOWN
from actions.cluster.auth.kubeconfig import ClusterTarget
from actions.cluster.logs.lines import LogLine
from actions.run.client import load_run
from actions.run.journal.folder import environment_path, journal_path, kubeconfig_path, terraform_path
from actions.run.journal.reader import RunReader
from actions.run.journal.store import Journal
from actions.run.output.reader import OutputReader
from actions.run.output.writer import OutputWriter
from actions.run.state.records import Output
from actions.run.store import archive as archives
from actions.run.store.archive import Archived, archive_run, opened_archive
from actions.run.takeover.origin import opened_source
from actions.run.takeover.takeover import Takeover, take_over_run
from actions.terraform.working_directory import LOCK_FILE
from tests.unit.run.world import creation, make_run, outline

CLOCK = SystemClock()
SECRET = "tok-canary-1"
STATE = b'{"version": 4, "serial": 1, "lineage": "x", "outputs": {}, "resources": []}'


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of all runs of the machine that an archive comes to."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "elsewhere"))
    return tmp_path / "elsewhere" / "eksml-tui" / "runs"


@pytest.fixture
def talkative(tmp_path: Path) -> Path:
    """A run with a secret wherever one could be."""
    stages = (outline("provision", kind="terraform"), outline("train", kind="job"))
    folder = make_run(tmp_path / "there", CLOCK, created=replace(creation(), stages=stages))
    KNOWN.add(SECRET, "env:TOKEN")
    journal = Journal(journal_path(folder), CLOCK)
    journal.append(Output({"password": SECRET}), stage="train")
    journal.close()
    variables = {"AWS_REGION": "us-west-2", "API_KEY": "k-1234567", "HTTPS_PROXY": "http://a:b-1234567@p"}
    environment_path(folder).write_bytes(msgspec.json.encode(variables))
    kubeconfig_path(folder).write_text('{"users": [{"name": "u", "user": {"exec": {"command": "c-1234567"}}}]}')
    stage = terraform_path(folder, "provision")
    (stage / ".terraform" / "providers").mkdir(parents=True)
    (stage / ".terraform" / "providers" / "plugin").write_bytes(b"binary-1234567")
    (stage / "main.tf").write_text(f'token = "{SECRET}"\n')
    (stage / LOCK_FILE).write_text("# locked\n")
    (stage / "run.tfplan").write_bytes(b"PK plan-1234567")
    held = {"mode": "managed", "type": "aws_db", "name": "x", "instances": [{"attributes": {"password": "o-1234567"}}]}
    (stage / "terraform.tfstate").write_bytes(msgspec.json.encode({**msgspec.json.decode(STATE), "resources": [held]}))
    (folder / "notes.txt").write_text("n-1234567")
    writer = OutputWriter(folder, "train")
    source = writer.source("default", "worker-0", "main", "uid")
    writer.write_lines(source, [LogLine(10**18, f"using {SECRET}"), LogLine(10**18 + 1, "AKIAIOSFODNN7EXAMPLE")])
    writer.close()
    return folder


def a_run(tmp_path: Path) -> Path:
    """A run with a Terraform state, and a log."""
    created = replace(creation(), stages=(outline("provision", kind="terraform"), outline("train", kind="job")))
    folder = make_run(tmp_path / "there", CLOCK, created=created)
    stage = terraform_path(folder, "provision")
    stage.mkdir(parents=True)
    (stage / "terraform.tfstate").write_bytes(STATE)
    writer = OutputWriter(folder, "train")
    source = writer.source("default", "worker-0", "main", "uid")
    writer.write_lines(source, [LogLine(10**18 + number, f"line {number}") for number in range(3)])
    writer.close()
    return folder


def archived(folder: Path, file: Path) -> Path:
    archive_run(folder, file, CLOCK)
    return file


def taken(file: Path, run_id: str, *, confirm: str = "") -> Takeover:
    """Take a run over from an archive, without its runner."""

    async def take() -> Takeover:
        async with opened_source(str(file), run_id, ClusterTarget(), CLOCK, confirm=confirm) as store:
            return await take_over_run(run_id, store, CLOCK, confirm=confirm, is_machine_gone=True, starts=False)

    return asyncio.run(take())


def lines_of(folder: Path) -> list[str]:
    return [line.text for line in OutputReader(folder, "train").lines(0)[0]]


def test_a_run_comes_out_of_its_archive_by_a_takeover(tmp_path: Path, elsewhere: Path) -> None:
    folder = a_run(tmp_path)
    done = taken(archived(folder, tmp_path / "run.tar"), folder.name, confirm=folder.name)
    assert done.folder == elsewhere / folder.name
    before, after = RunReader(folder).records(), RunReader(done.folder).records()
    assert after[: len(before)] == before
    assert load_run(done.folder).epoch == 2
    assert lines_of(done.folder) == lines_of(folder) == ["line 0", "line 1", "line 2"]
    assert (terraform_path(done.folder, "provision") / "terraform.tfstate").read_bytes() == STATE
    assert {path.name for path in elsewhere.iterdir()} == {folder.name}  # no scratch folder


def test_an_archive_does_not_tell_whether_another_machine_has_the_run(tmp_path: Path, elsewhere: Path) -> None:
    folder = a_run(tmp_path)
    file = archived(folder, tmp_path / "run.tar")
    with pytest.raises(UsageError, match="a file does not tell") as refused:
        taken(file, folder.name)
    assert refused.value.hint.startswith(f"Add --confirm {folder.name}")
    with pytest.raises(MissingError, match="is an archive of"):
        taken(file, "another-1121-0001", confirm="another-1121-0001")
    assert list(elsewhere.iterdir()) == []


def test_a_run_that_this_machine_has_is_not_taken_from_its_archive(tmp_path: Path, elsewhere: Path) -> None:
    folder = a_run(tmp_path)
    file = archived(folder, tmp_path / "run.tar")
    taken(file, folder.name, confirm=folder.name)
    later = load_run(elsewhere / folder.name)
    with pytest.raises(RefusedError, match="This machine has it already"):
        taken(file, folder.name, confirm=folder.name)
    assert load_run(elsewhere / folder.name).last_seq == later.last_seq


def test_no_secret_is_in_an_archive(talkative: Path, tmp_path: Path) -> None:
    done = archive_run(talkative, tmp_path / "run.tar", CLOCK)
    data = (tmp_path / "run.tar").read_bytes()
    assert SECRET.encode() not in data
    assert b"1234567" not in data
    assert b"AKIAIOSFODNN7EXAMPLE" not in data
    assert {each.path for each in done.withheld} == {"terraform/provision/terraform.tfstate"}
    arrived = taken(tmp_path / "run.tar", talkative.name, confirm=talkative.name).folder
    assert (terraform_path(arrived, "provision") / LOCK_FILE).exists()
    assert load_run(arrived).outputs["train"] == {"password": "env:TOKEN"}
    assert msgspec.json.decode(environment_path(arrived).read_bytes())["AWS_REGION"] == "us-west-2"
    assert not kubeconfig_path(arrived).exists()


def test_what_an_archive_leaves_out_is_said(talkative: Path, tmp_path: Path) -> None:
    first, last = archive_run(talkative, tmp_path / "run.tar", CLOCK).sentences()
    assert first.startswith("Left out: terraform/provision/terraform.tfstate, as the state holds values that may be")
    assert last == f"Archived run {talkative.name} to {tmp_path / 'run.tar'}."
    assert (tmp_path / "run.tar").stat().st_mode & 0o777 == 0o600


def test_an_archive_that_exists_is_left_as_it_is(tmp_path: Path) -> None:
    folder = a_run(tmp_path)
    file = archived(folder, tmp_path / "run.tar")
    with pytest.raises(ConfigError, match="exists"):
        archive_run(folder, file, CLOCK)
    assert [path.name for path in tmp_path.iterdir() if "tar" in path.name] == ["run.tar"]


def test_a_run_at_work_is_archived_as_of_one_moment(tmp_path: Path) -> None:
    folder = a_run(tmp_path)
    writer = OutputWriter(folder, "train")
    source = writer.source("default", "worker-0", "main", "uid")
    is_over = threading.Event()

    def work() -> None:
        number = 3
        while not is_over.is_set():
            writer.write_lines(source, [LogLine(10**18 + number, f"line {number}")])
            number += 1

    thread = threading.Thread(target=work)
    thread.start()
    try:
        files = [archived(folder, tmp_path / f"{number}.tar") for number in range(3)]
    finally:
        is_over.set()
        thread.join()
        writer.close()
    for file in files:
        with opened_archive(file, CLOCK) as store:
            copy = tmp_path / f"copy-of-{file.name}"
            copy.mkdir()
            store.bring_output(copy)
        found = lines_of(copy)
        assert found == [f"line {number}" for number in range(len(found))]


Entries = dict[str, bytes | tarfile.TarInfo]


def rewritten(file: Path, change: Callable[[Entries], None], *, sums: bool = True) -> Path:
    """Write an archive anew with other entries, its sums adapted to them."""
    entries: Entries = {}
    with tarfile.open(file) as archive:
        for entry in archive:
            source = archive.extractfile(entry)
            entries[entry.name] = source.read() if source else b""
    listed = next(name for name in entries if name.endswith("/SHA256SUMS"))
    change(entries)
    if sums:
        known = {name: data for name, data in entries.items() if isinstance(data, bytes) and name != listed}
        text = "".join(f"{hashlib.sha256(data).hexdigest()}  {name}\n" for name, data in known.items())
        entries[listed] = text.encode()
    target = file.with_name("hostile.tar")
    with tarfile.open(target, "w") as archive:
        for name, data in entries.items():
            info = data if isinstance(data, tarfile.TarInfo) else tarfile.TarInfo(name)
            if isinstance(data, bytes):
                info.size = len(data)
            archive.addfile(info, io.BytesIO(data) if isinstance(data, bytes) else None)
    return target


def _with(name: str, data: bytes = b"x") -> Callable[[Entries], None]:
    return lambda entries: entries.update({name.replace("RUN", _run_in(entries)): data})


def _run_in(entries: Entries) -> str:
    return next(iter(entries)).split("/")[1]


def _of_kind(kind: bytes, name: str = "runs/RUN/output/train/train/link") -> Callable[[Entries], None]:
    def change(entries: Entries) -> None:
        info = tarfile.TarInfo(name.replace("RUN", _run_in(entries)))
        info.type, info.linkname = kind, "/etc/passwd"
        entries[info.name] = info

    return change


def _without(part: str) -> Callable[[Entries], None]:
    def change(entries: Entries) -> None:
        for name in [name for name in entries if part in name]:
            del entries[name]

    return change


HOSTILE: dict[str, tuple[Callable[[Entries], None], bool, str]] = {
    "up": (_with("runs/RUN/output/train/../../../../up"), True, "not a file of a run"),
    "absolute": (_with("/etc/eksml"), True, "not a file of a run"),
    "backslash": (_with("runs/RUN/output/train/x\\y"), True, "not a file of a run"),
    "control": (_with("runs/RUN/output/train/a\x1b[2J"), True, "not a file of a run"),
    "heartbeat": (_with("runs/RUN/heartbeat"), True, "not a file of a run"),
    "journal": (_with("runs/RUN/output"), True, "not a file of a run"),
    "long name": (_with("runs/RUN/output/train/" + "x" * 1200), True, "not a file of a run"),
    "another run": (_with("runs/other-1121-0001/lease.json"), True, "of another run"),
    "an id with a path": (_with("runs/../lease.json"), True, "not a file of a run"),
    "symbolic link": (_of_kind(tarfile.SYMTYPE), True, "not a plain file"),
    "hard link": (_of_kind(tarfile.LNKTYPE), True, "not a plain file"),
    "pipe": (_of_kind(tarfile.FIFOTYPE), True, "not a plain file"),
    "device": (_of_kind(tarfile.CHRTYPE), True, "not a plain file"),
    "folder": (_of_kind(tarfile.DIRTYPE), True, "not a plain file"),
    "sparse": (_of_kind(tarfile.GNUTYPE_SPARSE), True, "is not an archive of a run"),
    "unlisted": (_with("runs/RUN/output/train/train/more.log"), False, "not those of its list of sums"),
    "changed": (_with("runs/RUN/files/environment.json", b"{ }"), False, "not those of its list of sums"),
    "no sums": (_without("SHA256SUMS"), False, "not those of its list of sums"),
    "no lease": (_without("lease.json"), True, "it has no lease"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_archive_is_refused_and_leaves_nothing(name: str, tmp_path: Path, elsewhere: Path) -> None:
    folder = a_run(tmp_path)
    change, sums, words = HOSTILE[name]
    file = rewritten(archived(folder, tmp_path / "run.tar"), change, sums=sums)
    with pytest.raises(ConsoleError) as caught:
        taken(file, folder.name, confirm=folder.name)
    assert words in caught.value.sentence()
    assert list(elsewhere.iterdir()) == []
    assert not (tmp_path / "up").exists()


@pytest.mark.parametrize("part", ["journal/", "launch.tar.gz", "lease.json"])
def test_an_object_that_is_something_else_is_refused_and_leaves_no_run(
    part: str, tmp_path: Path, elsewhere: Path
) -> None:
    def change(entries: Entries) -> None:
        name = next(name for name in entries if part in name)
        entries[name] = b"x" * 5000

    folder = a_run(tmp_path)
    file = rewritten(archived(folder, tmp_path / "run.tar"), change)
    with pytest.raises(ConsoleError):
        taken(file, folder.name, confirm=folder.name)
    assert list(elsewhere.iterdir()) == []


def test_a_pipe_and_what_is_no_archive_are_refused_at_once(tmp_path: Path, elsewhere: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "text").write_text("hello " * 1000)
    (tmp_path / "empty").write_bytes(b"")
    begun = time.monotonic()
    for name in ("pipe", "text", "empty", "missing"):
        with pytest.raises((FormatError, ConfigError)) as caught:
            taken(tmp_path / name, "fake-1121-0001", confirm="fake-1121-0001")
        assert str(tmp_path / name) in caught.value.message
    assert time.monotonic() - begun < 5
    assert list(elsewhere.iterdir()) == []


def test_a_header_of_an_endless_length_is_not_read_into_memory(tmp_path: Path, elsewhere: Path) -> None:
    info = tarfile.TarInfo("runs/fake-1121-0001/lease.json")
    info.type, info.size = tarfile.XHDTYPE, 7 << 30
    with (tmp_path / "long.tar").open("wb") as file:
        file.write(info.tobuf(tarfile.PAX_FORMAT))
        file.truncate(8 << 30)
    with pytest.raises(FormatError, match="longer than any"):
        taken(tmp_path / "long.tar", "fake-1121-0001", confirm="fake-1121-0001")
    assert list(elsewhere.iterdir()) == []


def test_more_files_and_more_records_than_any_run_has_are_refused(
    tmp_path: Path, elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = a_run(tmp_path)
    file = archived(folder, tmp_path / "run.tar")
    for limit in ("MOST_FILES", "MOST_JOURNAL_BYTES"):
        with monkeypatch.context() as patch:
            patch.setattr(archives, limit, 2)
            with pytest.raises(FormatError, match="more than any run"):
                taken(file, folder.name, confirm=folder.name)
    with monkeypatch.context() as patch:
        patch.setattr(archives, "free_bytes", lambda _: 1 << 10)
        with pytest.raises(ConfigError, match="more than is free"):
            taken(file, folder.name, confirm=folder.name)
    assert list(elsewhere.iterdir()) == []


def _bits(data: bytes) -> Iterator[bytes]:
    for place in range(0, len(data), max(1, len(data) // 60)):
        yield data[:place] + bytes([data[place] ^ 0x10]) + data[place + 1 :]
        yield data[:place]


def test_any_changed_bit_and_any_cut_is_found_or_does_not_matter(tmp_path: Path, elsewhere: Path) -> None:
    folder = a_run(tmp_path)
    whole = RunReader(folder).records()
    data = archived(folder, tmp_path / "run.tar").read_bytes()
    file, refused = tmp_path / "changed.tar", 0
    for changed in _bits(data):
        file.write_bytes(changed)
        try:
            done = taken(file, folder.name, confirm=folder.name)
        except ConsoleError:
            refused += 1
            assert list(elsewhere.iterdir()) == []
        else:
            assert RunReader(done.folder).records()[: len(whole)] == whole
            forget_everything(elsewhere)
    assert refused > 40  # the end of the file is padding


def forget_everything(runs: Path) -> None:
    runs.rename(runs.with_name(f"past-{time.monotonic_ns()}"))
    runs.mkdir(mode=0o700)


def test_the_sums_are_those_that_sha256sum_checks(tmp_path: Path) -> None:
    folder = a_run(tmp_path)
    done: Archived = archive_run(folder, tmp_path / "run.tar", CLOCK)
    (tmp_path / "out").mkdir()
    subprocess.run(["tar", "--extract", "--file", tmp_path / "run.tar", "--directory", tmp_path / "out"], check=True)
    lines = (tmp_path / "out" / "runs" / folder.name / "SHA256SUMS").read_text().splitlines()
    assert len(lines) == done.files
    for digest, name in (line.split("  ", 1) for line in lines):
        assert hashlib.sha256((tmp_path / "out" / name).read_bytes()).hexdigest() == digest
