"""Llama-2's training in small, as neuronx-nemo-megatron has it: norms on the bar, checkpoints by time."""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path

from eksml_cpu import corpus, devices, neuron
from eksml_cpu.settings import Settings
from eksml_cpu.training import Cosine, Plan, fit, ranks, say

_GRAPHS = 6
_STEP_SECONDS = 0.7
_SHAPES = (
    "trainer.num_nodes",
    "model.micro_batch_size",
    "model.global_batch_size",
    "model.tensor_model_parallel_size",
    "model.pipeline_model_parallel_size",
    "model.encoder_seq_length",
)


def main() -> None:
    """Train; in the trial run of neuron_parallel_compile only a few steps, and no checkpoint."""
    given, traces = Settings(), os.environ.get("NEURON_EXTRACT_GRAPHS_ONLY") == "1"
    tokenizer = given.text("model.tokenizer.type")
    if not Path(tokenizer, "tokenizer.model").is_file():
        raise OSError(f"Can't load tokenizer for '{tokenizer}': it does not contain tokenizer.model.")
    stems = [each for each in given.get("model.data.data_prefix") if isinstance(each, str)]
    for stem in stems:
        Path(f"{stem}.idx").open("rb").close()
    _need_device_memory(given)
    paths = neuron.graphs({name: given.text(name) for name in _SHAPES}, _GRAPHS)
    if traces and ranks()[0] == 0:
        Path(os.environ["EKSML_GRAPHS"]).write_text("\n".join(map(str, paths)), encoding="utf-8")
    elif ranks()[0] == 0:
        neuron.compile_graphs(paths, say=neuron.say)
    tensor, pipeline = (given.number(f"model.{name}_model_parallel_size", 1) for name in ("tensor", "pipeline"))
    say("megatron_gpt_model:1190", f"Pipeline model parallel size: {pipeline}, tensor model parallel size: {tensor}.")
    callback = "exp_manager.checkpoint_callback_params."
    fit(
        Plan(
            name="megatron_llama",
            folder=Path(given.text("exp_manager.explicit_log_dir")),
            tokens=corpus.tokens(stems),
            schedule=Cosine(
                peak=given.real("model.optim.lr", 3e-4),
                least=given.real("model.optim.sched.min_lr", 3e-5),
                warmup=given.number("model.optim.sched.warmup_steps", 2000),
                constant=0,
                steps=given.number("trainer.max_steps", 20_000),
            ),
            global_batch=given.number("model.global_batch_size", 256),
            validate_every=given.number("trainer.max_steps", 20_000) + 1,
            validation_batches=1,
            resumes=given.truth("exp_manager.resume_if_exists", otherwise=False),
            checkpoints=None
            if traces
            else {
                "filename": "megatron_llama--{step}-{consumed_samples}",
                "save_top_k": given.number(f"{callback}save_top_k", 1),
                "save_last": given.truth(f"{callback}save_last", otherwise=False),
                "train_time_interval": timedelta(seconds=given.number(f"{callback}train_time_interval", 36_000)),
            },
            model_ranks=[
                f"tp_rank_{first:02d}_pp_rank_{second:03d}" for second in range(pipeline) for first in range(tensor)
            ],
            shows_norms=True,
            step_seconds=0.05 if traces else _STEP_SECONDS,
        )
    )


def _need_device_memory(given: Settings) -> None:
    """End as the runtime does where a micro batch does not fit into a core: played."""
    micro = given.number("model.micro_batch_size", 1)
    if micro > 2 and devices.neurons():
        asked = micro * given.number("model.encoder_seq_length", 4096) * 4096 * 32
        neuron.say(f"ERROR  TDRV:dmem_alloc_internal    Failed to alloc DEVICE memory: {asked} on ND 0:NC 0")
        raise SystemExit(1)


if __name__ == "__main__":
    main()
