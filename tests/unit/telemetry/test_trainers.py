"""Lines of trainers in the forms of other versions: exactly the losses that a person reads in them."""

from __future__ import annotations

import pytest

from actions.telemetry.log_reader import LogReader, LogStream, read_log
from tests.unit.telemetry.captures import CAPTURES
from tests.unit.telemetry.corpus import LOSSES

Loss = tuple[str, int | None, str, float | None]
"""Metric, step, value as printed, epoch."""

FORMS: dict[str, tuple[str, list[Loss]]] = {
    "hugging face behind torchrun --tee: the next bar is of a later step": (
        "[default0]:  2%|▏         | 1/60 [00:00<00:41,  1.42it/s]\n"
        "[default0]:{'loss': '3.125', 'learning_rate': '5e-05', 'epoch': '0.05'}\n"
        "[default0]:  7%|▋         | 4/60 [00:02<00:38,  1.45it/s]",
        [("train_loss", None, "3.125", 0.05)],
    ),
    "lightning with a slash": (
        "Epoch 0:   1%|          | 1/115 [00:02<05:40,  0.33it/s, v_num=0, train/loss_step=12.90]",
        [("train_loss", 1, "12.90", 0)],
    ),
    "lightning with valid_loss": (
        "Epoch 9: 100%|###| 86/86 [00:05<00:00, 16.5it/s, v_num=1, train_loss_step=1.460, valid_loss_epoch=1.520]",
        [("train_loss", 86, "1.460", 9), ("val_loss", 86, "1.520", 9)],
    ),
    "redrawn without its carriage return": (
        "Epoch 0:   0%|    | 0/260 [00:00<?, ?it/s]Epoch 0:   3%|█   | 8/260 [17:04<8:57:59, 0.01it/s, train_loss=3.5]",
        [("train_loss", 8, "3.5", 0)],
    ),
    "nemo without a rate": (
        "Epoch 0: :  47%|████▋  | 7/15 [06:19<07:13, reduced_train_loss=11.50, global_step=5.000]",
        [("train_loss", 5, "11.50", 0)],
    ),
    "nemo behind a name in brackets": (
        "[sft-1] [2025-12-17 04:54:49,774] [INFO] Epoch 1: : 1it [00:04,  4.36s/it, reduced_train_loss=0.674]",
        [("train_loss", 1, "0.674", 1)],
    ),
    "nemo-run with a time": (
        "[2025-11-20T14:55:23+08:00] t/0 Training epoch 0, iteration 7/9 | global_step: 7 | reduced_train_loss: 6.2",
        [("train_loss", 7, "6.2", 0)],
    ),
    "gpt-neox": (
        " samples/sec: 18.2 | iteration       10/  320000 | elapsed (ms): 1757.3 | lm_loss: 1.093E+01 |",
        [("train_loss", 10, "1.093E+01", None)],
    ),
    "validation of megatron-deepspeed": (
        "validation loss at iteration 50 on validation set | consumed samples: 8 | lm loss value: 2.43E+00 |",
        [("val_loss", 50, "2.43E+00", None)],
    ),
    "deepspeed pipeline": (
        "steps: 10 loss: 5.6142 iter time (s): 1.223 samples/sec: 26.1",
        [
            ("train_loss", 10, "5.6142", None),
        ],
    ),
    "litgpt": (
        "Epoch 1 | iter 3 step 0 | loss train: 2.374, val: n/a | iter time: 1023.53 ms\n"
        "iter 100: val loss 2.1234, val time: 12034.11 ms\n",
        [("train_loss", 3, "2.374", 1), ("val_loss", 100, "2.1234", None)],
    ),
    "maxtext evaluation": (
        "eval metrics after step: 9, loss=9.420, total_weights=75264.0",
        [
            ("val_loss", 9, "9.420", None),
        ],
    ),
    "padded iteration": (
        "Iteration     0 | Train Loss: 4.1744 | Val Loss: 4.1721 | LR: 3.00e-06",
        [
            ("train_loss", 0, "4.1744", None),
            ("val_loss", 0, "4.1721", None),
        ],
    ),
    "by epoch only": (
        "Epoch [20/100] Train Loss: 0.0493, Train Acc: 0.9926 Val Loss: 1.3176, Val Acc: 0.6333",
        [
            ("train_loss", None, "0.0493", 20),
            ("val_loss", None, "1.3176", 20),
        ],
    ),
    "the mean of an epoch beside its steps": (
        "step 5 loss 2.5\nEpoch 0 finished, train loss 3.5\n",
        [
            ("train_loss", 5, "2.5", None),
        ],
    ),
    "a step that is about a validation": ("[val] step 10 | epoch 0 | loss 2.5", [("val_loss", 10, "2.5", 0)]),
    "a step with a separator is not its first digits": ("Best: step 17,400 (val loss: 2.2796)", []),
    "ms-swift": (
        "{'loss': 1.49, 'learning_rate': 1e-05, 'epoch': 0.01, 'global_step/max_steps': '5/873'}",
        [("train_loss", 5, "1.49", 0.01)],
    ),
    "trainer without an epoch": ("{'loss': 1.2, 'learning_rate': 1e-05}", [("train_loss", None, "1.2", None)]),
    "trainer behind its bar": (
        "  0%|     | 1/1000 [00:05<1:23:15,  5.00s/it]{'loss': 1.1, 'learning_rate': 4e-05, 'epoch': 0.02}\n"
        "  0%|     | 2/1000 [00:10<1:23:10,  5.00s/it]\n",
        [("train_loss", 2, "1.1", 0.02)],
    ),
    "a bar with a capital": (
        "Epoch 2:  40%|####      | 10/25 [00:01<00:00, 14.42it/s, Loss: 1.7315e-01]\n",
        [("train_loss", 10, "1.7315e-01", 2)],
    ),
    "a validation at an iteration": (
        "Validation loss at iteration 500: 3.2143",
        [("val_loss", 500, "3.2143", None)],
    ),
    "benchmarks with blanks": (
        "INFO|2018-01-01T00:00:00|run.py|10  images/sec: 31.1 +/- 0.4 (jitter = 0.7) 8.343",
        [("train_loss", 10, "8.343", None)],
    ),
    "mmdetection": (
        "2020-05-21 04:01:24,249 - mmdet - INFO - Epoch [1][15/678]\tlr: 0.00020, eta: 1 day, 16:21:05, "
        "s0.loss_cls: 0.5666, loss: 3.4410\n",
        [("train_loss", 15, "3.4410", 1)],
    ),
    "mmengine": (
        "04/21 21:03:53 - mmengine - INFO - Epoch(train) [1][10/90]  lr: 1.000e-02  time: 0.010  loss: 11.4723\n"
        "05/01 12:00:00 - mmengine - INFO - Iter(train) [   20/40000]  lr: 2.2e-04  time: 0.3  loss: 2.1\n",
        [("train_loss", 10, "11.4723", 1), ("train_loss", 20, "2.1", None)],
    ),
    "detectron": (
        "[08/01 12:00:00 d2.utils.events]:  eta: 0:10:00  iter: 19  total_loss: 1.234  loss_cls: 0.4",
        [("train_loss", 19, "1.234", None)],
    ),
    "torchvision": (
        "Epoch: [3][ 10/391]\tTime  0.1 ( 0.2)\tLoss 1.2345e+00 (1.3000e+00)\tAcc@1  50.0 ( 48.0)",
        [("train_loss", 10, "1.2345e+00", 3)],
    ),
    "timm": ("Train: 0 [  50/1251 (  4%)]  Loss: 6.94 (6.94)  Time: 3.1s", [("train_loss", 50, "6.94", 0)]),
    "fairseq": (
        "INFO | train_inner | epoch 001:     10 / 100 loss=9.8, nll_loss=9.6, wps=1000, num_updates=310, lr=1e-06",
        [("train_loss", 310, "9.8", 1)],
    ),
    "tensorflow estimator": (
        "INFO:tensorflow:loss = 1.1, step = 100 (1.5 sec)\n"
        "INFO:tensorflow:Saving dict for global step 200: accuracy = 0.7, global_step = 200, loss = 0.9\n",
        [("train_loss", 100, "1.1", None), ("val_loss", 200, "0.9", None)],
    ),
    "paddle": ("loss: 1.2, learning_rate: 3e-05, global_step: 10, epoch: 0.01", [("train_loss", 10, "1.2", 0.01)]),
    "bars cut at the screen's width that have lost their returns": (
        "global_step=563.0, throughput=19.00, Epoch 0:   3%|▎   | 565/20101 [2:12:19<76:15:08, 14.05s/it, loss=nan, "
        "v_num=, val_loss_step=11.30, reduced_train_loss=3.910, global_step=564.0, consumed_samples=1.45e+5, "
        "throughput=19.00, Epoch 0:   3%|▎   | 566/20101 [2:12:32<76:14:33, 14.05s/it, loss=nan, v_num=, "
        "val_loss_step=11.30, reduced_train_loss=4.000, global_step=565.0, consumed_samples=1.45e+5, "
        "throughput=19.00,",
        [("train_loss", 564, "3.910", 0), ("train_loss", 565, "4.000", 0)],
    ),
    "nanotron": (
        "10/17/2025 16:31:56 [INFO|DP=0|PP=0|TP=0]: iteration: 3271 / 3789 | consumed_tokens: 85.8G | "
        "tokens_per_sec: 22.8K | global_batch_size: 64 | lm_loss: 2.38 | lr: 1e-05 | grad_norm: 1.25",
        [("train_loss", 3271, "2.38", None)],
    ),
    "metaseq": (
        'slurm_procid 0 : 2022-11-11 | INFO | train_inner | {"epoch": 1, "loss": "15.878", "num_updates": "1", '
        '"lr": "2.80112e-07", "gnorm": "16.981"}',
        [("train_loss", 1, "15.878", 1)],
    ),
    "a dictionary as Python prints it": ("{'step': 10, 'loss': 3.2, 'lr': 0.0001}", [("train_loss", 10, "3.2", None)]),
    "a dictionary behind its step": ("step 10: {'loss': 3.2, 'lr': 0.1}", [("train_loss", 10, "3.2", None)]),
    "an object within an object": (
        '{"global_step": 10, "metrics": {"loss": 3.2}, "args": {"loss": 7}}',
        [("train_loss", 10, "3.2", None)],
    ),
    "an object about a validation": (
        '{"split": "validation", "step": 10, "loss": 2.1}',
        [("val_loss", 10, "2.1", None)],
    ),
    "settings in an object": ('{"step": 10, "args": {"loss": 3}}', []),
    "a text before a bar": (
        "Epoch 1 loss 2.31:  10%|#         | 10/100 [00:01<00:09,  9.12it/s]\n"
        "Epoch 1/3 | Step 20/100 | Loss 2.21:  20%|##        | 20/100 [00:02<00:08,  9.12it/s]\n",
        [("train_loss", 10, "2.31", 1), ("train_loss", 20, "2.21", 1)],
    ),
    "a validation before a bar": ("Eval loss 2.31:  10%|#         | 10/100 [00:01<00:09,  9.12it/s]", []),
    "keras' loop from scratch": (
        "Training loss (for 1 batch) at step 200: 0.9385",
        [("train_loss", 200, "0.9385", None)],
    ),
    "pytorch quickstart": ("loss: 2.303520  [   64/60000]", [("train_loss", 64, "2.303520", None)]),
    "pytorch cifar": ("[1,  2000] loss: 2.173", [("train_loss", 2000, "2.173", 1)]),
    "a tensor": (
        "step 10 loss: tensor(3.2000, device='cuda:0', grad_fn=<NllLossBackward0>)",
        [("train_loss", 10, "3.2000", None)],
    ),
    "thousands": ("step 12,000 | loss 3.2 | lr 1e-4", [("train_loss", 12000, "3.2", None)]),
    "a best one of earlier": (
        "step 600 val loss 2.2\nbest val loss 2.1 at step 500\n",
        [("val_loss", 600, "2.2", None)],
    ),
    "a new best one": ("New best val loss 2.1 at step 500", [("val_loss", 500, "2.1", None)]),
    "losses of parts": ("[step 10] KL loss: 0.3, policy loss: 1.2\nstep 11: data loss: 12 files\n", []),
    "a mean": ("step 10 | total_loss=3.2 | lm_loss=3.1", [("train_loss", 10, "3.2", None)]),
    "numpy 2 in a dictionary": (
        "{'epoch': 0, 'step': 10, 'loss': np.float64(2.3123), 'lr': 0.001}",
        [("train_loss", 10, "2.3123", 0)],
    ),
    "numpy 2 from the trainer of hugging face": (
        "{'loss': np.float64(2.3123), 'learning_rate': 1e-05, 'epoch': 0.1}",
        [("train_loss", None, "2.3123", 0.1)],
    ),
    "an array of jax": ("step 100, loss: Array(0.1234, dtype=float32)", [("train_loss", 100, "0.1234", None)]),
    "a validation of fairseq": (
        "2026-01-01 10:10:00 | INFO | valid | epoch 001 | valid on 'valid' subset | loss 8.2 | num_updates 1000",
        [("val_loss", 1000, "8.2", 1)],
    ),
    "the metric writer of clu": (
        "I0101 10:00:00.123456 140123 logging_writer.py:48] [100] learning_rate=0.001, loss=2.3123, steps_per_sec=1.2",
        [("train_loss", 100, "2.3123", None)],
    ),
    "pytorch's language model": (
        "| epoch   1 |   200/ 2983 batches | lr 20.00 | ms/batch 12.30 | loss  7.65 | ppl  2100.10",
        [("train_loss", 200, "7.65", 1)],
    ),
    "kohya": (
        "steps:  10%|█         | 12/120 [00:10<01:30,  1.20it/s, avr_loss=0.123]",
        [("train_loss", 12, "0.123", None)],
    ),
    "openrlhf": (
        "Train epoch [1/1]:  10%|█    | 12/120 [00:10<01:30,  1.20s/it, gpt_loss=1.234, loss_mean=1.301, lr=9e-06]",
        [("train_loss", 12, "1.234", None)],
    ),
    "open_clip": (
        "2023-01-01,00:00:00 | INFO | Train Epoch: 0 [  4096/12800000 (0%)] Data (t): 0.1 LR: 0.000005 "
        "Contrastive_loss: 8.3127 (8.3127) Loss: 8.4127 (8.4127)",
        [("train_loss", 4096, "8.4127", 0)],
    ),
    "swin": (
        "INFO Train: [2/300][10/1251]\teta 0:41:30 lr 0.000001\t time 1.9 (1.9)\t"
        "loss 6.9512 (6.96)\tgrad_norm 1.5 (1.5)\n"
        "INFO Test: [10/49]\tTime 0.3 (0.4)\tLoss 1.0 (1.1)\tAcc@1 70.1 (71.2)\n",
        [("train_loss", 10, "6.9512", 2)],
    ),
    "the bar of ignite": (
        "Epoch [1/3]: [4/10]  40%|████      , loss=3.61 [00:00<00:00]\n"
        "Validation Results - Epoch: 1  Avg accuracy: 0.95 Avg loss: 0.18\n",
        [("train_loss", 4, "3.61", 1), ("val_loss", None, "0.18", 1)],
    ),
    "icefall": (
        "INFO (0/8) Epoch 1, batch 50, loss[loss=0.5, simple_loss=0.4], tot_loss[loss=0.6], batch size: 2\n"
        "INFO [train.py:930] Epoch 1, validation: loss=0.4, simple_loss=0.5, over 1234.00 frames.\n",
        [("train_loss", 50, "0.5", 1), ("val_loss", None, "0.4", 1)],
    ),
    "pax": ("[PAX STATUS]: step_i: 100, training loss: 5.1", [("train_loss", 100, "5.1", None)]),
    "counters in brackets": (
        "[100/1000] loss=2.3\nTrain [200/1000] loss 2.2\n[rank 0/8] loss=9.9\nfold [1/5] loss 9.9\n",
        [("train_loss", 100, "2.3", None), ("train_loss", 200, "2.2", None)],
    ),
    "iterations and updates in short": (
        "it 100 loss 2.3\nUpdate 200 loss 2.2\nAverage loss at step 300: 2.1\n",
        [("train_loss", 100, "2.3", None), ("train_loss", 200, "2.2", None), ("train_loss", 300, "2.1", None)],
    ),
    "short words for a step, behind what may stand before them": (
        "[rank 3] it 5: loss 2.5\nEpoch 1 it 6 loss 2.4\n| it 7/10 | loss: 2.3\nINFO:root:Update 8 lr 1e-4 loss 2.2\n",
        [
            ("train_loss", 5, "2.5", None),
            ("train_loss", 6, "2.4", 1),
            ("train_loss", 7, "2.3", None),
            ("train_loss", 8, "2.2", None),
        ],
    ),
    "the same words, in sentences and before a clock": (
        "Saved it 2024: loss: 1.5\nWe did it 3 times, loss 0.5\nupdate 7 of the packages, loss: 2.0\n"
        "it [00:05, loss: 2.3]\n10 steps [00:05, 2.00 steps/s, loss: 2.3]\n",
        [],
    ),
    "a bar whose unit begins with a blank": (
        "12 it [00:05, 2.00 it/s, loss=2.3]\n 20%|##   | 20/100 [00:05<00:20, 4.00 it/s, loss=2.2]\n",
        [("train_loss", 12, "2.3", None), ("train_loss", 20, "2.2", None)],
    ),
    "counters of other things, and dates": (
        "Layer [3/12] loss: 2.3\nFile [3/12]: loss 2.3\nclient: [3/12] loss 2.3\nshards [3/12] loss 2.3\n"
        "[2024/11] [12/26] loss: 2.3\n",
        [],
    ),
    "counters behind what begins a line of a log": (
        "2026-11-26 10:00:00 [1/12] loss 2.5\nINFO:root:[2/12] loss=2.4\nrank 0: [3/12] loss 2.3\n",
        [("train_loss", 1, "2.5", None), ("train_loss", 2, "2.4", None), ("train_loss", 3, "2.3", None)],
    ),
    "a validation at its step": (
        "Eval at step 100: loss=2.2, ppl=9.1\nValidation at step 200: loss 2.1\nEvaluating... step 300 loss 2.0\n",
        [("val_loss", 100, "2.2", None), ("val_loss", 200, "2.1", None), ("val_loss", 300, "2.0", None)],
    ),
    "a loss that is wished for, or was the best": (
        "target loss 2.0, max steps 500\nEarly stopping at step 500, best loss 2.1\n",
        [],
    ),
    "two networks against each other": ("[Epoch 1/200] [Batch 10/938] [D loss: 0.6] [G loss: 0.7]", []),
    "a test by its batches": ("Test: step 10 loss 2.3\n[test] [10/49] loss 2.3\nVal: [10/49] loss 2.3\n", []),
    "composer's bar": (
        "train          Epoch   2:   60%|███████   | 6/10 [00:00<00:00, 109.70ba/s, loss/train/total=2.4677]\n"
        "eval           Epoch   2:  100%|██████████| 10/10 [00:00<00:00, 605.88ba/s]\n",
        [("train_loss", 6, "2.4677", 2)],
    ),
    "keras evaluates behind its epochs": (
        "Epoch 1/2\n8/8 - 0s - 5ms/step - loss: 22.7 - mae: 4.6 - val_loss: 24.3 - val_mae: 4.7\n"
        "Epoch 2/2\n8/8 - 0s - 5ms/step - loss: 22.1 - mae: 4.5 - val_loss: 23.6 - val_mae: 4.6\n"
        "7/7 - 0s - 3ms/step - loss: 21.9 - mae: 4.5\n8/8 - 0s - 3ms/step - loss: 21.8 - mae: 4.5\n",
        [
            ("train_loss", 8, "22.7", 1),
            ("val_loss", 8, "24.3", 1),
            ("train_loss", 8, "22.1", 2),
            ("val_loss", 8, "23.6", 2),
            ("test_loss", None, "21.9", None),
            ("test_loss", None, "21.8", None),
        ],
    ),
    "llama-factory": (
        '{"current_steps": 10, "total_steps": 1000, "loss": 1.2031, "lr": 1e-05, "epoch": 0.03}',
        [("train_loss", 10, "1.2031", 0.03)],
    ),
}


