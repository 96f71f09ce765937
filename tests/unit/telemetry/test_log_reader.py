"""The values that the reader of logs finds in single lines."""

from __future__ import annotations

import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actions.telemetry.dialects import generic
from actions.telemetry.dialects.progress_bars import bar_of
from actions.telemetry.log_reader import RAY_NOTICE, LogReader, read_log
from actions.telemetry.log_records import HALF, split_records
from actions.telemetry.points import Point, TrainingProgress, number_or_none

BAR = "Epoch 0:   3%|▎  | {n}/1100000 [5:28:58<171:22:21,  1.73it/s, loss=2.52, v_num=, {rest}]"
MEGATRON = " iteration {:8}/     100 | consumed samples:   8 | lm loss: {} | loss scale: 1.0 | grad norm: 1.000 |"


def points_of(*lines: str) -> list[Point]:
    return read_log("".join(f"{line}\n" for line in lines).encode())


def losses_of(*lines: str) -> list[tuple[str, int | None, float]]:
    return [(point.metric, point.step, point.value) for point in points_of(*lines) if point.metric.endswith("_loss")]


@pytest.mark.parametrize(
    ("bars", "expected"),
    [
        ([(7930, "3989.0"), (7950, "4e+3"), (7970, "4009.0")], [3989, 4009]),  # 20 batches a bar, the step is unknown
        ([(3980, "3979.0"), (3999, "4e+3"), (4000, "4e+3")], [3979, 3999, 4000]),  # the bar counts the steps
        ([(7930, "3985.0"), (7940, "3990.0"), (7960, "4e+3")], [3985, 3990, 4000]),  # two batches a step
        ([(34103, "3.1e+4"), (34104, "3.1e+4")], [31000, 31001]),  # the log begins there
    ],
)
def test_a_step_that_lost_its_digits_is_never_the_position_of_a_bar_that_counts_something_else(
    bars: list[tuple[int, str]], expected: list[int]
) -> None:
    lines = [BAR.format(n=n, rest=f"reduced_train_loss={n}.0, global_step={step}") for n, step in bars]
    assert set(expected) <= {step for _, step, _ in losses_of(*lines) if step is not None}
    assert all(abs((step or 0) - expected[0]) <= 30 for _, step, _ in losses_of(*lines))


def test_a_bar_that_counts_a_validation_too_is_no_step_back_where_steps_lose_their_digits() -> None:
    """BioNeMo's bar passes 50 batches of a validation after step 1999: a curve had a restart at 2000 that never was."""
    counts = [3944, 3945, *range(3946, 3951), *range(4000, 4007), 4007, 4008]
    printed = ["1993.0", "1994.0", *["2e+3"] * 12, "2006.0", "2007.0"]
    lines = [
        BAR.format(n=n, rest=f"reduced_train_loss={n}.0, global_step={step}")
        for n, step in zip(counts, printed, strict=True)
    ]
    assert [step for _, step, _ in losses_of(*lines)] == [*range(1993, 2000), 1999, *range(2000, 2008)]


def test_a_step_with_all_its_digits_is_the_step() -> None:
    line = BAR.format(n=40, rest="reduced_train_loss=10.90, global_step=39.00")
    assert losses_of(line) == [("train_loss", 39, 10.9)]


def test_the_running_mean_is_not_the_loss_where_the_loss_is_named() -> None:
    line = BAR.format(n=40, rest="reduced_train_loss=10.90, global_step=39.00")
    assert ("train_loss_smoothed", 39, 2.52) in [(p.metric, p.step, p.value) for p in points_of(line)]


def test_the_running_mean_is_the_loss_where_nothing_else_is() -> None:
    assert losses_of("Epoch 0: 10%|█| 10/100 [00:10<01:30, 1.00it/s, loss=2.5, v_num=3]") == [("train_loss", 10, 2.5)]


def test_a_validation_loss_is_a_point_only_when_it_changes() -> None:
    lines = [BAR.format(n=n, rest=f"reduced_train_loss={n}.0, val_loss={v}") for n, v in ((1, 3), (2, 3), (3, 2))]
    assert [point[1:] for point in losses_of(*lines) if point[0] == "val_loss"] == [(1, 3.0), (3, 2.0)]


