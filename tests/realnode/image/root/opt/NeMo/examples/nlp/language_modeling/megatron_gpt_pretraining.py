"""GPT's pre-training in small: reads the token files of the preparation, learns which byte comes next."""

from __future__ import annotations

from pathlib import Path

from eksml_cpu import corpus
from eksml_cpu.memory import need_gpu_memory
from eksml_cpu.settings import Settings
from eksml_cpu.training import Cosine, Plan, fit, ranks, say

_PARAMETERS = 5.0e9
_MIB_A_SEQUENCE = 5_500
"""Memory of a GPU that a sequence of a micro batch takes: 4 fit beside 5 billion parameters into 80 GB, 8 do not."""


def main() -> None:
    """Train."""
    given = Settings()
    split = given.number("model.tensor_model_parallel_size", 1) * given.number("model.pipeline_model_parallel_size", 1)
    say("megatron_init:231", f"Rank 0: tensor and pipeline parallel size {split}, of {ranks()[1]} processes")
    for name in ("vocab_file", "merge_file"):
        with Path(given.text(f"model.tokenizer.{name}")).open("rb") as file:
            file.read(1)
    say("tokenizer_utils:204", "Getting Megatron tokenizer for pretrained model name: GPT2BPETokenizer")
    micro = given.number("model.micro_batch_size", 2)
    need_gpu_memory((_PARAMETERS * 10 / 2**20 + micro * _MIB_A_SEQUENCE) / split)
    callback = "exp_manager.checkpoint_callback_params."
    fit(
        Plan(
            name="megatron_gpt",
            folder=Path(given.text("exp_manager.explicit_log_dir")),
            tokens=_tokens(given),
            schedule=Cosine(
                peak=given.real("model.optim.lr", 1.6e-4),
                least=given.real("model.optim.sched.min_lr", 1.6e-5),
                warmup=given.number("model.optim.sched.warmup_steps", 115),
                constant=given.number("model.optim.sched.constant_steps", 12_500),
                steps=given.number("trainer.max_steps", 75_000),
            ),
            global_batch=given.number("model.global_batch_size", 640),
            validate_every=given.number("trainer.val_check_interval", 2000),
            validation_batches=given.number("trainer.limit_val_batches", 50),
            log_every=given.number("trainer.log_every_n_steps", 10),
            resumes=given.truth("exp_manager.resume_if_exists", otherwise=True),
            checkpoints={
                "filename": given.text(f"{callback}filename", "megatron_gpt--{val_loss:.2f}-{step}-{consumed_samples}"),
                "monitor": given.text(f"{callback}monitor", "val_loss"),
                "save_top_k": given.number(f"{callback}save_top_k", 10),
                "save_last": True,
                "verbose": True,
            },
            draws_as_nemo=True,
        )
    )


def _tokens(given: Settings) -> corpus.numpy.ndarray:
    """Map the files of `[1.0,STEM,1.0,STEM]`, or make tokens up."""
    if given.text("model.data.data_impl") == "mock":
        return corpus.mock_tokens()
    stems = [str(each) for each in given.get("model.data.data_prefix") if isinstance(each, str)]
    return corpus.tokens(stems)


if __name__ == "__main__":
    main()
