"""The progress bar of PyTorch Lightning, as tqdm draws it where there is no terminal.

Source:
    tqdm's `format_meter` and `format_num`, Lightning's padding of metrics to five characters; compared with the
    captured bars of BioNeMo 1.2 (`Epoch 0:   3%|▎         | 34103/1100000 [5:28:58<171:22:21, …`) and NeMo 24.01
    (`Epoch 0: :   0%|          | 2000/603000 [1:03:17<317:00:58, …`).
"""

from __future__ import annotations

from collections.abc import Mapping

_WIDTH = 10
_EIGHTHS = " ▏▎▍▌▋▊▉"
_PADDED = 5


def lightning_bar(
    epoch: int,
    done: int,
    total: int,
    *,
    elapsed_seconds: float,
    metrics: Mapping[str, float | str],
    first: int = 0,
) -> str:
    """One drawing of the main bar, without the carriage return that starts it.

    Args:
        epoch: Zero-based.
        done: Batches so far, validation batches included, as Lightning 1.x counts.
        total: Batches of the epoch, validation included.
        elapsed_seconds: Since the epoch began.
        first: The count with which the bar began: a resumed run's is not 0.
        metrics: In order; numbers are formatted as metrics, texts are shown as they are.
    """
    rate = (done - first) / elapsed_seconds if elapsed_seconds > 0 else 0.0
    left = clock((total - done) / rate) if rate else "?"
    speed = f"{rate:5.2f}it/s" if rate >= 1 or not rate else f"{1 / rate:5.2f}s/it"
    return f"Epoch {epoch}: {_count(done, total)} [{clock(elapsed_seconds)}<{left}, {speed}, {_values(metrics)}]"


def nemo_bar(
    epoch: int,
    done: int,
    total: int,
    *,
    elapsed_seconds: float,
    metrics: Mapping[str, float | str],
    first: int = 0,
) -> str:
    """One drawing of the bar of NeMo 24.01: two colons, no rate, training steps only.

    Arguments as for `lightning_bar`.
    """
    rate = (done - first) / elapsed_seconds if elapsed_seconds > 0 else 0.0
    left = clock((total - done) / rate) if rate else "?"
    return f"Epoch {epoch}: : {_count(done, total)} [{clock(elapsed_seconds)}<{left}, {_values(metrics)}]"


def _count(done: int, total: int) -> str:
    share = done / total if total else 0.0
    return f"{share * 100:3.0f}%|{_blocks(share)}| {done}/{total}"


def _values(metrics: Mapping[str, float | str]) -> str:
    return ", ".join(f"{name}={value if isinstance(value, str) else number(value)}" for name, value in metrics.items())


def number(value: float) -> str:
    """A metric as the bar shows it: three digits, `1e+3` where that is shorter, padded with zeros."""
    short = f"{value:.3g}".replace("e+0", "e+").replace("e-0", "e-")
    text = short if len(short) < len(str(value)) else str(value)
    if "e" in text:
        return text
    if "." not in text and len(text) < _PADDED:
        text += "."
    return text + "0" * (_PADDED - len(text))


def clock(seconds: float) -> str:
    """A duration as tqdm writes it: `MM:SS`, or `H:MM:SS`."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours:d}:{minutes:02d}:{rest:02d}" if hours else f"{minutes:02d}:{rest:02d}"


def _blocks(share: float) -> str:
    eighths = int(min(max(share, 0.0), 1.0) * _WIDTH * 8)
    full, part = divmod(eighths, 8)
    drawn = "█" * full + (_EIGHTHS[part] if full < _WIDTH else "")
    return drawn.ljust(_WIDTH)
