"""`eksml-tui read` says of every captured output what a person would read."""

from __future__ import annotations

import io
import json
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from actions.telemetry.log_reader import read_log
from actions.telemetry.points import Point
from tests.unit.telemetry.corpus import expected_of, false_points, missing_points, samples
from tui.cli import main
from tui.cli.inspect import read as reading

KINDS = {"nccl": "nccl", "nvidia_smi": "nvidia-smi", "neuron": "neuron", "efa": "efa"}
CASES = [(kind, path) for folder, kind in KINDS.items() for path in samples(folder) if not path.match("*_topo.*")]
TOPOLOGIES = [("topo", path) for path in samples("nvidia_smi") if path.match("*_topo.*")]
LOGS = samples("logs")

FORMATS = (
    "nccl-tests", "nccom-test", "nvidia-smi-table", "nvidia-smi-L", "nvidia-smi-dmon", "fi_info",
    "kubectl-describe-node", "neuron-ls-table", "neuron-ls-json", "neuron-monitor-json", "neuron-top-screen",
)  # fmt: skip
ABOUT_THE_SAMPLE = ("sample", "provenance", "format", "notes", "error", "expect", "acceptable", "truth")
JUDGED_BY_OTHERS = ("table_complete", "op", "verdict", "devices")
"""The keys of what is worked out from the text rather than written in it, or is in it for no reader."""


def read(capsys: pytest.CaptureFixture[str], *argv: str, code: int = 0) -> Any:
    assert main(["read", *argv, "--output", "json"]) == code
    return json.loads(capsys.readouterr().out)


def differences(got: Any, want: Any, where: str = "") -> Iterator[str]:
    """Yield the places where an answer differs from what is expected; it may have more."""
    if isinstance(want, dict) and isinstance(got, dict):
        for key, value in want.items():
            if key not in JUDGED_BY_OTHERS or (key == "devices" and isinstance(value, list)):
                yield from differences(got.get(key, "nothing"), value, f"{where}.{key}")
    elif isinstance(want, list) and isinstance(got, list):
        if len(got) != len(want):
            yield f"{where} has {len(got)} entries, not {len(want)}"
        for number, (one, other) in enumerate(zip(got, want, strict=False)):
            yield from differences(one, other, f"{where}[{number}]")
    elif isinstance(want, float) and isinstance(got, int | float):
        if abs(got - want) > 1e-9 + 1e-6 * abs(want):
            yield f"{where} is {got}, not {want}"
    elif got != want:
        yield f"{where} is {got!r}, not {want!r}"


