"""Excerpts of logs in the forms of many trainers, written by hand after what these print, and the losses in them.

By name: the text, and metric, step and value as printed of each loss that a person reads in it.
"""

from __future__ import annotations

Loss = tuple[str, int | None, str]

CAPTURES: dict[str, tuple[str, list[Loss]]] = {
    "olmo": (
        "2024-02-01 12:00:00.123\tnid01:0\tolmo.train:967\tINFO\t[step=10/739328,epoch=0]\n"
        "    train/CrossEntropyLoss=10.93\n"
        "    train/Perplexity=55,812\n"
        "    throughput/total_tokens=41,943,040\n"
        "    throughput/device/tokens_per_second=4,133\n"
        "2024-02-01 12:01:00.123\tnid01:0\tolmo.train:967\tINFO\t[step=20/739328,epoch=0]\n"
        "    train/CrossEntropyLoss=9.871\n",
        [("train_loss", 10, "10.93"), ("train_loss", 20, "9.871")],
    ),
    "olmo with an evaluation": (
        "2024-02-01 12:00:00.123\tnid01:0\tolmo.train:967\tINFO\t[step=1000/739328,epoch=0]\n"
        "    train/CrossEntropyLoss=3.512\n"
        "2024-02-01 12:00:09.400\tnid01:0\tolmo.train:1012\tINFO\t[eval_step=10/25]\n"
        "2024-02-01 12:00:11.401\tnid01:0\tolmo.train:1033\tINFO\tEvaluation complete\n"
        "    eval/pile/CrossEntropyLoss=3.377\n"
        "    eval/pile/Perplexity=29.28\n",
        [("train_loss", 1000, "3.512"), ("val_loss", 1000, "3.377")],
    ),
    "olmo-core": (
        "2025-01-10 08:00:00.001\tgpu-a:0\tolmo_core.train.callbacks.console_logger:42\tINFO\t"
        "[step=5/200,epoch=1,eta=0:10:01]\n"
        "    optim/total grad norm=4.02\n"
        "    train/CE loss=10.84\n"
        "    train/PPL=51,022\n"
        "    throughput/device/TPS=5,321\n",
        [("train_loss", 5, "10.84")],
    ),
    "unsloth": (
        "==((====))==  Unsloth - 2x faster free finetuning | Num GPUs used = 1\n"
        "   \\\\   /|    Num examples = 51,760 | Num Epochs = 1 | Total steps = 60\n"
        "O^O/ \\_/ \\    Batch size per device = 2 | Gradient accumulation steps = 4\n"
        ' "-____-"     Trainable parameters = 41,943,040 of 8,072,204,288 (0.52% trained)\n'
        "  0%|          | 0/60 [00:00<?, ?it/s]\r  2%|▏         | 1/60 [00:05<05:10,  5.26s/it]\r"
        "                                               \r"
        "{'loss': 1.8238, 'grad_norm': 0.28, 'learning_rate': 4e-05, 'epoch': 0.0}\n"
        "  2%|▏         | 1/60 [00:05<05:10,  5.26s/it]\r  3%|▎         | 2/60 [00:08<04:00,  4.2s/it]\r"
        "{'loss': 2.2961, 'grad_norm': 0.31, 'learning_rate': 8e-05, 'epoch': 0.0}\n"
        "  3%|▎         | 2/60 [00:08<04:00,  4.2s/it]\r",
        [("train_loss", 1, "1.8238"), ("train_loss", 2, "2.2961")],
    ),
    "a notebook's table": (
        "Step\tTraining Loss\tValidation Loss\n500\t1.816300\t1.702311\n1000\t1.597700\t1.601200\n",
        [
            ("train_loss", 500, "1.816300"),
            ("val_loss", 500, "1.702311"),
            ("train_loss", 1000, "1.597700"),
            ("val_loss", 1000, "1.601200"),
        ],
    ),
    "lightning's metrics.csv": (
        "epoch,lr-AdamW,step,train_loss,val_loss\n,0.001,49,,\n0,,49,2.3105,\n0,,99,,2.2011\n1,,149,2.1001,\n",
        [("train_loss", 49, "2.3105"), ("val_loss", 99, "2.2011"), ("train_loss", 149, "2.1001")],
    ),
    "keras 2": (
        "Epoch 1/2\n"
        "   1/1875 [..............................] - ETA: 5:01 - loss: 2.4103 - accuracy: 0.0938\r"
        "1875/1875 [==============================] - 4s 2ms/step - loss: 0.2912 - accuracy: 0.9152 "
        "- val_loss: 0.1387 - val_accuracy: 0.9588\n"
        "Epoch 2/2\n"
        "1875/1875 [==============================] - 4s 2ms/step - loss: 0.1411 - accuracy: 0.9577 "
        "- val_loss: 0.0971 - val_accuracy: 0.9702\n",
        [
            ("train_loss", 1, "2.4103"),
            ("train_loss", 1875, "0.2912"),
            ("val_loss", 1875, "0.1387"),
            ("train_loss", 1875, "0.1411"),
            ("val_loss", 1875, "0.0971"),
        ],
    ),
    "keras 3": (
        "Epoch 1/10\n"
        "\x1b[1m 313/1875\x1b[0m \x1b[32m━━━\x1b[0m\x1b[37m━━━━━━━━━━━━━━━━━\x1b[0m \x1b[1m2s\x1b[0m 1ms/step "
        "- accuracy: 0.7412 - loss: 0.8911\r"
        "\x1b[1m1875/1875\x1b[0m \x1b[32m━━━━━━━━━━━━━━━━━━━━\x1b[0m\x1b[37m\x1b[0m \x1b[1m3s\x1b[0m 1ms/step "
        "- accuracy: 0.8571 - loss: 0.4790 - val_accuracy: 0.9527 - val_loss: 0.1634\n",
        [("train_loss", 313, "0.8911"), ("train_loss", 1875, "0.4790"), ("val_loss", 1875, "0.1634")],
    ),
    "keras in two words": (
        "Epoch 3/10\n782/782 - 3s - loss: 0.4312 - accuracy: 0.8101 - val_loss: 0.5120 - 3s/epoch - 4ms/step\n",
        [("train_loss", 782, "0.4312"), ("val_loss", 782, "0.5120")],
    ),
    "ray tune's status": (
        "== Status ==\n"
        "Current time: 2024-05-01 10:00:00 (running for 00:00:35.10)\n"
        "Number of trials: 1/1 (1 RUNNING)\n"
        "+--------------------------+----------+---------------+--------+------------------+--------+\n"
        "| Trial name               | status   | loc           |   iter |   total time (s) |   loss |\n"
        "|--------------------------+----------+---------------+--------+------------------+--------|\n"
        "| TorchTrainer_5d35d_00000 | RUNNING  | 10.0.0.1:1234 |      2 |          30.1234 | 0.5321 |\n"
        "+--------------------------+----------+---------------+--------+------------------+--------+\n",
        [("train_loss", 2, "0.5321")],
    ),
    "ray train's status in a box": (
        "Trial status: 1 RUNNING\n"
        "╭────────────────────────────────────────────────────────────────────────────╮\n"
        "│ Trial name                 status     iter     total time (s)   train_loss │\n"
        "├────────────────────────────────────────────────────────────────────────────┤\n"
        "│ TorchTrainer_5d35d_00000   RUNNING       3            45.1021       0.6120 │\n"
        "╰────────────────────────────────────────────────────────────────────────────╯\n",
        [("train_loss", 3, "0.6120")],
    ),
    "ray tune's status of several trials": (
        "+-------------------+----------+--------+--------+\n"
        "| Trial name        | status   |   iter |   loss |\n"
        "|-------------------+----------+--------+--------|\n"
        "| train_fn_a1_00000 | RUNNING  |      2 | 0.5321 |\n"
        "| train_fn_a1_00001 | PENDING  |        |        |\n"
        "+-------------------+----------+--------+--------+\n",
        [("train_loss", 2, "0.5321")],
    ),
    "megatron-core": (
        " [2025-09-02 10:11:12.123456] iteration      100/  500000 | consumed samples:        25600 | "
        "elapsed time per iteration (ms): 5123.1 | throughput per GPU (TFLOP/s/GPU): 410.2 | "
        "learning rate: 2.400000E-06 | global batch size:   256 | lm loss: 9.876543E+00 | "
        "load_balancing_loss: 1.012345E+00 | loss scale: 1.0 | grad norm: 2.311 | num zeros: 12.0 | "
        "number of skipped iterations:   0 | number of nan iterations:   0 |\n",
        [("train_loss", 100, "9.876543E+00")],
    ),
    "megatron's validation": (
        "----------------------------------------------------------------------------------------------\n"
        " validation loss at iteration 1000 | lm loss value: 3.456789E+00 | lm loss PPL: 3.171457E+01 | \n"
        "----------------------------------------------------------------------------------------------\n",
        [("val_loss", 1000, "3.456789E+00")],
    ),
    "megatron under torchrun": (
        "[default7]: iteration       30/     100 | consumed samples:           60 | "
        "elapsed time per iteration (ms): 312.4 | learning rate: 1.500E-04 | global batch size:     2 | "
        "lm loss: 7.012E+00 | loss scale: 1.0 | grad norm: 1.902 |\n",
        [("train_loss", 30, "7.012E+00")],
    ),
    "nemo 1": (
        "Epoch 0: :   0%|          | 12/300000 [01:02<430:21:11, v_num=0-23, reduced_train_loss=10.80, "
        "global_step=11.00, consumed_samples=3072.0, train_step_timing in s=4.810]\r",
        [("train_loss", 11, "10.80")],
    ),
    "nemo 2": (
        "[NeMo I 2025-03-01 10:00:00 nemo_logging:393] Training epoch 0, iteration 19/99 | lr: 5.997e-06 | "
        "global_batch_size: 32 | global_step: 19 | peak_memory_usage: 51234567890 | reduced_train_loss: 8.412 | "
        "train_step_timing in s: 1.204 | consumed_samples: 640 | val_loss: 8.611\n",
        [("train_loss", 19, "8.412"), ("val_loss", 19, "8.611")],
    ),
    "lightning": (
        "Epoch 3:  40%|████      | 40/100 [00:10<00:15,  3.95it/s, v_num=7, train_loss=0.412, val_loss=0.533]\r",
        [("train_loss", 40, "0.412"), ("val_loss", 40, "0.533")],
    ),
    "lightning's table at the end of a test": (
        "┏━━━━━━━━━━━━━━━━━━━━━━━━━━━┳━━━━━━━━━━━━━━━━━━━━━━━━━━━┓\n"
        "┃        Test metric        ┃       DataLoader 0        ┃\n"
        "┡━━━━━━━━━━━━━━━━━━━━━━━━━━━╇━━━━━━━━━━━━━━━━━━━━━━━━━━━┩\n"
        "│         test_acc          │     0.913399994373321     │\n"
        "│         test_loss         │    0.3021480143070221     │\n"
        "└───────────────────────────┴───────────────────────────┘\n",
        [("test_loss", None, "0.3021480143070221")],
    ),
    "trainer with an evaluation": (
        "{'loss': 0.6931, 'grad_norm': 2.1, 'learning_rate': 4.9e-05, 'epoch': 0.1}\n"
        "{'eval_loss': 0.6802, 'eval_runtime': 3.1, 'eval_samples_per_second': 120.1, 'epoch': 0.1}\n"
        "{'train_runtime': 100.2, 'train_samples_per_second': 31.2, 'train_loss': 0.61, 'epoch': 1.0}\n",
        [("train_loss", None, "0.6931"), ("val_loss", None, "0.6802")],
    ),
    "trainer in double quotes": (
        '{"loss": 0.6931, "grad_norm": 2.1, "learning_rate": 4.9e-05, "epoch": 0.1, "step": 10}\n',
        [("train_loss", 10, "0.6931")],
    ),
    "axolotl": (
        "[2025-04-01 09:10:11,123] [INFO] [axolotl.train.train:173] [PID:88] [RANK:0] Starting trainer...\n"
        "  0%|          | 0/120 [00:00<?, ?it/s]\r"
        "{'loss': 1.4021, 'grad_norm': 0.81, 'learning_rate': 2e-05, 'memory/max_alloc (GiB)': 14.2, 'epoch': 0.01}\n"
        "  1%|          | 1/120 [00:07<14:32,  7.33s/it]\r",
        [("train_loss", 1, "1.4021")],
    ),
    "llama-factory": (
        "[INFO|2025-05-01 10:00:00] llamafactory.train.callbacks:143 >> {'loss': 1.2345, "
        "'learning_rate': 4.9732e-05, 'epoch': 0.15, 'throughput': 3123.11}\n"
        '{"current_steps": 5, "total_steps": 60, "loss": 1.2345, "lr": 4.97e-05, "epoch": 0.15, '
        '"percentage": 8.33, "elapsed_time": "0:00:12", "remaining_time": "0:02:12"}\n',
        [("train_loss", None, "1.2345"), ("train_loss", 5, "1.2345")],
    ),
    "torchtitan": (
        "[rank0]:[titan] 2025-06-01 10:00:00,123 - root - INFO - \x1b[31mstep: 10  \x1b[32mloss:  7.9210  "
        "\x1b[38;2;180;60;0mgrad_norm:  1.9912  \x1b[38;2;54;234;195mmemory: 38.02GiB(48.05%)  "
        "\x1b[34mtps: 6,331  \x1b[36mtflops: 370.51  \x1b[35mmfu: 37.46%\x1b[0m\n"
        "[rank0]:[titan] 2025-06-01 10:09:00,123 - root - INFO - \x1b[31mvalidate step: 100  "
        "\x1b[32mloss:  4.1021  \x1b[33mmemory: 40.02GiB(50.05%)  \x1b[34mtps: 9,331\x1b[0m\n",
        [("train_loss", 10, "7.9210"), ("val_loss", 100, "4.1021")],
    ),
    "torchtune": (
        "1|25|Loss: 1.5912: 100%|██████████| 25/25 [01:10<00:00,  2.8s/it]\r",
        [("train_loss", 25, "1.5912")],
    ),
    "torchtune's file": (
        "Step 26 | loss:1.5012 lr:2e-05 tokens_per_second_per_gpu:812.1\n",
        [("train_loss", 26, "1.5012")],
    ),
    "deepspeed": (
        "[2024-03-01 10:00:00,001] [INFO] [logging.py:96:log_dist] [Rank 0] step=10, skipped=0, "
        "lr=[9.5e-06, 9.5e-06], mom=[(0.9, 0.95), (0.9, 0.95)]\n"
        "[2024-03-01 10:00:00,002] [INFO] [timer.py:199:stop] epoch=0/micro_step=10/global_step=10, "
        "RunningAvgSamplesPerSec=31.1, CurrSamplesPerSec=31.4, MemAllocated=4.3GB, MaxMemAllocated=11.1GB\n"
        "steps: 10 loss: 2.0312 iter time (s): 0.411 samples/sec: 77.9\n",
        [("train_loss", 10, "2.0312")],
    ),
    "neuronx-distributed": (
        "LOG Tue Mar  5 10:11:12 2024 - (0, 120) step_loss : 6.1875  learning_rate : 2.4e-05  throughput : 310.2\n"
        "step 120 step_time 2.31s throughput 310.2 seq/s loss 6.1875 grad norm 1.21\n",
        [("train_loss", 120, "6.1875")],
    ),
    "neuronx-nemo-megatron": (
        "Epoch 0:   1%|          | 31/5000 [05:11<13:50:10, 10.02s/it, loss=9.31, v_num=, "
        "reduced_train_loss=9.270, global_step=30.00, consumed_samples=7936.0, throughput=25.60]\r",
        [("train_loss", 30, "9.270")],
    ),
    "ray train v2": (
        "(TrainController pid=812) [State Transition] RUNNING -> RUNNING.\n"
        "(RayTrainWorker pid=901, ip=10.0.1.2) Reporting training result 4: TrainingReport(checkpoint=None, "
        "metrics={'loss': 1.204, 'epoch': 1, 'step': 40}, validation_spec=None)\n",
        [("train_loss", 40, "1.204")],
    ),
    "diffusers": (
        "Steps:  10%|█         | 50/500 [00:41<06:10,  1.21it/s, loss=0.1021, lr=1e-05]\r",
        [("train_loss", 50, "0.1021")],
    ),
    "nanogpt": (
        "step 0: train loss 10.9871, val loss 10.9855\niter 0: loss 10.9880, time 41211.02ms, mfu -100.00%\n"
        "iter 10: loss 9.6021, time 241.10ms, mfu 31.10%\n",
        [
            ("train_loss", 0, "10.9871"),
            ("val_loss", 0, "10.9855"),
            ("train_loss", 0, "10.9880"),
            ("train_loss", 10, "9.6021"),
        ],
    ),
    "fairseq2": (
        "[07/01/24 10:00:00] INFO     fairseq2 - Train Metrics (step 50) - NLL Loss: 2.4102 | Gradient Norm: 1.2 | "
        "Learning Rate: 5e-05 | Elapsed Time: 31s\n",
        [("train_loss", 50, "2.4102")],
    ),
    "verl's fine-tuning": (
        "step:10 - train/loss:1.5021 - train/lr(1e-3):0.0098 - train/time(s):2.1\nstep:20 - val/loss:1.4310\n",
        [("train_loss", 10, "1.5021"), ("val_loss", 20, "1.4310")],
    ),
    "maxtext": (
        "completed step: 7, seconds: 2.113, TFLOP/s/device: 91.2, Tokens/s/device: 1938.1, total_weights: 131072, "
        "loss: 9.812\n",
        [("train_loss", 7, "9.812")],
    ),
    "composer": (
        "[batch=10/4800]:\n\t Train time/batch: 9\n\t Train loss/train/total: 10.7812\n"
        "\t Train metrics/train/LanguageCrossEntropy: 10.7812\n",
        [("train_loss", 10, "10.7812")],
    ),
    "speechbrain": (
        "speechbrain.utils.train_logger - epoch: 2, lr: 1.00e+00 - train loss: 1.21 - valid loss: 1.02, "
        "valid CER: 8.21\n",
        [("train_loss", None, "1.21"), ("val_loss", None, "1.02")],
    ),
    "ignite": (
        "Epoch[1] Iteration[100/938] Loss: 0.4012\n",
        [("train_loss", 100, "0.4012")],
    ),
    "tensorflow": (
        "INFO:tensorflow:loss = 2.3012, step = 100 (12.301 sec)\n"
        "INFO:tensorflow:loss = 1.9021, step = 200 (11.2 sec)\n",
        [("train_loss", 100, "2.3012"), ("train_loss", 200, "1.9021")],
    ),
    "fastai": (
        "epoch     train_loss  valid_loss  accuracy  time    \n"
        "0         0.712301    0.553012    0.731200  00:10   \n"
        "1         0.501212    0.481200    0.790100  00:10   \n",
        [
            ("train_loss", None, "0.712301"),
            ("val_loss", None, "0.553012"),
            ("train_loss", None, "0.501212"),
            ("val_loss", None, "0.481200"),
        ],
    ),
    "pytorch's own example": (
        "Train Epoch: 1 [640/60000 (1%)]\tLoss: 1.7821\nTest set: Average loss: 0.0512, Accuracy: 9830/10000 (98%)\n",
        [("train_loss", 640, "1.7821")],
    ),
    "accelerate behind a logger": (
        "07/01/2024 10:00:00 - INFO - __main__ - epoch 0: perplexity: 21.1 eval_loss: 3.049\n"
        "07/01/2024 10:00:00 - INFO - __main__ - step 50: loss 3.1021\n",
        [("val_loss", None, "3.049"), ("train_loss", 50, "3.1021")],
    ),
    "not a loss": (
        "initial_loss_scale ................ 4294967296\nSaving checkpoint at step 100 with val_loss=1.2.ckpt\n"
        "step 30: no loss of data on 4 nodes\nloss_fn: CrossEntropyLoss()\nTotal steps = 60\nepoch,step\n1,2\n"
        "wandb: Run summary: train/loss 2.3107 train/global_step 500\n",
        [],
    ),
}
"""Losses in the order in which they are printed."""
