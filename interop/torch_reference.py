"""The reference transformer and its training loop in plain PyTorch: the numeric peer of this project.

Same state-dict keys, shapes and mathematics as the TypeScript model, written with the most literal
operations so that each line can be checked against the formulas. Not tuned for speed (see bench/) and
not the Speedtronic package (make_golden_logits.py compares with that one).

Shapes: B rows, T positions, D model width, H query heads, K key/value heads, N head width, M MLP width.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Iterator

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

NORM_EPS = 1e-5
IGNORED_LABEL = -100


@dataclass(frozen=True)
class ModelConfig:
    vocab_size: int
    block_size: int
    n_layer: int
    n_head: int
    n_kv_head: int
    d_model: int
    d_ff: int
    tie_weights: bool = True
    rope_base: float = 10000.0

    def __post_init__(self) -> None:
        if self.d_model % self.n_head or (self.d_model // self.n_head) % 2:
            raise ValueError(f"d_model={self.d_model} must split into n_head={self.n_head} even-sized heads")
        if self.n_head % self.n_kv_head:
            raise ValueError(f"n_kv_head={self.n_kv_head} must divide n_head={self.n_head}")

    @property
    def head_width(self) -> int:
        return self.d_model // self.n_head

    @property
    def mlp_width(self) -> int:
        """Two thirds of d_ff, rounded up to a multiple of the number of heads."""
        return math.ceil(int(self.d_ff * (2 / 3)) / self.n_head) * self.n_head

    def as_dict(self) -> dict:
        return asdict(self)


class RMSNorm(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + NORM_EPS) * self.weight


class Attention(nn.Module):
    def __init__(self, c: ModelConfig) -> None:
        super().__init__()
        self.c = c
        self.q_proj = nn.Linear(c.d_model, c.n_head * c.head_width, bias=False)
        self.k_proj = nn.Linear(c.d_model, c.n_kv_head * c.head_width, bias=False)
        self.v_proj = nn.Linear(c.d_model, c.n_kv_head * c.head_width, bias=False)
        self.out_proj = nn.Linear(c.d_model, c.d_model, bias=False)

    def forward(self, x_BTD: Tensor, cos_TN: Tensor, sin_TN: Tensor, visible_BTT: Tensor) -> Tensor:
        c = self.c
        B, T, _ = x_BTD.shape
        q_BHTN = rotate(split_heads(self.q_proj(x_BTD), c.n_head), cos_TN, sin_TN)
        k_BKTN = rotate(split_heads(self.k_proj(x_BTD), c.n_kv_head), cos_TN, sin_TN)
        v_BKTN = split_heads(self.v_proj(x_BTD), c.n_kv_head)
        group = c.n_head // c.n_kv_head  # query head h reads key/value head floor(h / group)
        k_BHTN = k_BKTN.repeat_interleave(group, dim=1)
        v_BHTN = v_BKTN.repeat_interleave(group, dim=1)
        scores_BHTT = q_BHTN @ k_BHTN.transpose(-1, -2) / math.sqrt(c.head_width)
        scores_BHTT = scores_BHTT.masked_fill(~visible_BTT[:, None], float("-inf"))
        mixed_BHTN = torch.softmax(scores_BHTT, dim=-1) @ v_BHTN
        return self.out_proj(mixed_BHTN.transpose(1, 2).reshape(B, T, c.d_model))


class SwiGLU(nn.Module):
    def __init__(self, c: ModelConfig) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(c.d_model, c.mlp_width, bias=False)
        self.up_proj = nn.Linear(c.d_model, c.mlp_width, bias=False)
        self.down_proj = nn.Linear(c.mlp_width, c.d_model, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Block(nn.Module):
    def __init__(self, c: ModelConfig) -> None:
        super().__init__()
        self.ln1 = RMSNorm(c.d_model)
        self.attn = Attention(c)
        self.ln2 = RMSNorm(c.d_model)
        self.mlp = SwiGLU(c)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, visible: Tensor) -> Tensor:
        x = x + self.attn(self.ln1(x), cos, sin, visible)
        return x + self.mlp(self.ln2(x))


class ReferenceTransformer(nn.Module):
    def __init__(self, c: ModelConfig) -> None:
        super().__init__()
        self.c = c
        self.transformer = nn.ModuleDict(
            {
                "wte": nn.Embedding(c.vocab_size, c.d_model),
                "h": nn.ModuleList(Block(c) for _ in range(c.n_layer)),
                "ln_f": RMSNorm(c.d_model),
            }
        )
        self.lm_head = nn.Linear(c.d_model, c.vocab_size, bias=False)
        if c.tie_weights:
            self.lm_head.weight = self.transformer["wte"].weight

    def forward(self, input_ids_BT: Tensor, attention_mask_BT: Tensor | None = None) -> Tensor:
        """Logits [B, T, V]. The mask marks real keys; it hides keys, never queries."""
        B, T = input_ids_BT.shape
        if T > self.c.block_size:
            raise ValueError(f"{T} positions do not fit block_size={self.c.block_size}")
        x = self.transformer["wte"](input_ids_BT)
        cos, sin = rope_table(self.c, T, x.dtype)
        visible_BTT = torch.ones(T, T, dtype=torch.bool).tril().expand(B, T, T)
        if attention_mask_BT is not None:
            visible_BTT = visible_BTT & attention_mask_BT.bool()[:, None, :]
        for block in self.transformer["h"]:
            x = block(x, cos, sin, visible_BTT)
        return self.lm_head(self.transformer["ln_f"](x))


def split_heads(x_BTF: Tensor, heads: int) -> Tensor:
    """[B, T, heads * N] -> [B, heads, T, N]; head h owns features h * N .. (h + 1) * N - 1."""
    B, T, width = x_BTF.shape
    return x_BTF.view(B, T, heads, width // heads).transpose(1, 2)


def rope_table(c: ModelConfig, length: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """cos and sin [T, N/2] of t * base^(-2j/N), computed in the working precision."""
    exponent = torch.arange(0, c.head_width, 2, dtype=dtype) / c.head_width
    inverse_frequency = 1.0 / (c.rope_base**exponent)
    angle = torch.outer(torch.arange(length, dtype=dtype), inverse_frequency)
    return angle.cos(), angle.sin()


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotary embedding over halves: feature j pairs with feature j + N/2."""
    a, b = x.chunk(2, dim=-1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1)


