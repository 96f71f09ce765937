"""Every number that a record with a step names is a curve of that name.

The texts are what trainers printed in public: the repository and number of the thread stand beside each.
"""

from __future__ import annotations

import pytest

from actions.telemetry.curve_alarms import curve_alarms_of
from actions.telemetry.curves import Curves
from actions.telemetry.log_reader import LogReader, read_log
from actions.telemetry.points import Point
from tests.unit.telemetry.corpus import LOSSES

Value = tuple[int | float | None, str, str]
"""Step (or epoch where there is none), metric, and the number as printed."""

PRINTED: dict[str, tuple[str, list[Value]]] = {
    "verl, of verl-project/verl 1224": (
        "(TaskRunner pid=3591053) step:1049 - global_seqlen/min:16832.000 - actor/entropy_loss:0.001 - "
        "critic/vf_loss:0.087 - critic/lr:0.000 - actor/pg_loss:0.090 - actor/grad_norm:0.629 - "
        "critic/rewards/mean:0.104\n",
        [(1049, "actor/pg_loss", "0.090"), (1049, "critic/vf_loss", "0.087"), (1049, "critic/rewards/mean", "0.104")],
    ),
    "verl's values of NumPy, and counts": (
        "step:4 - val-aux/openai/gsm8k/reward/mean@4:np.float64(0.43) - val-aux/openai/gsm8k/reward/mean@1:0.51 - "
        "num_turns/min:2\n",
        [
            (4, "val-aux/openai/gsm8k/reward/mean@4", "0.43"),
            (4, "val-aux/openai/gsm8k/reward/mean@1", "0.51"),
            (4, "num_turns/min", "2"),
        ],
    ),
    "TRL's PPO, of hongbo-miao/hongbomiao.com 37684": (
        "{'eps': 1, 'objective/kl': 10.5078, 'loss/policy_avg': 0.000907, 'loss/value_avg': 0.1531, 'lr': 2.06e-06, "
        "'episode': 816, 'epoch': 0.91}\n",
        [(0.91, "loss/policy_avg", "0.000907"), (0.91, "loss/value_avg", "0.1531"), (0.91, "lr", "2.06e-06")],
    ),
    "ms-swift, of modelscope/ms-swift 9872": (
        "{'eps': 0, 'objective/kl': '3.323', 'loss/policy_avg': '-0.002931', 'lr': '5e-06', 'episode': 16, "
        "'epoch': '1.6', 'global_step/max_steps': '2/3', 'elapsed_time': '6m 42s', 'memory(GiB)': '114.2'}\n",
        [(2, "objective/kl", "3.323"), (2, "loss/policy_avg", "-0.002931"), (2, "memory(GiB)", "114.2")],
    ),
    "ms-swift's JSON, of modelscope/ms-swift 9261": (
        '{"loss": 0.0, "grad_norm": 0.0, "learning_rate": 1e-06, "reward": 0.25, "entropy/mean": 0.55015859, '
        '"epoch": 0.0002, "global_step/max_steps": "2/10000", "elapsed_time": "39s"}\n',
        [(2, "train_loss", "0.0"), (2, "reward", "0.25"), (2, "entropy/mean", "0.55015859")],
    ),
    "ms-swift over Megatron, of modelscope/ms-swift 6718": (
        " [2025-11-25 07:19:22] iteration        7/    2174 | consumed samples:          448 | learning rate: "
        "4.999872E-05 | loss: -2.365559E-06 | reward: 7.617188E-01 | clip_ratio/high_max: 4.434429E-02 | "
        "grad norm: 0.016 | number of nan iterations:   0 |\n",
        [(7, "train_loss", "-2.365559E-06"), (7, "reward", "7.617188E-01"), (7, "clip_ratio/high_max", "4.434429E-02")],
    ),
    "slime, in the words of THUDM/slime": (
        "(MegatronTrainRayActor pid=12) [2025-09-01 10:00:00] model.py:500 - step 12: {'train/loss': 0.0123, "
        "'train/pg_loss': -0.0021, 'train/grad_norm': 0.52, 'train/step': 12}\n",
        [(12, "train_loss", "0.0123"), (12, "train/pg_loss", "-0.0021"), (12, "train/grad_norm", "0.52")],
    ),
    "OpenRLHF's bar": (
        "Train epoch [1/1]:  50%|█████     | 8/16 [00:20<00:20,  2.50s/it, act_loss=0.0123, kl=0.01, rm=0.5]\n",
        [(8, "act_loss", "0.0123"), (8, "kl", "0.01"), (8, "rm", "0.5")],
    ),
    "MiniLLM, of microsoft/LMOps 130": (
        "train | data_epochs  0/10 | inner iter:   7/  8 | ppo epoch:  2/ 4 | global iter:     13/  5000| "
        "tot_loss: 2.3541 | rl_loss: -0.0407 | pg_loss: -0.0428 | reward: 0.0000 | lr: 2.5000e-07 | scale: 128.00\n",
        [
            (13, "train_loss", "2.3541"),
            (13, "rl_loss", "-0.0407"),
            (13, "pg_loss", "-0.0428"),
            (13, "lr", "2.5000e-07"),
        ],
    ),
    "VoxCPM": (
        "[train] step 980: loss/diff: 0.638490, loss/stop: 0.000001, lr: 0.000008, epoch: 19.45, grad_norm: 0.88\n",
        [(980, "loss/diff", "0.638490"), (980, "loss/stop", "0.000001"), (980, "grad_norm", "0.88")],
    ),
    "icefall, of k2-fsa/icefall 1382": (
        "2023-11-12 16:34:30,296 INFO [train_phone.py:1055] (0/2) Epoch 1, batch 650, loss[loss=0.04332, "
        "simple_loss=0.03678, pruned_loss=0.03187, over 1963572.00 frames. ], tot_loss[loss=0.04355], lr: 1.10e-06, \n",
        [(650, "train_loss", "0.04332"), (650, "simple_loss", "0.03678"), (650, "lr", "1.10e-06")],
    ),
    "ESPnet, of espnet/espnet 4095": (
        "[7cc1303a881b:0/8] 2022-02-21 11:40:05,031 (trainer:737) INFO: 1epoch:train:36631-42735batch: "
        "iter_time=1.299e-04, loss_ctc=86.964, loss_att=58.959, acc=0.212, loss=66.878, optim0_lr0=0.001\n",
        [(42735, "train_loss", "66.878"), (42735, "loss_ctc", "86.964"), (42735, "optim0_lr0", "0.001")],
    ),
    "an old fairseq, of facebookresearch/fairseq 301": (
        "| epoch 010  2000 / 8223 loss=1.27 (1.50), wps=962, lr=0.001, clip=100%, gnorm=2.1427\n"
        "| epoch 010 | valid on 'valid' subset  1000 / 1311 loss=1.60\n",
        [(2000, "train_loss", "1.27"), (2000, "wps", "962"), (2000, "grad_norm", "2.1427")],
    ),
    "fairseq's JSON, of facebookresearch/fairseq 2493": (
        '2021-01-05 23:13:26 | INFO | train | {"epoch": 61, "train_loss": "531.445", "train_nll_loss": "4.934", '
        '"train_num_updates": "1883", "train_lr": "5e-05"}\n',
        [(1883, "train_loss", "531.445"), (1883, "train_nll_loss", "4.934"), (1883, "train_lr", "5e-05")],
    ),
    "Stable Baselines 3, of DLR-RM/rl-baselines3-zoo 521": (
        "---------------------------------------\n"
        "| rollout/                |           |\n"
        "|    ep_rew_mean          | -213      |\n"
        "| time/                   |           |\n"
        "|    total_timesteps      | 73728     |\n"
        "| train/                  |           |\n"
        "|    learning_rate        | 0.001     |\n"
        "|    loss                 | 0.482     |\n"
        "|    value_loss           | 0.777     |\n"
        "---------------------------------------\n",
        [
            (73728, "train_loss", "0.482"),
            (73728, "rollout/ep_rew_mean", "-213"),
            (73728, "train/value_loss", "0.777"),
            (73728, "train/learning_rate", "0.001"),
        ],
    ),
    "improved-diffusion, of openai/improved-diffusion 71": (
        "------------------------\n| grad_norm | 0.0913   |\n| loss      | 0.0621   |\n| mse_q1    | 0.0453   |\n"
        "| step      | 1.11e+04 |\n------------------------\n",
        [(11100, "train_loss", "0.0621"), (11100, "grad_norm", "0.0913"), (11100, "mse_q1", "0.0453")],
    ),
    "NeMo RL, of NVIDIA-NeMo/nemo-platform 901": (
        "========================= Step 2/2 =========================\n▶ Taking a training step...\n"
        "📊 Validation Results for `default` set:\n    • Validation loss: 0.6645\n    • Validation accuracy: 1.0000\n",
        [(2, "val_loss", "0.6645"), (2, "Validation accuracy", "1.0000")],
    ),
    "DeepRM, of hongzimao/deeprm 10": (
        "Iteration: \t 0\nNumTrajs: \t 200\nLoss:     \t 0.1269063800573349\n"
        "MeanRew: \t -257.43755677655673 +- 63.18571158682983\n",
        [(0, "train_loss", "0.1269063800573349"), (0, "MeanRew", "-257.43755677655673")],
    ),
    "YOLO, of ultralytics/ultralytics 7653": (
        "      Epoch    GPU_mem   box_loss   cls_loss   dfl_loss  Instances       Size\n"
        "    70/1000      6.73G      1.081     0.4706      1.084         10        640: 100%|██████████| 16/16 "
        "[00:05<00:00,  2.78it/s]\n",
        [(70, "box_loss", "1.081"), (70, "cls_loss", "0.4706"), (70, "dfl_loss", "1.084")],
    ),
    "Lightning's metrics.csv, of IceClear/StableSR 161": (
        "train/loss_simple_step,train/loss_vlb_step,train/loss_step,global_step,epoch,created_at\n"
        "0.25144,0.00172,0.25144,49.0,0,2025-11-07 06:02:10.484610\n",
        [(49, "train_loss", "0.25144"), (49, "train/loss_vlb_step", "0.00172")],
    ),
    "Paddle, of jina-ai/finetuner 2": (
        "Epoch 0 step 100, Loss = [1.1742566]\n",
        [(100, "train_loss", "1.1742566")],
    ),
    "PaddleNLP, of PaddlePaddle/PaddleNLP 3800": (
        "[2022-11-23 11:11:27,064] [    INFO] - loss: 1.0899848, learning_rate: 9.99e-05, global_step: 10, "
        "interval_runtime: 8.2708, epoch: 0.0065\n",
        [(10, "train_loss", "1.0899848"), (10, "lr", "9.99e-05"), (10, "interval_runtime", "8.2708")],
    ),
    "BigDL, of intel/ipex-llm 2494": (
        "2018-04-14 00:58:52 INFO  DistriOptimizer$:392 - [Epoch 149 390144/1281167][Iteration 61991][Wall Clock "
        "90297.102702327s] Trained 3072 records in 1.402 seconds. Throughput is 2190.889 records/second. Loss is NaN. "
        "Current learning rate is 0.00113. Current weight decay is 1.0E-4.\n",
        [(61991, "train_loss", "NaN")],
    ),
    "a step without a word for it, of NVIDIA/bionemo-framework": (
        "5000: loss 2.989\n10000: loss 2.999\n",
        [(5000, "train_loss", "2.989"), (10000, "train_loss", "2.999")],
    ),
    "LitGPT's columns, of awslabs/keys_values 97": (
        "Epoch 0 | iter   9 step   9 | loss train: 11.438, val_loss valid: 21.817 | iter time: 38.615 s (step)\n"
        "Epoch 0 | iter  10          | val_loss: 23.021 | val_time: 79.795 s\n",
        [(9, "train_loss", "11.438"), (10, "val_loss", "23.021")],
    ),
    "detectron2, of ChenhongyiYang/QueryDet-PyTorch 17": (
        "[04/14 09:05:02] d2.utils.events INFO:  eta: 0:11:54  iter: 119  total_loss: 9.214  loss_cls: 2.549  "
        "time: 0.8153  lr: 0.001199  max_mem: 28515M\n",
        [(119, "train_loss", "9.214"), (119, "loss_cls", "2.549"), (119, "lr", "0.001199")],
    ),
}


