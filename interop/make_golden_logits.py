"""Writes golden logits, losses and gradients of small models, in float64, and checks them with a second source.

usage: make_golden_logits.py [--out FILE]

Each case is computed with torch_reference in float64. The same weights then go into the Speedtronic package's
own model (float32), and the script fails if keys or shapes differ or a logit differs by more than 2e-6.
"""

from __future__ import annotations

import argparse
import json
import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from speedtronic import ReferenceTransformer as PackageTransformer

from torch_reference import ModelConfig, ReferenceTransformer, named_tensors, set_weights, summed_loss, valid_targets

ROOT = Path(__file__).resolve().parent.parent
DEFAULT_OUT = ROOT / "test" / "fixtures" / "golden-curve" / "golden-logits.json"
PACKAGE_TOLERANCE = 2e-6

WEIGHT_FORMULA = (
    "Tensors are numbered t = 0, 1, 2, ... in state-dict order; an untied lm_head comes last. Element i (row-major): "
    "0.3 * sin(1.3 * i + 0.7 * t + 0.1) for matrices, 1 + 0.1 * sin(1.3 * i + 0.7 * t + 0.1) for vectors; "
    "computed in float64, rounded to float32."
)


def sine_weights(t: int, shape: tuple[int, ...]) -> np.ndarray:
    wave = np.sin(1.3 * np.arange(math.prod(shape), dtype=np.float64) + 0.7 * t + 0.1).reshape(shape)
    return 1 + 0.1 * wave if len(shape) == 1 else 0.3 * wave


@dataclass(frozen=True)
class Case:
    name: str
    model: ModelConfig
    input_ids: list[list[int]]
    labels: list[list[int]]
    attention_mask: list[list[int]] | None = None
    with_gradients: bool = True


TIED = ModelConfig(vocab_size=7, block_size=8, n_layer=2, n_head=2, n_kv_head=1, d_model=8, d_ff=12)
UNTIED = ModelConfig(
    vocab_size=11, block_size=16, n_layer=2, n_head=4, n_kv_head=2, d_model=16, d_ff=23, tie_weights=False, rope_base=500.0
)
MULTI_HEAD = ModelConfig(vocab_size=9, block_size=6, n_layer=1, n_head=3, n_kv_head=3, d_model=12, d_ff=20)

CASES = [
    Case(
        "right-padded, tied, one key/value head",
        TIED,
        input_ids=[[1, 4, 2, 6, 0], [3, 3, 5, 0, 0]],
        attention_mask=[[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]],
        labels=[[4, 2, 6, 0, 5], [3, 5, 1, -100, -100]],
    ),
    Case("labels one shorter than inputs", TIED, input_ids=[[1, 4, 2, 6, 0]], labels=[[4, 2, 6, 0]], with_gradients=False),
    Case(
        "grouped heads, untied, shorter than the block, other rope base",
        UNTIED,
        input_ids=[[10, 0, 3, 7, 7, 1], [2, 9, 9, 4, 8, 5]],
        labels=[[0, 3, 7, 7, 1, 6], [9, 9, -100, 8, 5, 10]],
    ),
    Case(
        "hidden keys inside the row",
        UNTIED,
        input_ids=[[5, 6, 1, 0, 2, 10, 3]],
        attention_mask=[[1, 0, 1, 1, 0, 1, 1]],
        labels=[[6, 1, 0, 2, 10, 3, 4]],
    ),
    Case("multi-head, full block", MULTI_HEAD, input_ids=[[8, 0, 1, 2, 3, 4]], labels=[[0, 1, 2, 3, 4, -100]]),
    Case("single token", MULTI_HEAD, input_ids=[[6]], labels=[[2]], with_gradients=False),
    Case("no usable label", MULTI_HEAD, input_ids=[[6, 1]], labels=[[-100, -100]], with_gradients=False),
]


def compute(case: Case) -> dict:
    model = ReferenceTransformer(case.model)
    set_weights(model, sine_weights)
    state = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    model.double()
    input_ids, labels = torch.tensor(case.input_ids), torch.tensor(case.labels)
    mask = None if case.attention_mask is None else torch.tensor(case.attention_mask)
    logits = model(input_ids, mask)
    usable = valid_targets(labels)
    # Without any usable label the loss is a differentiable zero.
    loss = summed_loss(logits, labels) / usable if usable else logits.sum() * 0
    loss.backward()
    check_with_package(case, state, logits.detach(), loss.item())
    result = {
        "name": case.name,
        "model": {**case.model.as_dict(), "mlp_width": case.model.mlp_width},
        "input_ids": case.input_ids,
        "attention_mask": case.attention_mask,
        "labels": case.labels,
        "state_dict_shapes": {name: list(tensor.shape) for name, tensor in state.items()},
        "logits": logits.tolist(),
        "loss": loss.item() + 0.0,  # turns the -0.0 of "no usable label" into 0.0
        "valid_targets": usable,
    }
    if case.with_gradients:
        result["gradients"] = {
            name: [float(f"{v:.10g}") for v in p.grad.flatten().tolist()] for name, p in named_tensors(model)
        }
    return result


def check_with_package(case: Case, state: dict, logits: torch.Tensor, loss: float) -> None:
    c = case.model
    package = PackageTransformer(**c.as_dict()).eval()
    shapes = [(k, tuple(v.shape)) for k, v in package.state_dict().items()]
    ours = [(k, tuple(v.shape)) for k, v in state.items()]
    if shapes != ours:
        raise SystemExit(f"{case.name}: state dicts differ:\npackage {shapes}\nours    {ours}")
    package.load_state_dict(state)
    kwargs = {"labels": torch.tensor(case.labels)}
    if case.attention_mask is not None:
        kwargs["attention_mask"] = torch.tensor(case.attention_mask)
    with torch.no_grad():
        out = package(torch.tensor(case.input_ids), **kwargs)
    worst = max((out["logits"].double() - logits).abs().max().item(), abs(out["loss"].item() - loss))
    if not worst <= PACKAGE_TOLERANCE:
        raise SystemExit(f"{case.name}: differs from the package by {worst:.3g}")
    print(f"{case.name}: loss {loss:.6f}, package differs by {worst:.1e}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=DEFAULT_OUT)
    args = parser.parse_args()
    torch.set_num_threads(1)
    result = {
        "about": "Float64 logits, mean losses and gradients (row-major, 10 digits) of plain PyTorch; made by interop/make_golden_logits.py.",
        "torch": torch.__version__,
        "weights_formula": WEIGHT_FORMULA,
        "cases": [compute(case) for case in CASES],
    }
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text(json.dumps(result) + "\n")
    print(f"wrote {args.out}")


if __name__ == "__main__":
    main()
