"""Writes the golden loss curve: 100 updates at the demo's size on the book, in float32 and in float64.

usage: make_golden_curve.py [--out FILE] [--steps N] [--threads N] [--skip-float64]

The TypeScript trainer must reproduce the losses. Weights and order of the tokens come from formulas that
stand in the file, so nothing has to be shipped but the book itself.
"""

from __future__ import annotations

import argparse
import hashlib
import json
from pathlib import Path
from typing import Iterator

import numpy as np
import torch

from torch_reference import (
    HASH_FORMULA,
    Batch,
    ModelConfig,
    ReferenceTransformer,
    TrainConfig,
    hashed_normal,
    named_tensors,
    set_weights,
    train,
)

ROOT = Path(__file__).resolve().parent.parent
BOOK = ROOT / "assets" / "moby-dick.txt"
DEFAULT_OUT = ROOT / "test" / "fixtures" / "golden-curve" / "golden-curve.json"

MODEL = ModelConfig(
    vocab_size=256, block_size=128, n_layer=4, n_head=6, n_kv_head=6, d_model=192, d_ff=768, tie_weights=True
)
TRAIN = TrainConfig(
    lr=1e-3,
    beta1=0.9,
    beta2=0.95,
    eps=1e-8,
    weight_decay=0.1,
    grad_clip=1.0,
    warmup_steps=20,
    schedule_steps=100,
    min_lr_ratio=0.1,
)
STEPS = 100
MICRO_BATCH = 8
ACCUMULATION = 2
DATA_FORMULA = (
    "Step s (from 0), sequence j (0..15): offset o = (s * 16 + j) * 128 into the file's bytes; "
    "inputs = bytes[o .. o+128), labels = bytes[o+1 .. o+129). Micro batch m holds j = 8m .. 8m+7."
)


def read_updates(book: bytes, steps: int) -> Iterator[list[Batch]]:
    data = torch.from_numpy(np.frombuffer(book, dtype=np.uint8).astype(np.int64))
    T, per_step = MODEL.block_size, MICRO_BATCH * ACCUMULATION
    for s in range(steps):
        micro_batches = []
        for m in range(ACCUMULATION):
            offsets = [(s * per_step + m * MICRO_BATCH + j) * T for j in range(MICRO_BATCH)]
            micro_batches.append(
                (torch.stack([data[o : o + T] for o in offsets]), torch.stack([data[o + 1 : o + T + 1] for o in offsets]))
            )
        yield micro_batches


def run_curve(book: bytes, steps: int, dtype: torch.dtype) -> dict:
    model = ReferenceTransformer(MODEL)
    set_weights(model, hashed_normal)
    model.to(dtype)
    records = list(train(model, TRAIN, read_updates(book, steps)))
    return {
        "losses": [r.loss for r in records],
        "grad_norms": [r.grad_norm for r in records],
        "lrs": [r.lr for r in records],
    }


def weight_checksums() -> list[dict]:
    """Per tensor: shape, sum and sum of squares (float64, of the float32 values) and the first four values."""
    model = ReferenceTransformer(MODEL)
    set_weights(model, hashed_normal)
    rows = []
    for t, (name, parameter) in enumerate(named_tensors(model)):
        flat = parameter.detach().numpy().ravel().astype(np.float64)
        rows.append(
            {
                "t": t,
                "name": name,
                "shape": list(parameter.shape),
                "sum": float(flat.sum()),
                "sum_of_squares": float((flat * flat).sum()),
                "first": [float(v) for v in flat[:4]],
            }
        )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=DEFAULT_OUT)
    parser.add_argument("--steps", type=int, default=STEPS)
    # One thread: two change no digit here, and spin against each other where the cores are shared.
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--skip-float64", action="store_true")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    book = BOOK.read_bytes()
    float32 = run_curve(book, args.steps, torch.float32)
    result = {
        "about": "Losses of plain PyTorch on the book; made by interop/make_golden_curve.py.",
        "torch": torch.__version__,
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
        "threads": args.threads,
        "model": {**MODEL.as_dict(), "dropout": 0.0, "mlp_width": MODEL.mlp_width},
        "train": TRAIN.as_dict(),
        "micro_batch_size": MICRO_BATCH,
        "accumulation_steps": ACCUMULATION,
        "steps": args.steps,
        "data": {
            "file": BOOK.relative_to(ROOT).as_posix(),
            "sha256": hashlib.sha256(book).hexdigest(),
            "bytes": len(book),
            "formula": DATA_FORMULA,
        },
        "weights": {"formula": HASH_FORMULA, "tensors": weight_checksums()},
        "notes": "loss: mean over the update's target tokens, before the update; grad_norm: before clipping; "
        "lr: the rate of that update. Vectors take no weight decay.",
        "lrs": float32.pop("lrs"),
        "float32": float32,
    }
    if not args.skip_float64:
        float64 = run_curve(book, args.steps, torch.float64)
        float64.pop("lrs")
        result["float64"] = float64
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text(json.dumps(result, indent=1) + "\n")
    last = result["float32"]["losses"]
    print(f"wrote {args.out}: loss {last[0]:.6f} -> {last[-1]:.6f} in {args.steps} steps")


if __name__ == "__main__":
    main()