def test_a_redraw_is_no_new_point() -> None:
    line = BAR.format(n=40, rest="reduced_train_loss=10.90, global_step=39.00")
    assert len(losses_of(line + "\r" + line, line)) == 1


def test_a_redrawn_nan_is_no_new_point() -> None:
    line = BAR.format(n=40, rest="reduced_train_loss=nan.0, global_step=39.00")
    (metric, step, value), *others = losses_of(line, line)
    assert (metric, step, others) == ("train_loss", 39, [])
    assert math.isnan(value)


def test_a_bar_at_zero_carries_the_values_of_the_epoch_before() -> None:
    assert losses_of("Epoch 1: 0%| | 0/20 [00:00<?, ?it/s, train_loss=3.0]") == []


def test_bars_of_validation_and_downloads_are_no_training() -> None:
    for label in ("Validation DataLoader 0", "Sanity Checking", "Map", "Downloading shards", "Loading weights"):
        assert losses_of(f"{label}: 50%|█| 5/10 [00:01<00:01, 5.0it/s, loss=1.0]") == []


def test_the_first_of_two_bars_on_a_line_counts() -> None:
    line = (
        BAR.format(n=2000, rest="reduced_train_loss=2.600, val_loss=2.800")
        + "dation DataLoader 0: : 51it [00:20, 2.5it/s]"
    )
    assert losses_of(line) == [("train_loss", 2000, 2.6), ("val_loss", 2000, 2.8)]


def test_a_checkpoint_path_is_no_measurement() -> None:
    assert points_of("Saving /fsx/ckpt/model--val_loss=0.00-step=18.ckpt at step 18") == []


def test_a_rate_cut_by_the_next_redraw_is_no_rate() -> None:
    bar = bar_of("Epoch 0:   7%|▋         | 73017/1017679 [00:38<08:12, 1918.0%")
    assert bar is not None
    assert (bar.label, bar.done, bar.total, bar.rate, bar.remaining_seconds) == ("Epoch 0", 73017, 1017679, None, 492)


@pytest.mark.parametrize("rate", ["0.50it/s", "2.00s/it"])
def test_the_time_of_a_step_is_told_whatever_unit_the_bar_chose(rate: str) -> None:
    points = points_of(f"Epoch 0: 10%|█| 10/100 [00:10<01:30, {rate}, train_loss=2.5]")
    assert [(point.step, point.value) for point in points if point.metric == "step_time_s"] == [(10, 2.0)]


def test_a_time_that_the_trainer_measured_goes_before_that_of_the_bar() -> None:
    points = points_of("Epoch 0: 10%|█| 10/100 [00:10<01:30, 1.0it/s, train_loss=2.5, train_step_timing in s=1.9]")
    assert [point.value for point in points if point.metric == "step_time_s"] == [1.9]


def test_seconds_for_each_step_are_turned_into_steps_for_each_second() -> None:
    bar = bar_of("Epoch 0: : 1it [00:26, 26.64s/it, v_num=0, train_loss=13.00]")
    assert bar is not None
    progress = bar.progress(3)
    assert (progress.total, progress.rank, progress.elapsed_seconds) == (None, 3, 26)
    assert progress.per_second == pytest.approx(1 / 26.64)


def test_mpirun_glues_records_and_the_ranks_stay_apart() -> None:
    first, second = MEGATRON.format(1, "3.0"), MEGATRON.format(1, "4.0")
    points = points_of(f"[1,0]<stdout>:{first}[1,1]<stdout>:{second}", "[1,0]<stdout>:")
    assert [(p.rank, p.value) for p in points if p.metric == "train_loss"] == [(0, 3.0), (1, 4.0)]


def test_prefixes_come_off_in_any_order() -> None:
    line = "[pod/train-0/pytorch] 2026-11-20T13:58:49.5Z [default7]:" + MEGATRON.format(5, "2.5")
    loss = next(point for point in points_of(line) if point.metric == "train_loss")
    assert (loss.step, loss.rank, loss.at) == (5, 7, 1795183129.5)


