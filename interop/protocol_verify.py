"""Computes the rounds of a run again, from what its repository holds; for protocol.interop.test.ts.

usage: protocol_verify.py CASE, a JSON file: repo; config (of a node; names the model, and for a Python master's rounds
lr and momentum); text (held out); record (what a Python master left after each round, or null); policy (what our
master's rounds follow: merge, outer_lr, outer_momentum, warmup_rounds, staleness_discount, clip_factor).

Prints one JSON line: every version in the order of publication, with the largest difference between what was published
and mean and outer step in float64 over the deltas, and the loss of its weights on the text. The repository's endpoint
and token come from the environment.
"""

from __future__ import annotations

import hashlib
import json
import math
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from huggingface_hub import HfApi
from safetensors import safe_open
from safetensors.numpy import load_file
from speedtronic.config import SpeedtronicConfig
from speedtronic.distributed.outer import NesterovOuterOptimizer
from speedtronic.distributed.tensors import average_deltas
from speedtronic.registry import build_model

RECORD = "global/step_count.json"
State = dict[str, np.ndarray]

case = json.loads(Path(sys.argv[1]).read_text())
config = SpeedtronicConfig.load(case["config"])
repo, policy = case["repo"], case["policy"]
api = HfApi()
work = Path(tempfile.mkdtemp(dir=Path(sys.argv[1]).parent))


def fetch(path: str, revision: str) -> Path:
    return Path(api.hf_hub_download(repo, path, revision=revision, local_dir=work / revision))


def published() -> list[tuple[str, dict[str, Any]]]:
    """Every version record with the commit that brought it, oldest first."""
    found, last = [], None
    for commit in reversed(api.list_repo_commits(repo)):
        (info,) = api.get_paths_info(repo, [RECORD], revision=commit.commit_id) or (None,)
        if info is None or info.blob_id == last:
            continue
        last = info.blob_id
        found.append((commit.commit_id, json.loads(fetch(RECORD, commit.commit_id).read_text())))
    return found


def wide(state: State) -> State:
    return {key: value.astype(np.float64) for key, value in state.items()}


def zeros(state: State) -> State:
    return {key: np.zeros_like(value, dtype=np.float64) for key, value in state.items()}


def difference(a: State, b: State) -> float:
    assert set(a) == set(b), set(a) ^ set(b)
    return max(float(np.max(np.abs(a[key].astype(np.float64) - b[key]), initial=0)) for key in a)


class Delta:
    def __init__(self, path: str, revision: str) -> None:
        self.path, self.node = path, path.split("/")[1]
        file = fetch(path, revision)
        self.sha256 = hashlib.sha256(file.read_bytes()).hexdigest()
        self.values = load_file(file)
        with safe_open(file, "np") as opened:
            header = opened.metadata()
        self.base = int(header["base_outer_step"])
        self.tokens = int(header["speedtronic.tokens"]) if "speedtronic.tokens" in header else None
        self.norm = math.sqrt(sum(float(np.sum(v.astype(np.float64) ** 2)) for v in self.values.values()))


class Policy:
    """Weights of a round, from what the documentation says: by tokens per node, age, and length."""

    def __init__(self) -> None:
        self.norms: list[float] = []

    def momentum(self, version: int) -> float:
        rounds = policy["warmup_rounds"]
        return policy["outer_momentum"] * (min(1, (version - 1) / rounds) if rounds else 1)

    def weights(self, deltas: list[Delta], version: int) -> list[float]:
        if policy["merge"] == "python":
            return [1 / len(deltas)] * len(deltas)
        known = [delta.tokens for delta in deltas if delta.tokens is not None]
        usual = statistics.median(known) if known else 1
        work_of: dict[str, float] = {}
        for delta in deltas:
            if known:
                work_of[delta.node] = work_of.get(delta.node, 0) + (delta.tokens or usual)
            else:
                work_of[delta.node] = 1
        limit = policy["clip_factor"] * statistics.median_low(self.norms + [delta.norm for delta in deltas])
        self.norms = (self.norms + [min(delta.norm, limit) for delta in deltas])[-64:]
        return [
            work_of[delta.node]
            / sum(work_of.values())
            * policy["staleness_discount"] ** (version - 1 - delta.base)
            * min(1, limit / delta.norm)
            for delta in deltas
        ]


def package_step(state: State, deltas: list[Delta], buffers: State, lr: float, mu: float) -> State:
    """The package's own functions on the same inputs, in its own precision."""
    torch_of = lambda values: {key: torch.from_numpy(value.copy()) for key, value in values.items()}
    result = torch_of(state)
    optimizer = NesterovOuterOptimizer(result, lr, mu)
    optimizer.load_state_dict(torch_of(buffers))
    optimizer.step(result, average_deltas([torch_of(delta.values) for delta in deltas]))
    return {key: value.numpy() for key, value in result.items()}