@pytest.mark.parametrize("name", FORMS)
def test_a_line_gives_the_losses_that_stand_in_it(name: str) -> None:
    text, expected = FORMS[name]
    points = [point for point in read_log(text.encode()) if point.metric in LOSSES]
    assert [(point.metric, point.step, point.raw, point.epoch) for point in points] == expected


@pytest.mark.parametrize("name", CAPTURES)
def test_a_capture_gives_the_losses_that_stand_in_it(name: str) -> None:
    text, expected = CAPTURES[name]
    points = [point for point in read_log(text.encode()) if point.metric in LOSSES]
    assert [(point.metric, point.step, point.raw) for point in points] == expected


@pytest.mark.parametrize("name", CAPTURES)
def test_a_capture_cut_into_bytes_says_what_it_says_as_a_whole(name: str) -> None:
    data, stream = CAPTURES[name][0].encode(), LogStream()
    pieces = [finding for at in range(len(data)) for finding in stream.feed(data[at : at + 1])]
    assert str(pieces + stream.finish()) == str(LogStream().read_all(data))


def test_every_trial_of_a_table_has_a_rank_of_its_own() -> None:
    table = (
        b"| Trial name | status | iter | loss |\n|---+---+---+---|\n"
        b"| a_00000 | RUNNING | 2 | 0.5 |\n| a_00001 | RUNNING | 1 | 0.7 |\n+---+---+---+---+\n"
    )
    found = [(point.rank, point.step, point.raw) for point in read_log(table + table)]
    assert found == [(0, 2, "0.5"), (1, 1, "0.7")]


