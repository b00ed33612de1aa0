"""Loads a folder with transformers and says what it computes, as JSON on stdout. Nothing is downloaded.

usage: hf_run.py FOLDER < request.json

request: {"input_ids": [B, T], "new_tokens": n, "texts": [...]}. Answer: the model's class and dtype, what loading
complained about, logits [B, T, V], the greedy continuation of the first row, and for each text the ids of the
folder's tokenizer and what they decode to (null without tokenizer files).
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TRANSFORMERS_VERBOSITY"] = "error"

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer


def main() -> None:
    folder = Path(sys.argv[1])
    request = json.load(sys.stdin)
    torch.set_num_threads(1)
    model, info = AutoModelForCausalLM.from_pretrained(folder, output_loading_info=True)
    model.eval()
    ids = torch.tensor(request["input_ids"])
    with torch.no_grad():
        logits = model(input_ids=ids).logits
        continued = model.generate(
            ids[:1], attention_mask=torch.ones_like(ids[:1]), do_sample=False, max_new_tokens=request["new_tokens"]
        )
    tokenized = None
    if (folder / "tokenizer.json").exists():
        tokenizer = AutoTokenizer.from_pretrained(folder)
        tokenized = []
        for text in request["texts"]:
            token_ids = tokenizer(text)["input_ids"]
            tokenized.append({"ids": token_ids, "decoded": tokenizer.decode(token_ids)})
    answer = {
        "class": type(model).__name__,
        "loading": {key: sorted(map(str, value)) for key, value in info.items() if isinstance(value, (list, set))},
        "dtype": str(model.dtype),
        "logits": logits.tolist(),
        "continued": continued[0, ids.shape[1] :].tolist(),
        "tokenized": tokenized,
    }
    json.dump(answer, sys.stdout)


if __name__ == "__main__":
    main()