def test_the_time_that_the_caller_knows_goes_before_that_of_the_line() -> None:
    found = LogReader().feed("2026-11-20T13:58:49Z" + MEGATRON.format(5, "2.5"), at=12.0)
    assert {finding.at for finding in found if isinstance(finding, Point)} == {12.0}


def test_torchrun_numbers_the_processes_of_a_node() -> None:
    """`tail_log.py` of PyTorch prints the local rank: on the second node the first process is `rank0`, too."""
    line = b"[rank0]:[titan] 2026-11-29 15:10:01,421 - root - INFO - step:  1  loss: 12.5"
    assert [[point.rank for point in read_log(line, rank=node)] for node in (0, 1)] == [[0], [1]]


def test_ray_workers_are_known_by_the_ranks_that_ray_announces() -> None:
    announced = "(TorchTrainer pid=1) - (node_id=7, ip=10.0.0.1, pid=364) world_rank=3, local_rank=0, node_rank=0"
    prefix = "(RayTrainWorker pid=364, ip=10.0.0.1) "
    step = f"{prefix}LOG Thu Jun  6 22:30:10 2024 - (0, 1) step_loss : 9.1875 learning_rate : 1e-5"
    assert [point.rank for point in points_of(announced, step)] == [3, 3]


def test_ray_workers_that_were_not_announced_are_numbered_as_they_first_speak() -> None:
    lines = [f"(RayTrainWorker pid={pid}) {{'loss': {loss}, 'epoch': 0.5}}" for pid, loss in ((9, 1.0), (4, 2.0))]
    assert [(point.rank, point.value) for point in points_of(*lines)] == [(0, 1.0), (1, 2.0)]


def test_hidden_lines_of_ray_are_told() -> None:
    reader = LogReader()
    reader.feed("(RayTrainWorker pid=1) {'loss': 6.2, 'epoch': 2.0} [repeated 17x across cluster]")
    assert reader.notices == {RAY_NOTICE}


def test_a_dictionary_takes_its_step_from_the_bar_that_follows() -> None:
    lines = (
        "  3%| | 1/30 [00:01<00:38, 1.3s/it]",
        "{'loss': '7.0', 'epoch': '0.1'}",
        " 17%|█| 5/30 [00:01<00:33, 1.3s/it]",
    )
    assert losses_of(*lines) == [("train_loss", 5, 7.0)]


def test_a_dictionary_does_not_take_its_step_from_the_bar_of_an_evaluation() -> None:
    lines = (" 3%| | 1/30 [00:01<00:38, 1.3s/it]", "{'loss': 7.0, 'epoch': 0.1}", " 40%|█| 2/5 [0:01<0:33, 1.3s/it]")
    assert losses_of(*lines) == [("train_loss", None, 7.0)]


def test_a_dictionary_without_bars_is_not_held_back() -> None:
    found = LogReader().feed("{'loss': 7.0, 'epoch': 0.1}")
    assert found == [Point("train_loss", None, 7.0, 0, 0.1, "loss", raw="7.0")]


def test_what_waits_comes_out_when_the_log_falls_silent() -> None:
    reader = LogReader()
    reader.feed(" 3%| | 1/30 [00:01<00:38, 1.3s/it]")
    assert reader.feed("{'loss': 7.0, 'epoch': 0.1}") == []
    assert reader.flush() == [Point("train_loss", None, 7.0, 0, 0.1, "loss", raw="7.0")]
    assert reader.flush() == []


def test_what_waits_does_not_wait_for_ever() -> None:
    reader = LogReader()
    reader.feed(" 3%| | 1/30 [00:01<00:38, 1.3s/it]")
    reader.feed("{'loss': 7.0, 'epoch': 0.1}")
    assert [found for _ in range(30) for found in reader.feed("a warning")] != []


def test_nemo_counts_global_steps_over_epochs() -> None:
    line = "Training epoch 2, iteration 8/999 | lr: 7e-06 | global_step: 46 | reduced_train_loss: 11.02"
    found = LogReader().feed(line)
    assert found[0] == TrainingProgress("epoch 2", 8, 999)
    assert losses_of(line) == [("train_loss", 46, 11.02)]


