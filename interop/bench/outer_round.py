"""One whole round of the Python package's master, `MasterOuterLoop.sync_once`, over the hub that HF_ENDPOINT names.

usage: outer_round.py REPO STATE FOLDER LR MU THREADS

The peer of `npm run bench -- outer`, part (ii). The weights are in memory before the clock starts, as they are in a
running master. Prints one JSON line.
"""

from __future__ import annotations

import json
import os
import sys
import time

import torch
from speedtronic.distributed.hub import HubClient
from speedtronic.distributed.outer import MasterOuterLoop
from speedtronic.distributed.tensors import load_safetensors

from outer_compute import peak_memory_mb


def main() -> None:
    repo, state_path, folder, lr, mu, threads = sys.argv[1:]
    torch.set_num_threads(int(threads))
    hub = HubClient(repo, cache_dir=os.path.join(folder, "cache"))
    loop = MasterOuterLoop(
        hub,
        load_safetensors(state_path),
        node_state_dir=os.path.join(folder, "state"),
        outer_lr=float(lr),
        outer_momentum=float(mu),
    )
    # Imports and the session, which a running master has made long ago.
    hub.list_files()

    cpu = time.process_time()
    start = time.perf_counter()
    outer_step = loop.sync_once()
    result = {
        "ms": (time.perf_counter() - start) * 1000,
        "cpu_ms": (time.process_time() - cpu) * 1000,
        "peak_mb": peak_memory_mb(),
        "outer_step": outer_step,
        "processed": len(loop.processed_deltas),
        "versions": {"python": sys.version.split()[0], "torch": torch.__version__},
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