def summed_loss(logits_BTV: Tensor, labels: Tensor) -> Tensor:
    """Sum of cross-entropy over labels other than -100; labels [B, T] are aligned, [B, T-1] drop the last logit."""
    logits_BTV = logits_BTV[:, : labels.shape[1]]
    return F.cross_entropy(
        logits_BTV.reshape(-1, logits_BTV.shape[-1]),
        labels.reshape(-1),
        ignore_index=IGNORED_LABEL,
        reduction="sum",
    )


def valid_targets(labels: Tensor) -> int:
    return int((labels != IGNORED_LABEL).sum())


def named_tensors(model: ReferenceTransformer) -> list[tuple[str, nn.Parameter]]:
    """Each tensor once in state-dict order: wte, per block ln1 q k v out ln2 gate up down, ln_f, lm_head if untied."""
    seen: set[int] = set()
    result = []
    parameters = dict(model.named_parameters(remove_duplicate=False))
    for name in model.state_dict():
        parameter = parameters[name]
        if id(parameter) not in seen:
            seen.add(id(parameter))
            result.append((name, parameter))
    return result


def set_weights(model: ReferenceTransformer, formula) -> None:
    """Fills tensor number t (order of named_tensors) with formula(t, shape), float64 rounded to float32."""
    with torch.no_grad():
        for t, (_, parameter) in enumerate(named_tensors(model)):
            values = np.asarray(formula(t, tuple(parameter.shape)), dtype=np.float64).astype(np.float32)
            parameter.copy_(torch.from_numpy(values.reshape(tuple(parameter.shape))))


# --- Initial weights without a random stream -----------------------------------------------------------

HASH_FORMULA = (
    "32-bit unsigned arithmetic, * is Math.imul: "
    "mix(x): x ^= x >>> 16; x = x * 0x85ebca6b; x ^= x >>> 13; x = x * 0xc2b2ae35; x ^= x >>> 16. "
    "Tensor number t, element i (row-major): s = mix(t + 1); a = mix(mix(2i) ^ s); b = mix(mix(2i + 1) ^ s); "
    "in float64: u1 = (a + 0.5) / 2^32; u2 = (b + 0.5) / 2^32; "
    "w = float32(0.02 * sqrt(-2 * ln(u1)) * cos(2 * pi * u2)). Vectors (norm weights) are ones."
)