def test_megatron_without_a_loss_while_fp16_warms_up_gives_no_loss() -> None:
    line = " iteration        1/      40 | consumed samples: 16 | loss scale: 4294967296.0 | grad norm: 1.0 |"
    assert losses_of(line) == []


def test_validation_and_test_losses_of_megatron_are_kept_apart() -> None:
    head = "validation loss at iteration 60"
    lines = [
        f" {head}{on} | lm loss value: 2.9E+00 | lm loss PPL: 1.8E+01 |"
        for on in (" on validation set", " on test set")
    ]
    assert losses_of(*lines) == [("val_loss", 60, 2.9), ("test_loss", 60, 2.9)]


@pytest.mark.parametrize(
    ("line", "step", "value"),
    [
        ("step 20 loss 2.1 lr 0.1", 20, 2.1),
        ("스텝 20/200, 손실 loss=2.1", 20, 2.1),
        ("Epoch [1/5], Step [100/600], Loss: 0.4", 100, 0.4),
        ("iter 100: loss 2.5, time 50ms", 100, 2.5),
        ('{"step": 7, "loss": 1.5, "lr": 0.1}', 7, 1.5),
        ("step: 1990  loss:  3.4370  memory: 68.57GiB(86.69%)  tps: 6,785", 1990, 3.437),
        ("0: 2025-06-17 16:24:55 I [train.py:103] Batch 1 Loss: 11.6, Speed: 10.90 samples/sec, lr: 0.000100", 1, 11.6),
        ("1|52|Loss: 2.25:   0%|▏  | 52/25880 [00:24<3:55:01,  1.83it/s]", 52, 2.25),
    ],
)
def test_loops_of_many_people_are_read(line: str, step: int, value: float) -> None:
    assert losses_of(line) == [("train_loss", step, value)]


def test_both_losses_of_one_line_are_read() -> None:
    expected = [("train_loss", 5, 2.0), ("val_loss", 5, 2.2)]
    assert losses_of("step 5: train loss 2.0, val loss 2.2") == expected
    assert losses_of("step 5: val loss 2.2, train loss 2.0") == expected


@pytest.mark.parametrize(
    "line",
    [
        "step 5: packet loss: 0% on link",
        "step 5 loss_scale 65536",
        "step=3 aux_loss=0.1",
        "Step 3: --loss-scale 128",
        "Early stopping at step 9: loss did not improve from 2.310",
        "wandb: Run summary: train/loss 2.3107 train/global_step 500",
        '{"step": 7, "message": "loss 1.5"}',
        '{"step": 7.5, "loss": 1.5}',
    ],
)
def test_a_line_about_something_else_gives_no_loss(line: str) -> None:
    assert losses_of(line) == []


def test_a_loop_of_ones_own_is_not_read_beside_another_dialect() -> None:
    lines = [MEGATRON.format(1, "3.0"), "step 1 loss 9.9", MEGATRON.format(2, "2.0"), "step 2 loss 9.9"]
    assert losses_of(*lines) == [("train_loss", 1, 3.0), ("train_loss", 2, 2.0)]


def test_pieces_of_a_container_log_join_within_their_stream() -> None:
    whole = MEGATRON.format(5, "7.315237")
    cut = whole.index("315")
    lines = [
        f"2026-11-20T13:58:49Z stdout P {whole[:cut]}",
        "2026-11-20T13:58:49Z stderr F step 5 loss: 99.9 in a warning",
        f"2026-11-20T13:58:50Z stdout F {whole[cut:]}",
    ]
    assert ("train_loss", 5, 7.315237) in losses_of(*lines)


HOSTILE = {
    "digits": "Epoch 0: " + "1" * 200_000,
    "dictionaries": "{'loss': " * 20_000,
    "escapes": "\x1b[" * 100_000,
    "an endless escape": "\x1b]0;" + "x" * 200_000,
    "steps": "step 1 " * 30_000,
    "losses": "loss=" * 40_000,
    "validations": "step 1 " + "val loss 1 " * 20_000,
    "fields": "| a: 1 " * 30_000,
    "brackets": "(" * 200_000,
    "bars": "1/1 [" * 40_000,
    "tags": "[1,1]<stdout>:" * 15_000,
}


