"""Lines of errors, warnings and details are known by what loggers, Python, CUDA, NCCL and the kernel print."""

from __future__ import annotations

import pytest

from tests.support.builders import NOW
from tui.present.text import moment_in
from tui.widgets.line_level import ERRORS, LineLevel, is_of_traceback, severity_at, severity_of
from tui.widgets.log_buffer import BufferedLine, LineSearch, LogBuffer

_ERRORS = (
    "2026-11-22 14:02:07,123 ERROR trainer: checkpoint failed",
    "[2026-11-22 14:02:07] CRITICAL:root:no space left",
    'level=error msg="scrape failed"',
    '{"level":"error","msg":"scrape failed"}',
    '{"severity": "ERROR", "message": "x"}',
    '{"lvl":"err","msg":"x"}',
    '{"levelname": "critical", "msg":"x"}',
    "[NeMo E 2026-11-21 11:58:41 nemo_logging:349] lost",
    "E1122 14:02:03.123456   12 launcher.cc:99] lost",
    "[E ProcessGroupNCCL.cpp:474] [Rank 0] Watchdog caught collective operation timeout",
    "[rank0]:[E1122 14:02:03.123456789 ProcessGroupNCCL.cpp:616] [Rank 0] Watchdog",
    "Traceback (most recent call last):",
    "[rank3]: Traceback (most recent call last):",
    "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB",
    "[rank3]: RuntimeError: CUDA error: an illegal memory access was encountered",
    "KeyboardInterrupt",
    "ip-10-1-0-11:123:456 [0] transport/net.cc:12 NCCL WARN Cuda failure 'out of memory'",
    "ncclSystemError: System call (e.g. socket, malloc) or external library call failed",
    "RuntimeError: cuDNN error: CUDNN_STATUS_EXECUTION_FAILED",
    "[12345.678] Memory cgroup out of memory: Killed process 4242 (python)",
    "Segmentation fault (core dumped)",
    "Killed",
    "train.py: error: unrecognized arguments: --foo",
    "NVRM: Xid (PCI:0000:00:1e): 79, GPU has fallen off the bus.",
)
_WARNINGS = (
    "WARNING:  KV cache is 94% full, 3 requests wait",
    "2026-11-22 14:02:07 [WARN] slow disk",
    "level=warn msg=slow",
    "[NeMo W 2026-11-21 11:58:41 nemo_logging:349] the grad norm is 12.5: clipped",
    "W1122 14:02:03.123456   12 launcher.cc:99] slow",
    "/opt/x.py:12: UserWarning: The given NumPy array is not writable",
    "[W1122 14:02:03.123456789 socket.cpp:699] retrying",
)
_PLAIN = (
    "Epoch 0: 12%|█▏   | 120/1000 [00:12<01:28, 9.9it/s, train_loss=2.51, val_error=0.1]",
    "step 12 validation error: 0.23",
    "errors=0 warnings=0",
    "# Out of bounds values : 0 OK",
    "NCCL INFO Channel 00/02 : 0 1",
    "Killed processes are restarted by the operator"[7:],
    "loading ErrorCorrection tables",
)


@pytest.mark.parametrize("line", _ERRORS)
def test_a_line_of_an_error(line: str) -> None:
    assert severity_of(line) is LineLevel.ERROR


@pytest.mark.parametrize("line", _WARNINGS)
def test_a_line_of_a_warning(line: str) -> None:
    assert severity_of(line) is LineLevel.WARNING


@pytest.mark.parametrize("line", _PLAIN)
def test_a_line_that_only_looks_like_it(line: str) -> None:
    assert severity_of(line) is LineLevel.PLAIN


def test_debug_output_steps_back() -> None:
    assert severity_of("2026-11-22 DEBUG urllib3: GET /") is LineLevel.DETAIL


def test_the_search_for_errors_finds_the_lines_that_are_coloured_as_errors() -> None:
    lines = [*_ERRORS, *_WARNINGS, *_PLAIN]
    buffer = LogBuffer()
    buffer.extend(BufferedLine(line) for line in lines)
    search = LineSearch(buffer, ERRORS)
    assert search.advance()
    assert [lines[number] for number in search.matches] == list(_ERRORS)


def test_a_traceback_is_known_by_its_head_its_places_and_its_exception() -> None:
    traceback = (
        "[rank0]: Traceback (most recent call last):",
        '[rank0]:   File "/opt/train.py", line 12, in main',
        "[rank0]: torch.OutOfMemoryError: CUDA out of memory.",
        '  File "/opt/train.py", line 12',
    )
    assert all(map(is_of_traceback, traceback))
    assert not is_of_traceback("2026-11-22 ERROR trainer: checkpoint failed")


NEWEST = int(NOW.timestamp()) * 1_000_000_000


@pytest.mark.parametrize(
    ("text", "seconds_before"),
    [
        ("-10m", 600),
        ("-1h30m", 5_400),
        (f"{NOW:%H:%M:%S}", 0),
        (f"{NOW:%Y-%m-%dT%H:%M:%S}Z", 0),
        (f"{NOW:%Y-%m-%d %H:%M:%S}.5", -0.5),
    ],
)
def test_a_moment_of_a_log_is_read(text: str, seconds_before: float) -> None:
    assert moment_in(text, newest_ns=NEWEST) == NEWEST - int(seconds_before * 1e9)


def test_a_time_of_day_after_the_newest_line_is_yesterday() -> None:
    late = moment_in("23:59:59", newest_ns=NEWEST)
    assert late is not None
    assert 0 < NEWEST - late < 86_400 * 10**9


@pytest.mark.parametrize("text", ["", "noon", "25:00", "14", "-soon", "2026-13-01 10:00"])
def test_what_is_no_moment_is_refused(text: str) -> None:
    assert moment_in(text, newest_ns=NEWEST) is None


def test_a_level_of_its_logger_counts_and_hides_no_error_in_the_text() -> None:
    assert severity_at("WARN", '{"lvl":"WARN"}') is LineLevel.WARNING
    assert (
        severity_at("INFO", '{"level":"info","msg":"torch.cuda.OutOfMemoryError: CUDA out of memory"}')
        is LineLevel.ERROR
    )
    assert severity_at("VERBOSE", '{"level":"verbose"}') is LineLevel.DETAIL
    assert severity_at("", "{}") is LineLevel.PLAIN
