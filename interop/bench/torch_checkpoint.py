"""Times torch.save and torch.load of the state in one of our checkpoint folders.

usage: torch_checkpoint.py CHECKPOINT FOLDER

The peer of `npm run bench -- checkpoint`: the same tensors (model and moments), saved with fsync of file and folder,
since a checkpoint must survive a power cut, and loaded whole. torch.save writes no hashes and reads nothing back.
"""

from __future__ import annotations

import json
import os
import sys
import time

import torch
from safetensors.torch import load_file


def timed(repeats, work):
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append((time.perf_counter() - start) * 1000)
    return times


def sync(path: str) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def main() -> None:
    checkpoint, folder = sys.argv[1], sys.argv[2]
    parts = {
        part: {name: tensor.clone() for name, tensor in load_file(os.path.join(checkpoint, f"{part}.safetensors")).items()}
        for part in ("model", "optimizer")
    }
    path = os.path.join(folder, "torch.pt")

    def save(durable: bool) -> None:
        torch.save(parts, path)
        if durable:
            sync(path)
            sync(folder)

    result = {
        "save_ms": timed(3, lambda: save(True)),
        "save_no_fsync_ms": timed(3, lambda: save(False)),
        "load_ms": timed(3, lambda: torch.load(path, map_location="cpu")),
        "size_bytes": os.path.getsize(path),
        "versions": {"torch": torch.__version__},
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