@pytest.mark.parametrize("middle", HOSTILE.values(), ids=HOSTILE.keys())
def test_a_hostile_line_neither_hangs_nor_swallows_the_next(middle: str) -> None:
    assert ("train_loss", 2, 2.0) in losses_of(MEGATRON.format(1, "3.0"), middle, MEGATRON.format(2, "2.0"))


def test_a_very_long_record_keeps_its_ends() -> None:
    (record,) = split_records("a" * HALF + "b" * 100_000 + "c" * HALF)
    assert re.fullmatch(r"a{8192} … c{8192}", record)


@given(st.binary(max_size=400))
def test_no_bytes_make_the_reader_fail(data: bytes) -> None:
    assert all(isinstance(point, Point) for point in read_log(data))


@given(st.text(alphabet="0123456789.,eE+-naif|[]:/ \t<>{}'\"losstep=", max_size=200))
def test_no_text_makes_the_reader_fail(text: str) -> None:
    assert all(isinstance(point, Point) for point in read_log(f"step 3 loss {text}\n".encode()))


@pytest.mark.parametrize(
    ("text", "value"),
    [("6,785", 6785.0), ("7.5e-9", 7.5e-9), ("-1", -1.0), ("inf", math.inf), ("1.2.3", None), ("", None)],
)
def test_numbers_are_read_as_they_are_printed(text: str, value: float | None) -> None:
    assert number_or_none(text) == value


def test_a_padded_nan_is_nan() -> None:
    value = number_or_none("nan.0")
    assert value is not None
    assert math.isnan(value)


RICH = "Epoch {epoch}  ━━━━━━━━━━━━━━━━━ {n}/20 0:00:00 • 0:01:05 12.34it/s {first}"
BELOW = " " * 63


def test_rich_bars_without_a_last_epoch_are_read() -> None:
    assert losses_of(RICH.format(epoch="0/-2", n=7, first="train_loss: 2.500")) == [("train_loss", 7, 2.5)]


def test_a_name_of_a_rich_bar_that_is_cut_is_the_only_one_that_begins_so() -> None:
    bar = RICH.format(epoch="0/1", n=7, first="reduced_train_lo…")
    assert losses_of(bar, f"{BELOW}1.020", f"{BELOW}global_step:", f"{BELOW}39.000") == [("train_loss", 39, 1.02)]
    assert losses_of(RICH.format(epoch="0/1", n=7, first="train_loss_…"), f"{BELOW}1.020") == []


def test_the_line_that_ends_a_rich_bar_is_read_too() -> None:
    bar = RICH.format(epoch="0/1", n=7, first="v_num: 0")
    expected = [("train_loss", 7, 2.5), ("val_loss", 8, 2.25)]
    assert losses_of(bar, f"{BELOW}train_loss_step: 2.500", "step 8 val_loss 2.25") == expected


@pytest.mark.parametrize("step", ["", ", global_step={}.0"])
def test_a_loss_that_is_the_same_behind_a_validation_is_one_of_the_next_step(step: str) -> None:
    """As from 2.0 on, where the bar does not count a validation."""
    bars = [
        f"Epoch 0: 50%|#| {done}/9 [00:01<00:01, 1.00it/s, train_loss=4.630{step.format(done)}]" for done in (3, 4, 5)
    ]
    lines = [bars[0], "Validation DataLoader 0: 100%|#| 4/4 [00:00<00:00, 9.0it/s]", *bars]
    points = read_log("\n".join(lines).encode())
    assert [point.step for point in points if point.metric == "train_loss"] == [3, 4, 5]


FROM_2 = "Epoch 0: 50%|#####     | {}/100 [00:50<00:50, 1.00it/s, loss={}]"
VALIDATED = [f"Validation DataLoader 0: 50%|#| {done}/4 [00:00<00:00, 9.0it/s]" for done in range(5)]


