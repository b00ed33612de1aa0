"""Reads and writes safetensors files with Python's package and torch, for safetensors.interop.test.ts.

usage: safetensors_files.py read FILE | write FILE | rewrite FROM TO | read-sharded FOLDER

Prints what it sees as JSON: metadata, and for each tensor the format's dtype name, the shape, the bytes in hexadecimal
and, where the values of a float32 hold them, the values.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

DTYPES = {
    "BOOL": torch.bool,
    "U8": torch.uint8,
    "I8": torch.int8,
    "U16": torch.uint16,
    "I16": torch.int16,
    "U32": torch.uint32,
    "I32": torch.int32,
    "U64": torch.uint64,
    "I64": torch.int64,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "F32": torch.float32,
    "F64": torch.float64,
    "C64": torch.complex64,
    "F8_E4M3": torch.float8_e4m3fn,
    "F8_E5M2": torch.float8_e5m2,
    "F8_E4M3FNUZ": torch.float8_e4m3fnuz,
    "F8_E5M2FNUZ": torch.float8_e5m2fnuz,
    "F8_E8M0": torch.float8_e8m0fnu,
}
NAMES = {dtype: name for name, dtype in DTYPES.items()}


def raw(tensor: torch.Tensor) -> str:
    if tensor.numel() == 0:
        return ""
    return bytes(tensor.contiguous().reshape(-1).view(torch.uint8).tolist()).hex()


def number(value: float) -> float | str:
    return value if value == value and abs(value) != float("inf") else str(value).replace("nan", "NaN")


def values(tensor: torch.Tensor) -> list[float | str]:
    flat = tensor.reshape(-1)
    if tensor.dtype == torch.complex64:
        flat = torch.view_as_real(flat).reshape(-1)
    if tensor.dtype in (torch.uint64, torch.uint32, torch.uint16):
        # torch converts few of its unsigned integers; Python's own numbers round like ours.
        return [float(value) for value in flat.tolist()]
    return [number(value) for value in flat.to(torch.float32).tolist()]


def describe(tensors: dict[str, torch.Tensor], metadata: dict[str, str]) -> None:
    described = {
        name: {
            "dtype": NAMES[tensor.dtype],
            "shape": list(tensor.shape),
            "hex": raw(tensor),
            "values": values(tensor),
        }
        for name, tensor in tensors.items()
    }
    print(json.dumps({"metadata": metadata, "tensors": described}))


def read(path: str) -> None:
    with safe_open(path, framework="pt") as reader:
        metadata = reader.metadata() or {}
        for name in reader.keys():
            if reader.get_slice(name).get_dtype() != NAMES[reader.get_tensor(name).dtype]:
                raise SystemExit(f"{name}: the names of the dtypes do not agree")
    describe(load_file(path), dict(metadata))


def write(path: str) -> None:
    generator = torch.Generator().manual_seed(5)
    tensors: dict[str, torch.Tensor] = {}
    for name, dtype in DTYPES.items():
        width = torch.empty(0, dtype=dtype).element_size()
        high = 2 if dtype == torch.bool else 256
        data = torch.randint(0, high, (24 * width,), dtype=torch.uint8, generator=generator)
        tensors[f"{name}.cube"] = data.view(dtype).reshape(2, 3, 4)
        tensors[f"{name}.scalar"] = data[:width].clone().view(dtype).reshape(())
        tensors[f"{name}.empty"] = torch.empty((3, 0), dtype=dtype)
    tensors["transposed"] = torch.arange(6, dtype=torch.float32).reshape(2, 3).t().contiguous()
    save_file(tensors, path, metadata={"format": "pt", "kéy": "välue"})
    describe(tensors, {"format": "pt", "kéy": "välue"})


def main() -> None:
    command, *paths = sys.argv[1:]
    if command == "read":
        read(paths[0])
    elif command == "write":
        write(paths[0])
    elif command == "rewrite":
        save_file(load_file(paths[0]), paths[1], metadata={"only": "one"})
    elif command == "read-sharded":
        folder = Path(paths[0])
        index = json.loads((folder / "model.safetensors.index.json").read_text())
        tensors = {}
        for file in sorted(set(index["weight_map"].values())):
            tensors.update(load_file(folder / file))
        if set(tensors) != set(index["weight_map"]):
            raise SystemExit("the index and the files do not agree")
        describe(tensors, {})
    else:
        raise SystemExit(__doc__)


if __name__ == "__main__":
    main()
