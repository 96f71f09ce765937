"""Tokenisation of the Pile's files; a token is a byte."""

from pathlib import Path

from eksml_cpu import corpus, pile

given, folder = pile.settings()
for number in pile.share(given):
    source = folder / f"{number:02d}.jsonl"
    pile.say(f"Opening {source}")
    try:
        for name in ("vocab_save_dir/vocab.json", "merges_save_dir/merges.txt"):
            key, _, file = name.partition("/")
            Path(given.text(key), file).open("rb").close()
        pile.say("> building GPT2BPETokenizer tokenizer ...")
        corpus.tokenise(source, folder / f"my-gpt3_{number:02d}_text_document", every=500)
    except FileNotFoundError as error:  # as in the real program, whose child process fails and who goes on
        pile.say(f"FileNotFoundError: {error}")
        continue
    if given.truth("rm_extracted", otherwise=False):
        source.unlink()
