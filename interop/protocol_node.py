"""A node of the real speedtronic package, from a configuration file; for protocol.interop.test.ts.

usage: protocol_node.py train CONFIG RECORD STEP_SECONDS | init CONFIG STATE

train  trains as the package's own command does. Every event goes to stdout as a JSON line, with the version that the
       node has installed; a master's files after each of its rounds go to RECORD. A step takes at least STEP_SECONDS.
       SIGTERM, or for a master {"stop_after_round": N} in RECORD/stop.json, ends it after the update in progress.
init   writes the weights that a run from CONFIG would begin with
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

from speedtronic.config import SpeedtronicConfig
from speedtronic.distributed.tensors import save_safetensors
from speedtronic.runtime import build_runtime


class Stop(BaseException):
    """Passes through the package's handlers, as an interrupt from the keyboard does."""


class Recorder:
    """A metrics hook. Events of a master's rounds come from its own thread, at a moment when its files are whole."""

    def __init__(self, trainer: Any, record: Path, step_seconds: float) -> None:
        self.trainer, self.record, self.step_seconds = trainer, record, step_seconds
        self.last_step = time.monotonic()
        self.stopping = threading.Event()
        self.output = threading.Lock()

    def __call__(self, event: str, payload: dict[str, Any]) -> None:
        line = {"event": event, **payload, "installed": self.trainer.coordinator.last_global_step}
        if event == "outer_step" and payload["deltas_included"] > 0:
            line["processed"] = self.keep_round(payload["outer_step"])
        with self.output:
            print(json.dumps(line, default=str), flush=True)
        if event == "train_step":
            if self.stopping.is_set():
                raise Stop
            time.sleep(max(0.0, self.last_step + self.step_seconds - time.monotonic()))
            self.last_step = time.monotonic()

    def keep_round(self, step: int) -> list[Any]:
        folder = self.trainer.coordinator.state_dir
        shutil.copy2(folder / "outer_state.pt", self.record / f"outer-{step}.pt")
        shutil.copy2(folder / "outer_metadata.json", self.record / f"outer-{step}.json")
        limit = self.record / "stop.json"
        # Here and now the thread has nothing under way: a publication is two commits, and half of one is a trap.
        if limit.exists() and step >= json.loads(limit.read_text())["stop_after_round"]:
            self.stopping.set()
        return json.loads((folder / "outer_metadata.json").read_text())["processed_deltas"]


def train(config: str, record: str, step_seconds: str) -> None:
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s | %(name)s | %(message)s")
    logging.captureWarnings(True)
    trainer, _ = build_runtime(SpeedtronicConfig.load(config))
    recorder = Recorder(trainer, Path(record), float(step_seconds))
    trainer.logger.hooks.append(recorder)
    signal.signal(signal.SIGTERM, lambda *_: recorder.stopping.set())
    try:
        trainer.fit()
    except Stop:
        pass
    with recorder.output:
        sys.stdout.flush()
    # Daemon threads of the package may hold a request.
    os._exit(0)


def init(config: str, state: str) -> None:
    trainer, _ = build_runtime(SpeedtronicConfig.load(config))
    save_safetensors(trainer.model.state_dict(), Path(state))


if __name__ == "__main__":
    {"train": train, "init": init}[sys.argv[1]](*sys.argv[2:])