def test_a_table_ends_with_a_line_that_is_no_row() -> None:
    reader = LogReader()
    for line in ("epoch,step,train_loss", "0,10,2.5", "saved", "0,20,2.4"):
        reader.feed(line)
    assert not reader.is_waiting
    assert len(read_log(b"epoch,step,train_loss\n0,10,2.5\nsaved\n0,20,2.4\n")) == 1


def test_the_losses_of_rlhf_are_read_with_blanks_too() -> None:
    points = read_log(b"epoch: 0 | step: 3/40 | ppo_ep: 1 | average_reward: 0.3 | act_loss: 5.626 | cri_loss: 5.109")
    assert [(point.metric, point.step, point.value) for point in points] == [
        ("average_reward", 3, 0.3),
        ("actor_loss", 3, 5.626),
        ("critic_loss", 3, 5.109),
    ]


@pytest.mark.parametrize(
    ("line", "rank"),
    [
        ("Rank 3: step 10 loss 3.2", 3),
        ("[2025-01-01 00:00:00][rank 5] step 10 loss 3.2", 5),
        ("rank=7 step=10 loss=3.2", 7),
        ("LoRA: rank 16, step 10 loss 3.2", 0),
    ],
)
def test_a_line_of_ones_own_loop_may_name_its_rank(line: str, rank: int) -> None:
    assert [(point.step, point.value, point.rank) for point in read_log(line.encode())] == [(10, 3.2, rank)]


