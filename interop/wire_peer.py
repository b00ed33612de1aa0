"""The Python package's own side of the wire format, over a folder as repository; for wire.interop.test.ts.

usage: wire_peer.py publish REPO WORK | round REPO WORK | dumps FILE

publish  a bootstrap version and one delta of each of three nodes, through the package's hub client; in WORK the states
         behind them, the mean of the deltas and three outer steps
round    one outer round of the package's master over what lies in REPO; prints as JSON what it read and warned of
dumps    reads JSON and writes it again as the package writes its version record
"""

from __future__ import annotations

import json
import logging
import shutil
import sys
import warnings
from pathlib import Path

import torch
from speedtronic.distributed.hub import HubClient
from speedtronic.distributed.outer import MasterOuterLoop, NesterovOuterOptimizer
from speedtronic.distributed.tensors import (
    average_deltas,
    compute_pseudo_gradient,
    floating_state,
    load_delta,
    load_safetensors,
    parse_delta_path,
    save_safetensors,
)

LR, MOMENTUM = 0.7, 0.9


class FolderApi:
    """As much of the hub's client as the package uses, over a folder."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def list_repo_files(self, repo_id: str, repo_type: str) -> list[str]:
        return [str(path.relative_to(self.root)) for path in self.root.rglob("*") if path.is_file()]

    def upload_file(self, *, path_or_fileobj: str, path_in_repo: str, repo_id: str, repo_type: str) -> None:
        target = self.root / path_in_repo
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path_or_fileobj, target)

    def hf_hub_download(self, *, repo_id: str, filename: str, local_dir: Path, repo_type: str, token: None) -> str:
        target = Path(local_dir) / filename
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(self.root / filename, target)
        return str(target)


def open_hub(repo: Path, work: Path) -> HubClient:
    return HubClient("org/name", cache_dir=work / "hub-cache", api=FolderApi(repo))


def random_state() -> dict[str, torch.Tensor]:
    def values(*shape: int) -> torch.Tensor:
        return torch.randn(shape) * torch.exp(4 * torch.randn(shape))

    embedding = values(30, 16)
    return {
        "wte.weight": embedding,
        "lm_head.weight": embedding,
        "big": values(700, 801),
        "scalar": values(),
        "empty": values(0, 3),
        "é.weight": values(5),
        # Whole vectors: what is left over of one, torch rounds once more.
        "half": values(1024).clamp(-100, 100).to(torch.float16),
        "brain": values(1024).to(torch.bfloat16),
        "double": values(1003).to(torch.float64) / 3,
        "steps": torch.tensor([2**60]),
        "mask": torch.tensor([True, False]),
    }


def publish(repo: Path, work: Path) -> None:
    torch.manual_seed(20)
    hub = open_hub(repo, work)
    state = random_state()
    hub.publish_global(state, outer_step=0, metadata_extra={"algorithm": "dumb_diloco", "bootstrap": "true"})
    save_safetensors(state, work / "baseline.safetensors")
    deltas = []
    for i in range(3):
        current = {
            key: value + (0.1 * torch.randn(value.shape)).to(value.dtype) if value.is_floating_point() else value
            for key, value in state.items()
        }
        node = f"worker-{i}"
        save_safetensors(current, work / f"{node}.safetensors")
        delta = compute_pseudo_gradient(state, current)
        assert set(delta) == set(floating_state(state))
        hub.upload_delta(
            delta,
            node_id=node,
            local_step=500 + i,
            base_outer_step=-1 if i == 0 else 0,
            metadata={"algorithm": "dumb_diloco"},
        )
        deltas.append(delta)
    mean = average_deltas(deltas)
    save_safetensors(mean, work / "mean.safetensors")
    state = {key: value.clone() for key, value in state.items()}
    optimizer = NesterovOuterOptimizer(state, LR, MOMENTUM)
    for step in range(1, 4):
        optimizer.step(state, mean)
        save_safetensors(state, work / f"state_{step}.safetensors")
        save_safetensors(optimizer.state_dict(), work / f"momentum_{step}.safetensors")


def outer_round(repo: Path, work: Path) -> None:
    records: list[str] = []
    logger = logging.getLogger("wire-peer")
    logger.propagate = False
    logger.setLevel(logging.WARNING)
    handler = logging.Handler()
    handler.emit = lambda record: records.append(record.getMessage())  # type: ignore[method-assign]
    logger.addHandler(handler)
    hub = open_hub(repo, work)
    metadata = hub.global_metadata()
    assert metadata is not None
    state = load_safetensors(hub.download_global(work / "global.safetensors", metadata))
    loop = MasterOuterLoop(
        hub, state, node_state_dir=work / "master", outer_lr=LR, outer_momentum=MOMENTUM, logger=logger
    )
    loop.adopt_global_state(state, metadata.outer_step)
    paths = hub.delta_paths()
    headers = {path: load_delta(hub.download(path))[1] for path in paths}
    step = loop.sync_once()
    print(
        json.dumps(
            {
                "found": metadata.to_dict(),
                "parsed": {path: parse_delta_path(path) for path in paths},
                "headers": headers,
                "outer_step": step,
                "ledger": sorted(loop.processed_deltas),
                "warnings": records,
            }
        )
    )


def main() -> None:
    warnings.simplefilter("error")
    command, *paths = sys.argv[1:]
    if command == "dumps":
        value = json.loads(Path(paths[0]).read_text(encoding="utf-8"))
        Path(paths[0]).write_text(json.dumps(value, indent=2, sort_keys=True) + "\n", encoding="utf-8")
        return
    repo, work = map(Path, paths)
    repo.mkdir(parents=True, exist_ok=True)
    work.mkdir(parents=True, exist_ok=True)
    {"publish": publish, "round": outer_round}[command](repo, work)


if __name__ == "__main__":
    main()
