"""One round's arithmetic with the functions of the Python package, from files to a sink that touches every byte.

usage: outer_compute.py STATE MOMENTUM LR MU KEEP THREADS DELTA...

The peer of `npm run bench -- outer`, part (i): `load_delta`, `average_deltas` and `NesterovOuterOptimizer.step`, then
the search for values that are not finite, which the package does not have, and which is timed on its own. Weights and
momentum are in memory before the clock starts, as they are in a Python master. Results go to the folder KEEP after the
clock has stopped ("" for none). Prints one JSON line.
"""

from __future__ import annotations

import json
import os
import sys
import time

import torch
from speedtronic.distributed.outer import NesterovOuterOptimizer
from speedtronic.distributed.tensors import average_deltas, load_delta, load_safetensors, save_safetensors

SINK_BYTES = 2**20


def peak_memory_mb() -> float:
    with open("/proc/self/status", encoding="ascii") as status:
        for line in status:
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024 / 1e6
    raise RuntimeError("this system does not tell the peak of a process's memory")


def touch(state: dict[str, torch.Tensor], buffer: torch.Tensor) -> int:
    """Copies all bytes into one buffer, again and again."""
    total = 0
    for value in state.values():
        for part in value.view(-1).split(buffer.numel()):
            buffer[: part.numel()].copy_(part)
            total += part.numel() * part.element_size()
    return total


def main() -> None:
    state_path, momentum_path, lr, mu, keep, threads, *paths = sys.argv[1:]
    torch.set_num_threads(int(threads))
    state = {key: value.clone() for key, value in load_safetensors(state_path).items()}
    optimizer = NesterovOuterOptimizer(state, float(lr), float(mu))
    optimizer.load_state_dict(load_safetensors(momentum_path))
    buffer = torch.empty(SINK_BYTES // 4)

    cpu = time.process_time()
    times = [time.perf_counter()]
    deltas = [load_delta(path)[0] for path in paths]
    times.append(time.perf_counter())
    average = average_deltas(deltas)
    times.append(time.perf_counter())
    optimizer.step(state, average)
    times.append(time.perf_counter())
    momentum = optimizer.momentum_buffers
    for values in (state, momentum):
        if not all(bool(torch.isfinite(value).all()) for value in values.values()):
            raise ValueError("the outer step made values that are not finite")
    times.append(time.perf_counter())
    sink_bytes = touch(state, buffer) + touch(momentum, buffer)
    times.append(time.perf_counter())

    result = {
        "ms": (times[-1] - times[0]) * 1000,
        "cpu_ms": (time.process_time() - cpu) * 1000,
        "finite_check_ms": (times[4] - times[3]) * 1000,
        "parts_ms": [(b - a) * 1000 for a, b in zip(times, times[1:])],
        "peak_mb": peak_memory_mb(),
        "sink_bytes": sink_bytes,
        "versions": {"python": sys.version.split()[0], "torch": torch.__version__},
    }
    if keep:
        save_safetensors(state, os.path.join(keep, "state.safetensors"))
        save_safetensors(momentum, os.path.join(keep, "momentum.safetensors"))
    print(json.dumps(result))


if __name__ == "__main__":
    main()