def test_what_else_a_loop_of_ones_own_prints_is_read() -> None:
    line = "Step 10 | loss: 3.2 | lr: 1.0e-4 | grad_norm: 1.2 | tokens/s: 1,234 | mfu: 32.1%"
    values = {point.metric: point.value for point in read_log(line.encode())}
    assert values == {"train_loss": 3.2, "lr": 1e-4, "grad_norm": 1.2, "tokens_per_s": 1234, "mfu": 32.1}


@pytest.mark.parametrize(
    ("line", "extras"),
    [
        (
            "2026/05/07 11:45:45 - mmengine - INFO - Iter(train) [ 520/2046]  lr: 1.7486e-04  eta: 1:24:50  time: 2.9"
            "  memory: 15266  loss: 0.6479  grad_norm: 1.5",
            {"lr": 1.7486e-4, "time": 2.9, "memory": 15266, "grad_norm": 1.5},
        ),
        (
            "[11/20 10:00:00 d2.utils.events]:  eta: 0:12:31  iter: 19  total_loss: 2.31  loss_cls: 0.7   lr: 1.6e-05",
            {"loss_cls": 0.7, "lr": 1.6e-5},
        ),
        (
            "Train: 0 [  50/1251 (  4%)]  Loss: 6.94 (6.95)  Time: 0.512s, 1000.00/s  LR: 1.000e-05",
            {"Time": 0.512, "lr": 1e-5},
        ),
        (
            "Epoch: [0]  [  10/1251]  eta: 0:10:00  lr: 0.1  img/s: 100.2  loss: 6.91 (7.02)  time: 0.5",
            {"lr": 0.1, "img/s": 100.2, "time": 0.5},
        ),
        (
            "2026-01-01 10:00:00 | INFO | train_inner | epoch 001:    100 / 1000 loss=9.1, ppl=550.1, num_updates=100,"
            " lr=1.2e-05, gnorm=2.1, loss_scale=128",
            {"ppl": 550.1, "lr": 1.2e-5, "grad_norm": 2.1, "loss_scale": 128},
        ),
    ],
)
def test_what_stands_around_the_loss_of_a_known_trainer_is_read(line: str, extras: dict[str, float]) -> None:
    points = read_log(line.encode())
    assert {point.metric: point.value for point in points if point.metric not in LOSSES} == extras