def python_round(version: int) -> tuple[list[str], State]:
    """Paths that a Python master's round added, in its order, and its momentum after it."""
    record = Path(case["record"])
    identities = lambda step: {tuple(item) for item in json.loads((record / f"outer-{step}.json").read_text())["processed_deltas"]}
    added = identities(version) - (identities(version - 1) if version > 1 else set())
    kept = torch.load(record / f"outer-{version}.pt", weights_only=False)
    assert kept["outer_step"] == version
    paths = [f"nodes/{node}/delta_{step}.safetensors" for node, step, _ in sorted(added)]
    return paths, {key: value.numpy() for key, value in kept["momentum"].items()}


model = build_model(config.model)
ids = [byte % config.model.vocab_size for byte in Path(case["text"]).read_bytes()]
width = config.model.max_seq_len
blocks = torch.tensor([ids[i : i + width + 1] for i in range(0, len(ids) - width - 1, width)])


def loss_of(state: State) -> float:
    model.load_state_dict({key: torch.from_numpy(value) for key, value in state.items()}, strict=True)
    with torch.no_grad():
        return float(model.eval()(blocks[:, :-1], labels=blocks[:, 1:])["loss"])


def main() -> dict[str, Any]:
    versions: list[dict[str, Any]] = []
    applied: dict[tuple[str, str], int] = {}
    parent: State = {}
    momentum: State = {}
    policies: dict[str, Policy] = {}
    for revision, record in published():
        version, owner = record["outer_step"], record.get("master_id")
        state = load_file(fetch(record["model_file"], revision))
        latest = load_file(fetch("global/latest.safetensors", revision))
        entry: dict[str, Any] = {"version": version, "master": owner, "latest_differs": difference(latest, state)}
        versions.append(entry)
        entry["loss"] = loss_of(state)
        if versions[:-1] and versions[-2]["version"] == version:
            # Nothing but the owner may change.
            entry["claim_differs"] = difference(state, parent)
            momentum = zeros(state) if "momentum_file" not in record else momentum
            continue
        if version == 0:
            parent, momentum = state, zeros(state)
            continue
        rules = policies.setdefault(str(owner), Policy())
        if owner is None:
            paths, kept_momentum = python_round(version)
            lr, mu = config.distributed.outer_lr, config.distributed.outer_momentum
            deltas = [Delta(path, revision) for path in paths]
            weights = [1 / len(deltas)] * len(deltas)
        else:
            history = json.loads(fetch("global/history.json", revision).read_text())
            (said,) = [item for item in history["versions"] if item["outer_step"] == version]
            kept_momentum = load_file(fetch(record["momentum_file"], revision))
            lr, mu = policy["outer_lr"], rules.momentum(version)
            assert math.isclose(said["lr"], lr) and math.isclose(said["mu"], mu, abs_tol=1e-12), said
            deltas = [Delta(item["path"], revision) for item in said["deltas"]]
            assert [delta.sha256 for delta in deltas] == [item["sha256"] for item in said["deltas"]]
            weights = rules.weights(deltas, version)
            entry["weights_differ"] = max(abs(a - b["weight"]) for a, b in zip(weights, said["deltas"]))
        for delta in deltas:
            key = (delta.path, delta.sha256)
            applied[key] = applied.get(key, 0) + 1
        mean = {key: sum(w * d.values[key].astype(np.float64) for w, d in zip(weights, deltas)) for key in state}
        entry["package_differs"] = None
        if owner is None or policy["merge"] == "python":
            before = {key: value.astype(np.float32) for key, value in momentum.items()}
            entry["package_differs"] = difference(package_step(parent, deltas, before, lr, mu), state)
        buffers = {key: mu * momentum[key].astype(np.float64) + mean[key] for key in state}
        expected = {key: wide(parent)[key] - lr * (mean[key] + mu * buffers[key]) for key in state}
        entry["differs"] = difference(state, expected)
        entry["momentum_differs"] = difference(kept_momentum, buffers)
        entry["lr"], entry["mu"] = lr, mu
        entry["deltas"] = [
            {"path": d.path, "node": d.node, "sha256": d.sha256, "base": d.base, "weight": w, "norm": d.norm}
            for d, w in zip(deltas, weights)
        ]
        parent, momentum = state, kept_momentum
    return {"versions": versions, "twice": [path for (path, _), times in applied.items() if times > 1]}


print(json.dumps(main()))