def values_of(text: str) -> list[Value]:
    found = []
    for point in read_log(text.encode()):
        where = point.step if point.step is not None else point.epoch
        found.append((where, point.metric, point.raw))
    return found


@pytest.mark.parametrize("name", PRINTED)
def test_every_named_number_of_a_record_with_a_step_is_a_curve(name: str) -> None:
    text, wanted = PRINTED[name]
    found = values_of(text)
    assert [value for value in wanted if value not in found] == []
    losses = [value for value in wanted if value[1] in LOSSES]
    assert [value for value in found if value[1] in LOSSES] == losses


@pytest.mark.parametrize("name", PRINTED)
def test_a_text_cut_into_bytes_has_the_same_curves(name: str) -> None:
    text, _ = PRINTED[name]
    reader = LogReader()
    points = [value for line in text.splitlines() for value in reader.feed(line)] + reader.flush()
    assert [p.raw for p in points if isinstance(p, Point)] == [p.raw for p in read_log(text.encode())]


@pytest.mark.parametrize(
    "text",
    [
        "Step 3/10 : RUN pip install torch==2.5.1",
        "step 3: downloading shard 12 of 40",
        "2024-11-05 10:00:01 INFO [train.py:103] step 12 begins at 10:30:00, port: 29500",
        "Step 3: listening on 0.0.0.0:8080",
        "iteration 4 of the hyperparameter search",
    ],
)
def test_a_step_without_named_measurements_gives_no_curve(text: str) -> None:
    assert values_of(text) == []


