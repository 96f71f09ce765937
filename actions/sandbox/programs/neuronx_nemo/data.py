"""The Jobs before the training: the code, the tokenizer, the text, the tokens.

The sandbox's dataset is a sample: the words and the order are the real ones, sizes and times are not.

Source:
    Error texts of huggingface_hub 0.23 and transformers 4.31; `preprocess_data_for_megatron.py` of
    neuronx-nemo-megatron at f4743ce (flags, `Processed N documents`); the parts of RedPajama-Data-1T-Sample.
"""

from __future__ import annotations

import posixpath

from actions.sandbox.programs.neuronx_nemo.node import SCRIPTS, SOURCES, ScriptParameters, write_scripts
from actions.sandbox.programs.program import ContainerView, Program, ProgramStep

_DATASET = "/shared/data/RedPajama-Data-1T-Sample"
TEXT = "/shared/redpajama_sample.jsonl"
_PARTS = ("arxiv", "book", "c4", "cc_2019-30", "cc_2020-05", "cc_2021-04", "cc_2022-05", "cc_2023-06", "github")
_PARTS_END = ("stackexchange", "wikipedia")
_DOCUMENTS = 930_514
_DOCUMENTS_A_LINE = 30_000
_TOKENISE_SECONDS = 24.0
_DOWNLOAD_SECONDS = 1.2
"""For each part."""
_GATED = "meta-llama/"
_TOKENISER = "preprocess_data_for_megatron.py"


def configures(container: ContainerView) -> bool:
    """Return whether a container fetches and configures the training code."""
    return "/configure.sh" in container.command_line and "SOURCE_COMMIT" in container.environment


def configure(container: ContainerView) -> Program:
    """Clone at the commit, set the run's values, show them."""
    known = container.environment
    yield ProgramStep(1.0, f"Cloning into '{SOURCES}'...\n", is_error=True)
    yield ProgramStep(6.0, f"neuronx-nemo-megatron at {known['SOURCE_COMMIT']}\n")
    default = ScriptParameters()
    choices = ScriptParameters(
        tokenizer=known.get("TOKENIZER_PATH", default.tokenizer),
        dataset=known.get("DATASET_PATH", default.dataset),
        learning_rate=float(known.get("LEARNING_RATE", default.learning_rate)),
        min_learning_rate=float(known.get("MIN_LEARNING_RATE", default.min_learning_rate)),
        warmup_steps=int(known.get("WARMUP_STEPS", default.warmup_steps)),
        seq_length=int(known.get("SEQ_LENGTH", default.seq_length)),
        tensor_parallel=int(known.get("TENSOR_PARALLEL", default.tensor_parallel)),
        pipeline_parallel=int(known.get("PIPELINE_PARALLEL", default.pipeline_parallel)),
        precision=known.get("PRECISION", default.precision),
        checkpoint_seconds=int(known.get("CHECKPOINT_SECONDS", default.checkpoint_seconds)),
        saves_last=True,
        resumes=known.get("RESUME") != "never",
        has_experiment=True,
    )
    lines = write_scripts(container.files, choices)
    container.files.write(f"{SOURCES}/nemo/scripts/nlp_language_modeling/preprocess_data_for_megatron.py", b"")
    yield ProgramStep(0.5, "".join(line + "\n" for line in lines))
    yield ProgramStep(0.1, "Scripts are configured\n")
    return 0


def takes_tokenizer(container: ContainerView) -> bool:
    """Return whether a container downloads a tokenizer."""
    return "HF_REPOSITORY" in container.environment and "tokenizer.py" in container.command_line


def take_tokenizer(container: ContainerView) -> Program:
    """Download a tokenizer's files; a gated one needs a token that was given access."""
    repository, target = container.environment["HF_REPOSITORY"], container.environment["TOKENIZER_PATH"]
    token = container.environment.get("HF_TOKEN", "")
    yield ProgramStep(4.0, f"Downloading the tokenizer of {repository} {'with' if token else 'without'} a token\n")
    refusal = _refusal(repository, token)
    if refusal:
        yield ProgramStep(1.5, refusal, is_error=True)
        return 1
    names = ("special_tokens_map.json", "tokenizer.json", "tokenizer.model", "tokenizer_config.json")
    for name, size in zip(names, (414, 1_842_767, 499_723, 776), strict=True):
        container.files.write(posixpath.join(target, name), b"{}" if name.endswith("json") else b"", size_bytes=size)
    yield ProgramStep(3.0, f"Saved 32000 tokens to {target}: {', '.join(names)}\n")
    return 0