def mix32(x: np.ndarray) -> np.ndarray:
    """MurmurHash3's 32-bit finaliser, a bijection on uint32; exact with numpy uint32 as with Math.imul."""
    x = x.astype(np.uint32)
    x ^= x >> np.uint32(16)
    x *= np.uint32(0x85EBCA6B)
    x ^= x >> np.uint32(13)
    x *= np.uint32(0xC2B2AE35)
    x ^= x >> np.uint32(16)
    return x


def hashed_normal(t: int, shape: tuple[int, ...], std: float = 0.02) -> np.ndarray:
    """Initial weights of tensor number t in float64, see HASH_FORMULA; ones for vectors."""
    if len(shape) == 1:
        return np.ones(shape)
    i2 = np.arange(math.prod(shape), dtype=np.uint32) * np.uint32(2)
    seed = mix32(np.array([t + 1]))
    a = mix32(mix32(i2) ^ seed).astype(np.float64)
    b = mix32(mix32(i2 + np.uint32(1)) ^ seed).astype(np.float64)
    u1 = (a + 0.5) / 2.0**32
    u2 = (b + 0.5) / 2.0**32
    return (std * np.sqrt(-2.0 * np.log(u1)) * np.cos(2.0 * np.pi * u2)).reshape(shape)


# --- Training -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TrainConfig:
    lr: float
    beta1: float
    beta2: float
    eps: float
    weight_decay: float
    grad_clip: float
    warmup_steps: int
    schedule_steps: int
    min_lr_ratio: float

    def as_dict(self) -> dict:
        return asdict(self)


def lr_factor(c: TrainConfig, completed_updates: int) -> float:
    """Linear warm-up, then a cosine to min_lr_ratio; the argument is the number of updates already done."""
    s, warmup, total = completed_updates, max(0, c.warmup_steps), max(1, c.schedule_steps)
    if s < warmup:
        return max(1e-8, (s + 1) / warmup)
    q = min(1.0, max(0.0, (s - warmup) / max(1, total - warmup)))
    return c.min_lr_ratio + (1 - c.min_lr_ratio) * (1 + math.cos(math.pi * q)) / 2


def make_optimizer(model: ReferenceTransformer, c: TrainConfig) -> torch.optim.AdamW:
    """AdamW with two groups: matrices decay, one-dimensional tensors do not."""
    parameters = [p for _, p in named_tensors(model)]
    groups = [
        {"params": [p for p in parameters if p.dim() >= 2], "weight_decay": c.weight_decay},
        {"params": [p for p in parameters if p.dim() < 2], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=c.lr, betas=(c.beta1, c.beta2), eps=c.eps)


@dataclass(frozen=True)
class StepRecord:
    loss: float
    """Mean over the valid target tokens of the whole update."""
    grad_norm: float
    """Global L2 norm before clipping."""
    lr: float
    """The rate that produced this update."""


Batch = tuple[Tensor, Tensor]


def train(model: ReferenceTransformer, c: TrainConfig, updates: Iterator[list[Batch]]) -> Iterator[StepRecord]:
    """One record per update; an update is a list of micro batches (input ids, labels), weighted by valid tokens."""
    optimizer = make_optimizer(model, c)
    for step, micro_batches in enumerate(updates):
        lr = c.lr * lr_factor(c, step)
        for group in optimizer.param_groups:
            group["lr"] = lr
        tokens = sum(valid_targets(labels) for _, labels in micro_batches)
        optimizer.zero_grad(set_to_none=True)
        total = 0.0
        for input_ids, labels in micro_batches:
            loss_sum = summed_loss(model(input_ids), labels)
            (loss_sum / tokens).backward()
            total += loss_sum.item()
        # PyTorch multiplies by min(1, clip / (norm + 1e-6)).
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), c.grad_clip)
        optimizer.step()
        yield StepRecord(loss=total / tokens, grad_norm=norm.item(), lr=lr)