def test_the_numbers_that_srun_puts_before_lines_are_no_steps() -> None:
    text = "".join(f"{rank}: loss {value}\n" for value in (2.5, 2.4) for rank in (1, 0))
    assert [step for step, metric, _ in values_of(text) if metric == "train_loss"] == [1]


def test_names_without_number_are_bounded() -> None:
    reader = LogReader()
    points = []
    for step in range(400):
        points += reader.feed(f"step {step}: value_a{step}: 0.5, value_b{step}: 0.25")
    assert len({point.metric for point in points if isinstance(point, Point)}) == 256
    assert any("more than 256 numbers" in notice for notice in reader.notices)


def test_a_policy_loss_may_jump_and_stand_still() -> None:
    curves = Curves()
    for step in range(400):
        curves.add(Point("actor/pg_loss", step, 5.0 if step == 200 else 0.01 * (step % 3)))
    assert curve_alarms_of(curves) == ()
    for step in range(400, 410):
        curves.add(Point("actor/pg_loss", step, float("nan")))
    assert [alarm.metric for alarm in curve_alarms_of(curves)] == ["actor/pg_loss"]


def test_the_table_of_final_metrics_gives_the_validation_loss() -> None:
    """Of huggingface/optimum-neuron, its notebook fine_tune_bert."""
    text = (
        "***** train metrics *****\n  epoch                    =        3.0\n  eval_loss                =     0.1761\n"
    )
    assert values_of(text) == [(None, "val_loss", "0.1761")]
