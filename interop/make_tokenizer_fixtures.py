"""Writes small tokenizers as the `tokenizers` package makes them, and the ids and texts that it makes of some texts.

usage: make_tokenizer_fixtures.py [--out FOLDER]

Three kinds: byte-level BPE (GPT-2's), BPE with byte fallback and a prefix space (Llama's), WordPiece (BERT's).
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

ROOT = Path(__file__).resolve().parent.parent
DEFAULT_OUT = ROOT / "test" / "fixtures" / "tokenizers"
BOOK = ROOT / "assets" / "moby-dick.txt"

TEXTS = [
    "Call me Ishmael. Some years ago--never mind how long precisely--",
    "  two  blanks,\ttabs\r\nand lines\n\n\nit's, don't, we'll",
    "naïve cafés – “quoted” 早く走る。 مرحبا 🙂👩‍🚀 e\u0301",
    "x=1; y[2] != {3: 4.5}",
    "one<|end|>two <|end|> three",
    " ",
    "\x00\x7f",
]


def bpe() -> Tokenizer:
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    made.train([str(BOOK)], trainers.BpeTrainer(vocab_size=600, initial_alphabet=alphabet, special_tokens=["<|end|>"]))
    return made


def fallback() -> Tokenizer:
    made = Tokenizer(models.BPE(byte_fallback=True, unk_token="<unk>", fuse_unk=True))
    made.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    made.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    special = ["<unk>", "<|end|>", *(f"<0x{byte:02X}>" for byte in range(256))]
    lines = BOOK.read_text(encoding="utf-8").splitlines()[:2000]
    made.train_from_iterator(lines, trainers.BpeTrainer(vocab_size=700, special_tokens=special, limit_alphabet=80))
    # Bytes are pieces of the vocabulary, not marks that a text may hold.
    described = json.loads(made.to_str())
    described["added_tokens"] = [token for token in described["added_tokens"] if not token["content"].startswith("<0x")]
    return Tokenizer.from_str(json.dumps(described))


def word_piece() -> Tokenizer:
    made = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    made.normalizer = normalizers.BertNormalizer(lowercase=True)
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    made.decoder = decoders.WordPiece()
    made.train([str(BOOK)], trainers.WordPieceTrainer(vocab_size=600, special_tokens=["[UNK]", "<|end|>"]))
    return made


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, default=DEFAULT_OUT)
    out: Path = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    golden = {}
    for name, make in (("byte-level-bpe", bpe), ("byte-fallback-bpe", fallback), ("word-piece", word_piece)):
        tokenizer = make()
        (out / f"{name}.json").write_text(tokenizer.to_str(), encoding="utf-8")
        cases = []
        for text in TEXTS:
            ids = tokenizer.encode(text, add_special_tokens=False).ids
            cases.append({"text": text, "ids": ids, "decoded": tokenizer.decode(ids, skip_special_tokens=False)})
        golden[name] = {"vocab_size": tokenizer.get_vocab_size(), "end": tokenizer.token_to_id("<|end|>"), "cases": cases}
    (out / "golden.json").write_text(json.dumps(golden, ensure_ascii=True, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
