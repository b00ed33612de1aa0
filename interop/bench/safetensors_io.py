"""Times Python's safetensors on a file: open and list, read every byte, save.

usage: safetensors_io.py FILE FOLDER THREADS

The peer of `npm run bench -- safetensors`: the same file, the same steps, one JSON line. "Read" goes through safe_open
and sums each tensor with torch, which uses THREADS threads; "load" through load_file. Saving removes the earlier copy
first, as the other side does; with fsync the file and its folder are synced.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time

import safetensors
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file


def timed(repeats, work, before=lambda: None):
    times = []
    for _ in range(repeats):
        before()
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
    file, folder, threads = sys.argv[1], sys.argv[2], int(sys.argv[3])
    torch.set_num_threads(threads)
    result: dict[str, object] = {}
    listed = 0

    def open_and_list() -> None:
        nonlocal listed
        with safe_open(file, framework="pt") as reader:
            for name in reader.keys():
                view = reader.get_slice(name)
                listed += len(view.get_dtype()) + len(view.get_shape())

    first, *others = timed(200, open_and_list)
    result["first_open_ms"], result["open_ms"] = [first], others

    def read() -> None:
        with safe_open(file, framework="pt") as reader:
            sums = {name: float(reader.get_tensor(name).sum()) for name in reader.keys()}
        result["sum"] = sum(sums.values())

    result["read_ms"] = timed(5, read)
    result["rss_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

    state: dict[str, torch.Tensor] = {}

    def load() -> None:
        nonlocal state
        state = load_file(file)
        for tensor in state.values():
            float(tensor.sum())

    result["load_ms"] = timed(3, load, lambda: state.clear())

    # Out of the mapping: tensors in memory, as a training program has them.
    state = {name: tensor.clone() for name, tensor in state.items()}
    copy = os.path.join(folder, "python.safetensors")

    def fresh() -> None:
        if os.path.exists(copy):
            os.remove(copy)

    def save_durably() -> None:
        save_file(state, copy)
        sync(copy)
        sync(folder)

    result["save_ms"] = timed(3, lambda: save_file(state, copy), fresh)
    result["save_fsync_ms"] = timed(3, save_durably, fresh)
    fresh()
    result["versions"] = {"safetensors": safetensors.__version__, "torch": torch.__version__}
    result["listed"] = listed
    print(json.dumps(result))


if __name__ == "__main__":
    main()