@pytest.mark.parametrize(
    ("line", "extras"),
    [
        (
            "step    10/100 | loss 1.901552 | norm 0.8274 | lr 6.0000e-04 | 31.25 ms | 524,232 tok/s | 1.38 GiB",
            {"grad_norm": 0.8274, "lr": 6e-4, "step_time_ms": 31.25, "tokens_per_s": 524232.0},
        ),
        (
            "step    5/18865 | loss 9.012345 (+1.23z)| norm 2.1234 (+0.5z)| lr 4.29e-06 | 2131.25 ms | 45.1% bf16 MFU"
            " | 246000 tok/s",
            {"grad_norm": 2.1234, "lr": 4.29e-6, "step_time_ms": 2131.25, "tokens_per_s": 246000.0},
        ),
        ("iter 20: loss 1.1027, time 30.22ms, mfu 3.12%", {"time": 30.22, "mfu": 3.12, "step_time_ms": 30.22}),
        ("step 20 loss 2.1 | data 3.1 ms | step 31.2 ms", {"data": 3.1}),
    ],
)
def test_numbers_that_their_unit_names_are_read(line: str, extras: dict[str, float]) -> None:
    """The first line is of a run over two H100, the next two are in the words of llm.c and nanoGPT."""
    points = read_log(line.encode())
    assert {point.metric: point.value for point in points if point.metric not in LOSSES} == extras


@pytest.mark.parametrize(("rate", "seconds"), [("8.00batch/s", 0.125), ("2.50s/batch", 2.5), ("4.00ba/s", 0.25)])
def test_a_bar_may_count_in_a_unit_of_its_own(rate: str, seconds: float) -> None:
    points = read_log(f"Epoch 1:  50%|#####     | 469/938 [00:10<00:10, {rate}, accuracy=98.4, loss=0.05]".encode())
    assert [point.value for point in points if point.metric == "step_time_s"] == [seconds]
