"""Writes small PyTorch files of both forms, with what is in them as JSON, for the tests of the reader.

usage: make_torch_fixtures.py [--out-dir DIR]

Every file `<name>.pt` is what torch.save wrote. `expected.json` lists per file and dotted name: dtype, shape and
the bytes of the tensor made contiguous (base64), and values that are no tensors.
"""

from __future__ import annotations

import argparse
import base64
import collections
import json
from pathlib import Path
from typing import Any

import numpy as np
import torch

ROOT = Path(__file__).resolve().parent.parent
DEFAULT_OUT = ROOT / "test" / "fixtures" / "torch"

DTYPES = (
    "float64 float32 float16 bfloat16 complex64 complex128 int64 int32 int16 int8 uint8 uint16 uint32 uint64 bool "
    "float8_e4m3fn float8_e5m2 float8_e4m3fnuz float8_e5m2fnuz float8_e8m0fnu"
).split()


def ramp(count: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return (torch.arange(count, dtype=torch.float32) * 0.75 - 2.0).to(dtype)


def of_every_dtype() -> dict[str, torch.Tensor]:
    tensors = {}
    for name in DTYPES:
        dtype = getattr(torch, name)
        if dtype.is_complex:
            tensors[name] = torch.complex(ramp(6, torch.float64), -ramp(6, torch.float64)).to(dtype).reshape(2, 3)
        elif dtype.is_floating_point:
            tensors[name] = ramp(6).abs().to(dtype).reshape(2, 3)
        elif dtype == torch.bool:
            tensors[name] = torch.tensor([[True, False, True], [False, False, True]])
        else:
            tensors[name] = (torch.arange(6) * 13 % 100).to(dtype).reshape(2, 3)
    return tensors


def views() -> dict[str, Any]:
    base = ramp(48).reshape(4, 12)
    cube = ramp(60).reshape(3, 4, 5)
    return {
        "whole": base,
        "transposed": base.t(),
        "column": base[:, 3],
        "rows": base[1:3],
        "every_other": base[::2, 1::3],
        "expanded": ramp(3).reshape(3, 1).expand(3, 4),
        "overlapping": ramp(9).as_strided((3, 4), (2, 1), 1),
        "permuted": cube.permute(2, 0, 1),
        "middle": cube[:, 1:3, :],
        "scalar": base[2, 2],
        "empty": base[:, :0],
        "no_dimension_of_size": cube[:0],
        "singletons": base[None, :, None, 0:1],
        "half_column": base.to(torch.float16)[:, 2],
        "byte_column": torch.arange(24, dtype=torch.uint8).reshape(4, 6).t(),
        "double_column": base.to(torch.float64)[:, 5],
        "complex_column": torch.complex(base, -base)[:, 5],
    }


def nested() -> dict[Any, Any]:
    class Small(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.wte = torch.nn.Embedding(5, 3)
            self.head = torch.nn.Linear(3, 5, bias=False)
            self.norm = torch.nn.BatchNorm1d(3)
            self.head.weight = self.wte.weight

    torch.manual_seed(3)
    model = Small()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.125)
    loss = model.norm(model.wte(torch.tensor([0, 1, 2]))).square().sum()
    loss.backward()
    optimizer.step()
    tagged = torch.ones(2)
    tagged.note = "an attribute"
    parameter = torch.nn.Parameter(torch.full((2, 2), 0.5))
    annotated = torch.nn.Parameter(torch.full((2,), 0.25), requires_grad=False)
    annotated.partition = 3
    return {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "scheduler": torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1.0).state_dict(),
        "parameter": parameter,
        "annotated_parameter": annotated,
        "tagged": tagged,
        "list": [torch.zeros(1), (torch.ones(1), 7)],
        "step": 12345678901234567890123,
        "small": -3,
        "float": 0.1,
        "text": "grüße 😀",
        "flags": [True, False, None],
        "bytes": b"\x00\xff\x80",
        "bytearray": bytearray(b"ab"),
        "set": {4},
        "frozenset": frozenset({"x"}),
        "size": torch.Size([2, 3]),
        "device": torch.device("cpu"),
        "dtype": torch.bfloat16,
        "default": collections.defaultdict(list, {"k": [1]}),
        "counter": collections.Counter("aab"),
        "numpy": np.arange(4, dtype=np.uint32),
        "numpy_scalar": np.float64(2.5),
        5: "a key that is a number",
        (1, "two"): "a key that is a tuple",
    }


def values() -> dict[str, Any]:
    return {
        "dtypes": of_every_dtype(),
        "views": views(),
        "nested": nested(),
        "single": ramp(5),
        "list": [ramp(2), ramp(3)],
    }


def tensors_of(value: Any, path: str = "") -> dict[str, torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return {path or "tensor": value.detach()}
    if isinstance(value, dict):
        pairs = value.items()
    elif isinstance(value, (list, tuple)) and not isinstance(value, torch.Size):
        pairs = enumerate(value)
    else:
        return {}
    found = {}
    for key, child in pairs:
        text = "(" + ",".join(map(str, key)) + ")" if isinstance(key, tuple) else str(key)
        found.update(tensors_of(child, f"{path}.{text}" if path else text))
    return found


def as_bytes(tensor: torch.Tensor) -> bytes:
    flat = tensor.contiguous().reshape(-1)
    return flat.view(torch.uint8).numpy().tobytes() if flat.numel() else b""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out-dir", type=Path, default=DEFAULT_OUT)
    out = parser.parse_args().out_dir
    out.mkdir(parents=True, exist_ok=True)
    expected = {}
    forms = [
        ("zip", {}),
        ("legacy", {"_use_new_zipfile_serialization": False}),
        ("protocol5", {"pickle_protocol": 5}),
    ]
    for name, value in values().items():
        for form, options in forms:
            file = f"{name}-{form}.pt"
            torch.save(value, out / file, **options)
            expected[file] = {
                key: {
                    "dtype": str(tensor.dtype).removeprefix("torch."),
                    "shape": list(tensor.shape),
                    "bytes": base64.b64encode(as_bytes(tensor)).decode(),
                }
                for key, tensor in tensors_of(value).items()
            }
    document = {"torch": torch.__version__, "files": expected}
    (out / "expected.json").write_text(json.dumps(document, indent=1) + "\n")
    print(f"wrote {len(expected)} files to {out}")


if __name__ == "__main__":
    main()
