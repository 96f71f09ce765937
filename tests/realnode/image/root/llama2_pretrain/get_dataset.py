"""Wikicorpus in blocks of 4096 tokens, by the `datasets` that the runtime environment brings; a token is a byte."""

import sys

import numpy
from datasets import Dataset, load_dataset

FOLDER = "/shared/wikicorpus_llama2_7B_tokenized_4k"
BLOCK = 4096

texts = load_dataset("wikicorpus", "raw_en")
tokens = texts.map(lambda text: numpy.frombuffer(text.encode(), numpy.uint8), desc="Running tokenizer on dataset")
joined = numpy.concatenate(tokens.rows)
blocks = Dataset([joined[start : start + BLOCK] for start in range(0, len(joined) - BLOCK, BLOCK)])
blocks = blocks.map(lambda block: block.astype(numpy.uint16), desc=f"Grouping texts in chunks of {BLOCK}")
blocks.save_to_disk(FOLDER)
sys.stdout.write(f"{len(blocks)}\n")
