"""Times one full training step (forward, backward, AdamW) of the same architecture in tuned plain PyTorch.

usage: torch_step.py --variant eager|sdpa|compile [--size S|M|demo] [--threads N] [--steps N] [--adamw loop|foreach|fused]

The peer of the step benchmark: float32, no gradient clipping, weights and tokens from the same integer hash as the
golden curve, so that both engines can start from equal numbers. It prints one JSON line. Unlike torch_reference.py it
is written for speed: one projection for q, k and v, an additive mask made once. `compile` uses SDPA inside
torch.compile. An allocator such as tcmalloc is the caller's choice, through LD_PRELOAD.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import re
import resource
import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from torch_reference import (
    NORM_EPS,
    ModelConfig,
    ReferenceTransformer,
    hashed_normal,
    mix32,
    rope_table,
    rotate,
    set_weights,
)

# name -> (batch, model); d_ff is the configured value, two thirds of it is the inner width.
SIZES = {
    "S": (8, dict(vocab_size=4096, d_model=256, n_layer=4, n_head=4, block_size=256, d_ff=1056)),
    "M": (4, dict(vocab_size=4096, d_model=512, n_layer=6, n_head=8, block_size=512, d_ff=2112)),
    "demo": (16, dict(vocab_size=256, d_model=192, n_layer=4, n_head=6, block_size=128, d_ff=768)),
}


def rms_norm(x: Tensor, weight: Tensor) -> Tensor:
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + NORM_EPS) * weight


class FastBlock(nn.Module):
    """One decoder block on weights taken from a reference block; multi-head only (n_kv_head = n_head)."""

    def __init__(self, c: ModelConfig, block: nn.Module, use_sdpa: bool) -> None:
        super().__init__()
        self.heads, self.head_width, self.use_sdpa = c.n_head, c.head_width, use_sdpa
        attn, mlp = block.attn, block.mlp
        self.ln1, self.ln2 = block.ln1.weight, block.ln2.weight
        self.qkv = nn.Parameter(torch.cat([attn.q_proj.weight, attn.k_proj.weight, attn.v_proj.weight]).detach())
        self.out = attn.out_proj.weight
        self.gate, self.up, self.down = mlp.gate_proj.weight, mlp.up_proj.weight, mlp.down_proj.weight

    def forward(self, x_BTD: Tensor, cos: Tensor, sin: Tensor, mask_TT: Tensor) -> Tensor:
        B, T, D = x_BTD.shape
        qkv = F.linear(rms_norm(x_BTD, self.ln1), self.qkv).view(B, T, 3, self.heads, self.head_width)
        q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        if self.use_sdpa:
            mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            scores = torch.matmul(q, k.transpose(-1, -2)) * (1 / math.sqrt(self.head_width)) + mask_TT
            mixed = torch.matmul(torch.softmax(scores, dim=-1), v)
        x_BTD = x_BTD + F.linear(mixed.transpose(1, 2).reshape(B, T, D), self.out)
        h = rms_norm(x_BTD, self.ln2)
        return x_BTD + F.linear(F.silu(F.linear(h, self.gate)) * F.linear(h, self.up), self.down)


class FastModel(nn.Module):
    def __init__(self, c: ModelConfig, use_sdpa: bool) -> None:
        super().__init__()
        reference = ReferenceTransformer(c)
        set_weights(reference, hashed_normal)
        self.embedding = reference.transformer["wte"].weight  # also the output head
        self.blocks = nn.ModuleList(FastBlock(c, b, use_sdpa) for b in reference.transformer["h"])
        self.ln_f = reference.transformer["ln_f"].weight
        cos, sin = rope_table(c, c.block_size, torch.float32)
        self.register_buffer("cos", cos)
        self.register_buffer("sin", sin)
        self.register_buffer("mask", torch.full((c.block_size, c.block_size), float("-inf")).triu(1))

    def forward(self, input_ids_BT: Tensor, labels_BT: Tensor) -> Tensor:
        x = F.embedding(input_ids_BT, self.embedding)
        for block in self.blocks:
            x = block(x, self.cos, self.sin, self.mask)
        logits = F.linear(rms_norm(x, self.ln_f), self.embedding)
        return F.cross_entropy(logits.view(-1, logits.shape[-1]), labels_BT.view(-1))


def hashed_tokens(batch: int, c: ModelConfig) -> tuple[Tensor, Tensor]:
    """Row b is a run of T + 1 tokens, mix32(b * (T + 1) + t) mod V; labels are the next tokens."""
    width = c.block_size + 1
    rows = (mix32(np.arange(batch * width)) % np.uint32(c.vocab_size)).astype(np.int64).reshape(batch, width)
    tokens = torch.from_numpy(rows)
    return tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()


def make_adamw(model: nn.Module, implementation: str) -> torch.optim.AdamW:
    kind = {"loop": {"foreach": False, "fused": False}, "foreach": {"foreach": True}, "fused": {"fused": True}}
    return torch.optim.AdamW(
        model.parameters(), lr=1e-3, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1, **kind[implementation]
    )


def processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def blas() -> str:
    """The library named in the build settings, with its version line where there is one."""
    text = torch.__config__.show()
    match = re.search(r"BLAS_INFO=(\w+)", text)
    name = match.group(1) if match else "unknown"
    version = next((line.strip(" -") for line in text.splitlines() if "Math Kernel Library" in line or "OpenBLAS" in line), "")
    return f"{name} ({version})" if version else name


def peak_rss_mb() -> float:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 2**20 if sys.platform == "darwin" else peak / 2**10


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--variant", choices=["eager", "sdpa", "compile"], required=True)
    parser.add_argument("--size", choices=sorted(SIZES), default="S")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--steps", type=int, default=15, help="timed steps")
    parser.add_argument("--warmup", type=int, default=3, help="untimed steps before them")
    parser.add_argument("--adamw", choices=["loop", "foreach", "fused"], default="fused")
    for name in ("vocab_size", "d_model", "n_layer", "n_head", "block_size", "d_ff", "batch"):
        parser.add_argument("--" + name.replace("_", "-"), type=int, help=f"replaces the size's {name}")
    args = parser.parse_args()
    if args.steps < 1 or args.warmup < 0 or args.threads < 1:
        parser.error("--steps and --threads must be at least 1, --warmup at least 0")

    torch.set_num_threads(args.threads)
    import_rss_mb = peak_rss_mb()
    batch, shape = SIZES[args.size]
    batch = args.batch or batch
    shape = {name: getattr(args, name) or value for name, value in shape.items()}
    c = ModelConfig(**shape, n_kv_head=shape["n_head"])
    model = FastModel(c, use_sdpa=args.variant != "eager")
    input_ids, labels = hashed_tokens(batch, c)
    optimizer = make_adamw(model, args.adamw)
    forward = torch.compile(model) if args.variant == "compile" else model

    def step() -> float:
        optimizer.zero_grad(set_to_none=True)
        loss = forward(input_ids, labels)
        loss.backward()
        optimizer.step()
        return loss.item()

    started = time.perf_counter()
    losses = [step() for _ in range(args.warmup)]
    warmup_s = time.perf_counter() - started
    times_ms = []
    for _ in range(args.steps):
        start = time.perf_counter()
        losses.append(step())
        times_ms.append((time.perf_counter() - start) * 1e3)
    med_ms = statistics.median(times_ms)
    tokens = batch * c.block_size
    print(
        json.dumps(
            {
                "engine": "torch",
                "variant": args.variant,
                "adamw": args.adamw,
                "size": args.size,
                "model": {**shape, "mlp_width": c.mlp_width, "batch": batch},
                "parameters": sum(p.numel() for p in model.parameters()),
                "dtype": "float32",
                "threads": torch.get_num_threads(),
                "steps": args.steps,
                "med_ms": round(med_ms, 2),
                "min_ms": round(min(times_ms), 2),
                "max_ms": round(max(times_ms), 2),
                "tok_s": round(tokens / med_ms * 1e3, 1),
                "rss_mb": round(peak_rss_mb(), 1),
                "import_rss_mb": round(import_rss_mb, 1),
                "warmup_s": round(warmup_s, 2),
                "first_loss": losses[0],
                "last_loss": losses[-1],
                "torch": torch.__version__,
                "python": platform.python_version(),
                "cpu_capability": torch.backends.cpu.get_cpu_capability(),
                "processor": processor(),
                "blas": blas(),
                "preload": os.environ.get("LD_PRELOAD", ""),
            }
        )
    )


if __name__ == "__main__":
    main()