def steps_of(*lines: str) -> list[tuple[int | None, str]]:
    """Return step and loss of every point of the training, the last of each step."""
    found = {point.step: point.raw for point in read_log("\n".join(lines).encode()) if point.metric == "train_loss"}
    return list(found.items())


def test_a_loss_that_stays_over_two_steps_behind_a_validation_shifts_no_steps() -> None:
    """Lightning 2 draws each step twice; the loss of 51 and 52 is that of 50 in its three digits."""
    drawn = ((51, "2.31"), (51, "2.31"), (52, "2.31"), (52, "2.31"), (53, "2.31"), (53, "2.30"))
    lines = [FROM_2.format(50, "2.31"), *VALIDATED, *(FROM_2.format(*each) for each in drawn)]
    assert steps_of(*lines) == [(50, "2.31"), (51, "2.31"), (52, "2.31"), (53, "2.30")]


def test_a_step_that_is_drawn_once_behind_a_validation_is_a_step() -> None:
    lines = [FROM_2.format(50, "2.31"), *VALIDATED, FROM_2.format(51, "2.31"), FROM_2.format(52, "2.30")]
    assert steps_of(*lines) == [(50, "2.31"), (51, "2.31"), (52, "2.30")]


def test_a_bar_that_goes_on_with_a_validation_has_counted_its_batches() -> None:
    """As before Lightning 2."""
    during = [line for done in (1, 2, 3, 4) for line in (VALIDATED[done], FROM_2.format(50 + done, "2.31"))]
    lines = [FROM_2.format(50, "2.31"), VALIDATED[0], *during, FROM_2.format(55, "2.31"), FROM_2.format(55, "2.30")]
    assert steps_of(*lines) == [(50, "2.31"), (51, "2.30")]


def test_the_full_bar_of_one_rank_ends_no_epoch_of_another() -> None:
    lines = ["Epoch 1/2", "[rank0]: 100/100 [==] - 1s - loss: 1.9"]
    lines += [f"[rank1]: {done}/100 [==] - 1s - loss: 1.{done % 10}" for done in (98, 99, 100)]
    lines += ["Epoch 2/2", *(f"[rank{rank}]: 1/100 [>.] - 1s - loss: 0.5" for rank in (0, 1))]
    found = [(point.rank, point.step, point.epoch) for point in read_log("\n".join(lines).encode())]
    assert found == [(0, 100, 1), (1, 98, 1), (1, 99, 1), (1, 100, 1), (0, 1, 2), (1, 1, 2)]


class _Searches:
    """An expression that finds nothing, and counts the characters that it is searched in."""

    def __init__(self) -> None:
        self.characters = 0

    def search(self, text: str, start: int, end: int) -> None:
        """Count them."""
        self.characters += min(end, len(text)) - start


def test_what_stands_before_counters_is_looked_at_near_the_last_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    searches = _Searches()
    monkeypatch.setattr(generic, "_COUNTS_STEPS", searches)
    assert losses_of("[3/9]" * 3000 + " loss: 2.3") == []
    assert 0 < searches.characters <= 100


@pytest.mark.parametrize(
    ("printed", "value"), [("1e308", math.inf), ("-1e200", -math.inf), ("5e-324", 0.0), ("1e-320", 0.0), ("1e99", 1e99)]
)
def test_a_number_that_arithmetic_does_not_survive_is_infinite_or_zero(printed: str, value: float) -> None:
    (point,) = points_of(f"step 2 loss {printed}")
    assert point.value == value
    assert point.raw == printed


def test_no_step_has_more_digits_than_a_counter() -> None:
    for point in points_of("step 999999999999 loss 2", "{'loss': 2.0, 'step': %s}" % ("9" * 40)):
        assert point.step is None or point.step < 10**18


def test_a_rate_of_nothing_has_no_time_of_a_step() -> None:
    line = "Epoch 0/1 ━━━━━━━━ 0/100 0:00:00 • -:--:-- 0.00it/s v_num: 0.000 train_loss: 2.5"
    assert all(math.isfinite(point.value) for point in points_of(line, line))
