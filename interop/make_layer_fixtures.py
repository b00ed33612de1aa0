"""Writes what PyTorch's layers compute, for the tests of the layers here: results, gradients and running statistics.

usage: make_layer_fixtures.py [--out FILE]

Inputs and weights follow a formula that the tests repeat, so the file holds results only: value i of tensor number t
is 0.5 * sin(1.3 * i + 0.7 * t + 0.1), tensors counted in the order input, parameters by name in PyTorch's order.
The loss is the sum of the result times 0.5 * sin(0.9 * i + 0.2).
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import torch

ROOT = Path(__file__).resolve().parent.parent
DEFAULT_OUT = ROOT / "test" / "fixtures" / "layers.json"


def wave(shape: tuple[int, ...], step: float, phase: float) -> torch.Tensor:
    count = int(torch.tensor(shape).prod()) if shape else 1
    values = 0.5 * torch.sin(step * torch.arange(count, dtype=torch.float64) + phase)
    return values.reshape(shape)


def run(layer: torch.nn.Module, shape: tuple[int, ...], batches: int = 1) -> dict[str, object]:
    layer = layer.double()
    with torch.no_grad():
        for t, (_, parameter) in enumerate(layer.named_parameters(), start=1):
            parameter.copy_(wave(tuple(parameter.shape), 1.3, 0.7 * t + 0.1))
    for batch in range(batches):
        x = wave(shape, 1.3, 0.1 + batch).requires_grad_()
        result = layer(x)
        result = result[0] if isinstance(result, tuple) else result
    layer.zero_grad()
    loss = (result * wave(tuple(result.shape), 0.9, 0.2)).sum()
    loss.backward()
    found: dict[str, object] = {
        "shape": list(result.shape),
        "result": listed(result),
        "gradients": {"x": listed(x.grad)}
        | {name: listed(parameter.grad) for name, parameter in layer.named_parameters()},
    }
    buffers = dict(layer.named_buffers())
    if buffers:
        found["buffers"] = {name: listed(value) for name, value in buffers.items()}
        layer.eval()
        found["evaluated"] = listed(layer(wave(shape, 1.3, 0.1)))
    return found


def listed(tensor: torch.Tensor) -> list[float]:
    return [float(f"{value:.9g}") for value in tensor.detach().reshape(-1).tolist()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=DEFAULT_OUT)
    out = parser.parse_args().out
    nn = torch.nn
    cases = {
        "conv2d": run(nn.Conv2d(4, 6, (3, 2), stride=(2, 1), padding=1, groups=2), (2, 4, 5, 4)),
        "conv1d": run(nn.Conv1d(2, 3, 3, stride=2, padding=2, dilation=2), (2, 2, 7)),
        "max_pool": run(nn.MaxPool2d(3, stride=2, padding=1), (1, 2, 5, 6)),
        "avg_pool": run(nn.AvgPool2d((2, 3), stride=(1, 2), padding=(1, 0)), (1, 2, 4, 5)),
        "batch_norm": run(nn.BatchNorm2d(3), (2, 3, 2, 3), batches=3),
        "batch_norm_cumulative": run(nn.BatchNorm1d(3, momentum=None), (5, 3), batches=3),
        "lstm": run(nn.LSTM(3, 4), (5, 2, 3)),
        "lstm_deep": run(nn.LSTM(3, 2, num_layers=2, bidirectional=True), (4, 2, 3)),
        "gru": run(nn.GRU(3, 4), (5, 2, 3)),
        "gru_deep": run(nn.GRU(2, 3, num_layers=2, bidirectional=True), (4, 1, 2)),
    }
    out.write_text(json.dumps({"torch": torch.__version__.split("+")[0], "cases": cases}, indent=1) + "\n")


if __name__ == "__main__":
    main()