def _refusal(repository: str, token: str) -> str:
    """Return the error of the hub's client, empty if the download is allowed.

    A token of the sandbox begins with `hf_`, as the real ones; one with `nolicence` in it belongs to an account that
    has not accepted the licence.
    """
    url = f"https://huggingface.co/{repository}/resolve/main/config.json"
    start = 'Traceback (most recent call last):\n  File "/config/tokenizer.py", line 8, in <module>\n'
    if token and not token.startswith("hf_"):
        return (
            f"{start}requests.exceptions.HTTPError: 401 Client Error: Unauthorized for url: {url}\n"
            "huggingface_hub.errors.HfHubHTTPError: 401 Client Error. Invalid credentials in Authorization header\n"
        )
    if not repository.startswith(_GATED):
        return ""
    if not token:
        status, request = (
            "401 Client Error",
            "You must have access to it and be authenticated to access it. Please log in.",
        )
    elif "nolicence" in token:
        status, request = "403 Client Error", f"Visit https://huggingface.co/{repository} to ask for access."
    else:
        return ""
    reason = (
        f"Access to model {repository} is restricted. {request}"
        if not token
        else f"Access to model {repository} is restricted and you are not in the authorized list. {request}"
    )
    return (
        f"{start}huggingface_hub.errors.GatedRepoError: {status}. (Request ID: Root=1-67403f2e-5a1b)\n\n"
        f"Cannot access gated repo for url {url}.\n{reason}\n"
    )


def takes_dataset(container: ContainerView) -> bool:
    """Return whether a container downloads the dataset."""
    return "DATASET_URL" in container.environment and "dataset.sh" in container.command_line


def take_dataset(container: ContainerView) -> Program:
    """Download part after part, then join them. Parts that are there are not loaded again."""
    files = container.files
    yield ProgramStep(1.0, f"Cloning into '{_DATASET}'...\n", is_error=True)
    parts = [f"{part}_sample.jsonl" for part in (*_PARTS, *_PARTS_END)]
    for number, part in enumerate(parts, start=1):
        path = f"{_DATASET}/{part}"
        if files.file(path) is None:
            yield ProgramStep(_DOWNLOAD_SECONDS)
            files.write(path, b'{"text": "made up", "meta": {}}\n', size_bytes=460_000_000)
        yield ProgramStep(0.1, f"Downloaded {number} of {len(parts)} files: {part}\n")
    yield ProgramStep(3.0)
    size = sum(found.size_bytes for part in parts if (found := files.file(f"{_DATASET}/{part}")))
    files.write(TEXT, b'{"text": "made up", "meta": {}}\n', size_bytes=size)
    yield ProgramStep(0.1, f"Joined {len(parts)} files: {size} bytes\n")
    return 0


def makes_sample(container: ContainerView) -> bool:
    """Return whether a container makes text up."""
    return "DOCUMENTS" in container.environment and "sample.py" in container.command_line


def make_sample(container: ContainerView) -> Program:
    """Write made-up documents in the dataset's place."""
    count = int(container.environment["DOCUMENTS"])
    yield ProgramStep(4.0)
    container.files.write(TEXT, b'{"text": "made up"}\n', size_bytes=count * 7_000)
    yield ProgramStep(0.1, f"Wrote {count} made-up documents to {TEXT}\n")
    return 0


def tokenises(container: ContainerView) -> bool:
    """Return whether a container turns text into tokens."""
    return _TOKENISER in container.command_line


def tokenise(container: ContainerView) -> Program:
    """Count documents until all are done, and leave the two files that the training maps."""
    given = dict(word.split("=", 1) for word in container.argv if "=" in word)
    text, tokenizer, prefix = given["--input"], given["--tokenizer-type"], given["--output-prefix"]
    missing = _missing(container, text, tokenizer)
    if missing:
        yield ProgramStep(2.0, f"Traceback (most recent call last):\n{missing}\n", is_error=True)
        return 1
    found = container.files.file(text)
    total = min(_DOCUMENTS, max(1, (found.size_bytes if found else 0) // 7_000))
    pause = _TOKENISE_SECONDS * _DOCUMENTS_A_LINE / _DOCUMENTS
    yield ProgramStep(2.0, f"Opening {text}\n")
    yield ProgramStep(2.0, "Vocab size: 32000\n")
    yield ProgramStep(0.1, f"Output prefix: {prefix}\nTime to startup: 4.0212\n")
    for done in range(_DOCUMENTS_A_LINE, total, _DOCUMENTS_A_LINE):
        rate = 258.4 + done % 7
        yield ProgramStep(
            pause, f"Processed {done} documents ({rate:.2f} docs/s, {rate * 0.00541:.4f} MB/s).\n", is_error=True
        )
    yield ProgramStep(pause)
    for ending, size in ((".bin", total * 2_200), (".idx", total * 20)):
        container.files.write(f"{prefix}_text_document{ending}", b"", size_bytes=size)
    yield ProgramStep(0.1, f"Processed {total} documents (258.91 docs/s, 1.4007 MB/s).\n", is_error=True)
    return 0


def _missing(container: ContainerView, text: str, tokenizer: str) -> str:
    if container.files.file(f"{SCRIPTS}/llama_7b.sh") is None:
        return f"python3: can't open file '{container.argv[1]}': [Errno 2] No such file or directory"
    if container.files.file(text) is None:
        return f"FileNotFoundError: [Errno 2] No such file or directory: '{text}'"
    if container.files.file(f"{tokenizer}/tokenizer.model") is None:
        return (
            f"OSError: {tokenizer} does not appear to have a file named config.json. Checkout "
            f"'https://huggingface.co/{tokenizer}/None' for available files."
        )
    return ""
