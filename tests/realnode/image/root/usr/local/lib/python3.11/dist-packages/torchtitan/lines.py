"""The lines of TorchTitan 0.2.2, as `tests/upstream` compares them with a recorded log."""

from __future__ import annotations

RECORD = "[titan] %(asctime)s - %(name)s - %(levelname)s - %(message)s"
_RED, _GREEN, _BLUE, _MAGENTA, _CYAN, _RESET = (f"\033[{number}m" for number in (31, 32, 34, 35, 36, 39))
_ORANGE, _TURQUOISE = "\033[38;2;180;60;0m", "\033[38;2;54;234;195m"


def size_line(parameters: int) -> str:
    """The size of the model."""
    return f"{_BLUE}Model llama3 8B {_RED}size: {parameters:,} total parameters{_RESET}"


def step_line(
    step: int, loss: float, norm: float, *, gib: float, percent: float, tps: float, tflops: float, mfu: float
) -> str:
    """The numbers of a step; `gib` and `percent` are of a device's memory, `mfu` is in percent."""
    return (
        f"{_RED}step: {step:2}  {_GREEN}loss: {loss:8.5f}  {_ORANGE}grad_norm: {norm:7.4f}  "
        f"{_TURQUOISE}memory: {gib:5.2f}GiB({percent:.2f}%)  {_BLUE}tps: {round(tps):,}  "
        f"{_CYAN}tflops: {tflops:,.2f}  {_MAGENTA}mfu: {mfu:.2f}%{_RESET}"
    )