@pytest.mark.parametrize(("kind", "sample"), CASES, ids=[path.name for _, path in CASES])
def test_every_captured_output_is_read_as_it_stands(
    kind: str, sample: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    expected, got = expected_of(sample), read(capsys, kind, str(sample))
    if expected["format"] in FORMATS and "expect" not in expected:
        wanted = {key: value for key, value in expected.items() if key not in ABOUT_THE_SAMPLE}
        assert list(differences(got, wanted)) == []
    if expected.get("error"):
        assert got["error"]
        assert got["error"].split()[0] in sample.read_text(encoding="utf-8")


@pytest.mark.parametrize("sample", LOGS, ids=lambda path: path.stem)
def test_every_captured_log_gives_its_points_as_they_were_printed(
    sample: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    got = read(capsys, "log", str(sample), code=0 if read_log(sample.read_bytes()) else 1)
    expected = expected_of(sample)
    points = [
        Point(each["metric"], each["step"], float(each["value"]), each["rank"], each.get("epoch"), raw=each["raw"])
        for each in got
    ]
    assert false_points(points, expected) == []
    if not expected.get("best_effort"):
        assert missing_points(points, expected) == []
        assert {want["raw"] for want in expected["points"]} <= {point.raw for point in points}


@pytest.mark.parametrize("output", ["table", "plot"])
@pytest.mark.parametrize(
    ("kind", "sample"),
    [*CASES, *TOPOLOGIES, *(("log", path) for path in LOGS if read_log(path.read_bytes()))],
    ids=lambda each: str(each)[-40:],
)
def test_every_captured_output_can_be_shown(
    kind: str, sample: Path, output: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    assert main(["read", kind, str(sample), "--output", output]) == 0
    shown = capsys.readouterr().out
    assert shown.strip()
    assert "\x1b" not in shown


class Piped(io.TextIOWrapper):
    """A standard input that somebody pipes into."""

    def __init__(self, data: bytes) -> None:
        super().__init__(io.BytesIO(data))


def test_a_tool_that_is_not_there_says_nothing_about_adapters(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "efa.txt"
    path.write_text("bash: fi_info: command not found\n", encoding="utf-8")
    assert main(["read", "efa", str(path)]) == 0
    assert capsys.readouterr().out == "✗ fi_info: command not found\n"
    path.write_text("fi_getinfo: -61 (No data available)\n", encoding="utf-8")
    assert main(["read", "efa", str(path)]) == 0
    assert "no EFA adapter is visible there" in capsys.readouterr().out


def test_a_pipe_is_read_where_no_file_is_named(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", Piped(b"{'loss': nan, 'epoch': 0.5}\n"))
    assert read(capsys, "log") == [
        {"step": None, "metric": "train_loss", "value": "nan", "raw": "nan", "key": "loss", "rank": 0, "epoch": 0.5}
    ]


def test_a_log_without_points_is_an_empty_list_and_a_sentence(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", Piped(b"packet loss: 0%\n"))
    assert read(capsys, "log", "-", code=1) == []
    monkeypatch.setattr("sys.stdin", Piped(b"packet loss: 0%\n"))
    assert main(["read", "log"]) == 1
    assert capsys.readouterr() == ("", "eksml-tui: Nothing in it is recognised as a report of a training.\n")


def test_lines_in_which_a_loss_seems_to_stand_are_quoted(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", Piped(b"step 5: reward 0.25, kl 0.01\nour loss (mean) -> 2.5\ndone\n"))
    assert main(["read", "log"]) == 0
    captured = capsys.readouterr()
    assert "reward 0.25 · kl 0.01" in captured.out
    assert captured.err.splitlines() == [
        "eksml-tui: A loss seems to stand in 1 line that no reader recognises: “our loss (mean) -> 2.5”.",
        "eksml-tui: No training loss is recognised; there is kl, reward.",
    ]


@pytest.mark.parametrize("kind", [*KINDS.values(), "topo"])
@pytest.mark.parametrize("output", ["table", "json", "plot", "csv"])
def test_what_no_reader_recognises_ends_with_one_and_prints_nothing(
    kind: str, output: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", Piped(b"Dear all,\nthe meeting is at 10:30.\n"))
    assert main(["read", kind, "-o", output]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("eksml-tui: Nothing in it is recognised as ")


@pytest.mark.parametrize("kind", ["log", *KINDS.values()])
def test_a_file_that_cannot_be_read_is_one_sentence(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "broken.gz").write_bytes(b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x00" + b"\xff" * 20)
    for name in ("missing.log", ".", "broken.gz"):
        assert main(["read", kind, str(tmp_path / name), "-o", "json"]) == 2
        captured = capsys.readouterr()
        assert captured.err.startswith(f"eksml-tui: {tmp_path / name}: ")
        assert len(captured.err.splitlines()) == 1


def test_a_metric_can_be_chosen_for_the_plot(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = "".join(f" iteration {n}/ 9 | lm loss: {9 - n} | grad norm: {n} |\n" for n in range(1, 9)).encode()
    monkeypatch.setattr("sys.stdin", Piped(lines))
    assert main(["read", "log", "-o", "plot", "--metric", "grad_norm"]) == 0
    assert "grad_norm: last 8, min 1, max 8" in capsys.readouterr().out
    monkeypatch.setattr("sys.stdin", Piped(lines))
    assert main(["read", "log", "-o", "plot", "--metric", "nothing"]) == 0
    assert "This log has: train_loss, grad_norm." in capsys.readouterr().out


def test_a_shortened_step_is_not_the_position_of_the_bar_and_the_file_may_come_last(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bar = "Epoch 0:  99%|█| {}/8000 [12:00<00:05,  5.4it/s, loss=2.51, reduced_train_loss=2.510, global_step={}]"
    log = tmp_path / "train.log"
    log.write_text("".join(bar.format(*place) + "\n" for place in ((7930, "3989.0"), (7950, "4e+3"))))
    steps = [point["step"] for point in read(capsys, "log", "-o", "json", str(log))]
    assert max(steps) in (3999, 4000)


def test_a_bar_that_is_drawn_twice_shows_its_own_loss(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Lightning 2.6 moves its bar first, with the loss of the step before, and then draws it with its own."""
    bars = (
        "10/79 [00:00<00:01, 55.83it/s, train_loss=5.670, lr=0.001]",
        "20/79 [00:00<00:00, 88.81it/s, train_loss=5.670, lr=0.001]",
        "20/79 [00:00<00:00, 88.47it/s, train_loss=5.820, lr=0.001]",
    )
    log = tmp_path / "train.log"
    log.write_text("".join(f"\rEpoch 0:  25%|██▌       | {bar}" for bar in bars) + "\n")
    assert main(["read", "log", str(log)]) == 0
    _, first, second = capsys.readouterr().out.splitlines()
    assert "train_loss 5.670" in first
    assert "train_loss 5.820" in second
    assert "5.670" not in second


_SMALL_LOGS = [("log", path) for path in LOGS if path.stat().st_size < 20_000]


def _piped(kind: str, data: bytes, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr("sys.stdin", Piped(data))
    main(["read", kind, "-o", "json"])
    return capsys.readouterr().out


@pytest.mark.parametrize(
    ("kind", "sample"), [*CASES, *TOPOLOGIES, *_SMALL_LOGS], ids=lambda each: str(each).rpartition("/")[2]
)
def test_a_copy_out_of_a_document_is_the_same_reading(
    kind: str, sample: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    data = sample.read_bytes()
    wanted = _piped(kind, data, capsys, monkeypatch)
    for margin in (b"    ", b"> "):
        copied = b"\n".join(margin + line if line else line for line in data.split(b"\n"))
        assert _piped(kind, copied, capsys, monkeypatch) == wanted
    assert _piped(kind, b"```console\n" + data + b"\n```\n", capsys, monkeypatch) == wanted


HEADER = "#       size         count      type   redop    root     time   algbw   busbw #wrong\n"
HARD = {
    "a header of one name": ("nccl", "size(B)\n1\n2\n"),
    "a row of one number": ("nccl", "size(B) count(elems) type time:avg(us) algbw(GB/s) busbw(GB/s)\n5\n\n"),
    "a size of 5,000 digits": ("nccl", HEADER + f"{'9' * 5000} 2 float sum -1 10.1 1.0 1.5 0\n"),
    "digits of another script": ("nccl", HEADER + "\u00b2\u00b2 \u0661 float sum -1 10.1 1.0 1.5 0\n"),
    "a bandwidth of 1e308": ("nccl", HEADER + "8 2 float sum -1 10.1 1e308 1.5e308 0 10.1 1.0 5.0e-324 0\n"),
    "a loss of 1e308": ("log", "step 1 loss 2.5\nstep 2 loss 1e308\n"),
    "a loss of 5e-324": ("log", "step 1 loss 0\nstep 2 loss 5e-324\n"),
    "losses from end to end": ("log", "step 1 loss -1.7e308\nstep 2 loss 1.7e308\nstep 3 loss nan\nstep 4 loss inf\n"),
    "ECC of another script": ("nvidia-smi", "|   0  A100 On  | 00000000:00:1B.0 Off | \u00b2 |\n"),
    "numbers of 400 digits": ("neuron", '{"neuron_runtime_data": [{"pid": %s}], "x": 1e999}' % ("9" * 400)),
}


@pytest.mark.parametrize("form", ["table", "json", "plot", "csv"])
@pytest.mark.parametrize("name", HARD)
def test_no_text_is_a_traceback(name: str, form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kind, text = HARD[name]
    (tmp_path / "captured").write_text(text)
    main(["read", kind, str(tmp_path / "captured"), "-o", form])
    printed = capsys.readouterr()
    assert "Traceback" not in printed.out + printed.err
    assert "a bug of eksml-tui" not in printed.out + printed.err


def test_what_a_reader_does_not_survive_is_its_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_given: object, **_named: object) -> None:
        raise IndexError("tuple index out of range")

    (tmp_path / "captured").write_text("x")
    monkeypatch.setitem(reading._READERS, "efa", broken)
    monkeypatch.setattr("actions.cluster.diagnose.parse_input.parse_evidence", broken)
    for words in (["read", "efa"], ["why", "--from"]):
        assert main([*words, str(tmp_path / "captured")]) == 2
        told = capsys.readouterr().err
        assert "captured: It cannot be read because of a bug of eksml-tui (IndexError" in told
        assert told.count("\n") == 1


def test_a_file_without_an_end_is_not_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["read", "log"], ["why", "--from"]):
        assert main([*words, "/dev/zero"]) == 2
        assert "it is not a file" in capsys.readouterr().err


def test_a_pipe_is_waited_for_until_something_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    os.mkfifo(tmp_path / "pipe")

    def write() -> None:
        with (tmp_path / "pipe").open("w") as pipe:
            pipe.write("step 7 loss 2.25\n")

    writer = threading.Thread(target=write)
    writer.start()
    assert main(["read", "log", str(tmp_path / "pipe")]) == 0
    writer.join()
    assert "train_loss 2.25" in capsys.readouterr().out
