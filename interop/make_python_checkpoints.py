"""Runs the real speedtronic package and writes its checkpoints, with what follows them as JSON.

usage: make_python_checkpoints.py [--out-dir DIR]

Per kind (`marked`: every module marked for AdamW; `default`: AdamW as it comes; `muon`: the hybrid optimizer) the
folder gets `<kind>.pt`, written after SAVED updates, and in `expected.json` the losses of the updates after a
resume from it, the parameters that have optimizer state, and sums of that state by parameter. `outer_state.pt` is
what a master of an exchange keeps.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import speedtronic
import speedtronic.runtime as runtime
import torch
from speedtronic.distributed.outer import MasterOuterLoop

ROOT = Path(__file__).resolve().parent.parent
DEFAULT_OUT = ROOT / "test" / "fixtures" / "torch" / "python-speedtronic"
SAVED = 4
FOLLOWING = 5

KINDS: dict[str, dict[str, Any]] = {
    "marked": {"optimizer": {"name": "adamw"}},
    "default": {"optimizer": {"name": "adamw"}},
    "muon": {"optimizer": {"name": "muon", "muon_plus": True}},
}


def config_of(kind: str, steps: int) -> dict[str, Any]:
    optimizer = {"lr": 0.02, "betas": [0.9, 0.95], "eps": 1e-8, "weight_decay": 0.1, "grad_clip": 1.0}
    return {
        "run": {"name": f"python-{kind}", "seed": 7, "device": "cpu", "max_steps": steps, "output_dir": f"runs/{kind}"},
        "model": {
            "name": "reference_transformer",
            "vocab_size": 32,
            "max_seq_len": 16,
            "n_layer": 2,
            "n_head": 2,
            "n_kv_head": 1,
            "d_model": 16,
            "d_ff": 48,
            "dropout": 0.0,
            "tie_weights": kind != "default",
        },
        "data": {
            "synthetic": True,
            "num_tokens": 64,
            "block_size": 16,
            "micro_batch_size": 2,
            "target_batch_size": 4,
            "seed": 11,
        },
        "optimizer": {**optimizer, **KINDS[kind]["optimizer"]},
        "scheduler": {"name": "cosine", "warmup_steps": 2, "max_steps": 20, "min_lr_ratio": 0.1},
        "precision": {"mode": "fp32"},
        "checkpoint": {"every_steps": SAVED, "keep_last": None},
        "logging": {"level": "ERROR"},
    }


def build(kind: str, steps: int, resume: bool) -> speedtronic.Trainer:
    original = runtime.build_model

    def build_marked(config: Any) -> torch.nn.Module:
        model = original(config)
        if kind == "marked":
            for module in model.modules():
                module._speedtronic_optimizer_role = "adamw"
        return model

    runtime.build_model = build_marked
    try:
        trainer, _ = runtime.build_runtime(config_of(kind, steps), resume=resume)
    finally:
        runtime.build_model = original
    return trainer


def state_sums(trainer: speedtronic.Trainer) -> dict[str, dict[str, float]]:
    names = {id(parameter): name for name, parameter in trainer.model.named_parameters()}
    return {
        names[id(parameter)]: {
            slot: float(value.double().abs().sum()) if isinstance(value, torch.Tensor) else value
            for slot, value in state.items()
        }
        for parameter, state in trainer.optimizer.state.items()
    }


def write_kind(kind: str, out: Path) -> dict[str, Any]:
    first = build(kind, SAVED, resume=False)
    first.fit()
    shutil.copy(Path("runs") / kind / "checkpoints" / f"step_{SAVED:012d}.pt", out / f"{kind}.pt")
    resumed = build(kind, SAVED + FOLLOWING, resume=True)
    result = resumed.fit()
    return {
        "step": first.step,
        "samples": first.samples,
        "tokens": first.tokens,
        "parameters": [name for name, _ in first.model.named_parameters()],
        "state": state_sums(first),
        "lr": first.optimizer.param_groups[0]["lr"],
        "losses": [record["loss"] for record in result.metrics],
        "weights": {key: float(value.double().abs().sum()) for key, value in first.model.state_dict().items()},
    }


class SilentHub:
    def delta_paths(self) -> list[str]:
        return []


def write_outer_state(out: Path) -> dict[str, Any]:
    state = {"a.weight": torch.arange(6.0).reshape(2, 3), "steps": torch.tensor(5)}
    loop = MasterOuterLoop(SilentHub(), state, node_state_dir="outer")  # type: ignore[arg-type]
    loop.optimizer.step(loop.global_state, {"a.weight": torch.full((2, 3), 0.5)})
    loop.outer_step = 3
    loop.processed_deltas = {("node-b", 20, 2), ("node-a", 10, 1)}
    loop._save_local_state()
    shutil.copy(Path("outer") / "outer_state.pt", out / "outer_state.pt")
    return {
        "outer_step": 3,
        "processed_deltas": [["node-a", 10, 1], ["node-b", 20, 2]],
        "global_state": {key: value.reshape(-1).tolist() for key, value in loop.global_state.items()},
        "momentum": {key: value.reshape(-1).tolist() for key, value in loop.optimizer.state_dict().items()},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out-dir", type=Path, default=DEFAULT_OUT)
    out = parser.parse_args().out_dir.resolve()
    out.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as work:
        # Relative paths, since the checkpoints hold them.
        os.chdir(work)
        document: dict[str, Any] = {"speedtronic": speedtronic.__version__, "saved": SAVED}
        for kind in KINDS:
            document[kind] = write_kind(kind, out)
        document["outer_state"] = write_outer_state(out)
    (out / "expected.json").write_text(json.dumps(document, indent=1) + "\n")
    print(f"wrote {', '.join(KINDS)} and outer_state to {out}")


if __name__ == "__main__":
    main()
