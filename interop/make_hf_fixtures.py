"""Writes small random models of transformers in the layout of save_pretrained, each with its logits.

usage: make_hf_fixtures.py [--out DIR] [--set committed|all]

`committed` are the folders under test/fixtures/huggingface, which the ordinary tests read; `all` adds those that
only the interop tests make, and two folders without weights: `defaults` with each type's config.json when nothing
is set, in full, and `refused` with those of models that are not supported. Every model gets expected.json: input ids [B, T], an attention mask or null, and the
float32 logits [B, T, V] at the positions that the mask shows. Nothing is downloaded.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TRANSFORMERS_VERBOSITY"] = "error"

import torch
import transformers
from transformers import (
    GPT2Config,
    GPT2LMHeadModel,
    GPT2Model,
    Gemma2Config,
    GPTNeoXConfig,
    LlamaConfig,
    LlamaForCausalLM,
    LlamaModel,
    MistralConfig,
    MistralForCausalLM,
    MixtralConfig,
    PreTrainedConfig,
    PreTrainedModel,
    Qwen2Config,
    Qwen2ForCausalLM,
)

ROOT = Path(__file__).resolve().parent.parent
DEFAULT_OUT = ROOT / "test" / "fixtures" / "huggingface"
POSITIONS = 11


@dataclass(frozen=True)
class Case:
    name: str
    build: Callable[[], PreTrainedModel]
    is_committed: bool = False
    dtype: torch.dtype = torch.float32
    max_shard_size: str | None = None
    has_mask: bool = False
    # PyTorch files to write the weights to, instead of what save_pretrained does.
    torch_files: int = 0
    # The trunk alone is saved; its head is tied, so the logits are those of the whole model.
    trunk_only: bool = False


SMALL = {
    "vocab_size": 61,
    "hidden_size": 24,
    "intermediate_size": 40,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 32,
}
SMALL_GPT2 = {"vocab_size": 61, "n_positions": 32, "n_embd": 24, "n_layer": 2, "n_head": 4}
LLAMA3_ROPE = {
    "rope_type": "llama3",
    "rope_theta": 500000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 16,
}

CASES = [
    Case(
        "llama",
        lambda: LlamaForCausalLM(
            LlamaConfig(**SMALL, head_dim=10, rms_norm_eps=1e-6, rope_parameters=LLAMA3_ROPE, tie_word_embeddings=False)
        ),
        is_committed=True,
        has_mask=True,
    ),
    Case(
        "qwen2",
        lambda: Qwen2ForCausalLM(
            Qwen2Config(
                **SMALL, rope_parameters={"rope_type": "default", "rope_theta": 1e6}, tie_word_embeddings=True
            )
        ),
        is_committed=True,
        dtype=torch.bfloat16,
    ),
    Case(
        "gpt2-sharded",
        lambda: GPT2LMHeadModel(GPT2Config(**SMALL_GPT2)),
        is_committed=True,
        max_shard_size="30KB",
    ),
    Case(
        "llama-tied-biased",
        lambda: LlamaForCausalLM(
            LlamaConfig(**SMALL, attention_bias=True, mlp_bias=True, tie_word_embeddings=True, rms_norm_eps=1e-5)
        ),
    ),
    Case(
        "llama-linear-sharded",
        lambda: LlamaForCausalLM(
            LlamaConfig(**SMALL, rope_parameters={"rope_type": "linear", "factor": 4.0, "rope_theta": 10000.0})
        ),
        max_shard_size="20KB",
    ),
    Case(
        "llama-trunk",
        lambda: LlamaForCausalLM(LlamaConfig(**SMALL, tie_word_embeddings=True)),
        trunk_only=True,
    ),
    Case(
        "llama-torch-file",
        lambda: LlamaForCausalLM(LlamaConfig(**SMALL, tie_word_embeddings=False)),
        dtype=torch.float16,
        torch_files=1,
    ),
    Case(
        "llama-torch-shards",
        lambda: LlamaForCausalLM(LlamaConfig(**SMALL, tie_word_embeddings=True)),
        dtype=torch.bfloat16,
        torch_files=2,
    ),
    Case(
        "mistral",
        lambda: MistralForCausalLM(MistralConfig(**SMALL, head_dim=16, sliding_window=None)),
    ),
    Case(
        "mistral-wide-window",
        lambda: MistralForCausalLM(MistralConfig(**SMALL, sliding_window=32)),
    ),
    Case(
        "qwen2-untied",
        lambda: Qwen2ForCausalLM(Qwen2Config(**SMALL, tie_word_embeddings=False)),
        dtype=torch.float16,
    ),
    Case("gpt2", lambda: GPT2LMHeadModel(GPT2Config(**SMALL_GPT2)), has_mask=True),
    Case(
        "gpt2-untied-gelu",
        lambda: GPT2LMHeadModel(
            GPT2Config(
                **SMALL_GPT2,
                n_inner=50,
                activation_function="gelu",
                layer_norm_epsilon=1e-6,
                tie_word_embeddings=False,
            )
        ),
    ),
    Case(
        "gpt2-trunk",
        lambda: GPT2LMHeadModel(GPT2Config(**SMALL_GPT2, activation_function="relu")),
        trunk_only=True,
    ),
]

REFUSED: dict[str, PreTrainedConfig] = {
    "mixtral": MixtralConfig(),
    "gemma2": Gemma2Config(),
    "gpt-neox": GPTNeoXConfig(),
    "mistral-window": MistralConfig(sliding_window=4096, max_position_embeddings=8192),
    "qwen2-window": Qwen2Config(use_sliding_window=True, sliding_window=4096, max_window_layers=4),
    "llama-yarn": LlamaConfig(rope_parameters={"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0}),
    "llama-quantised": LlamaConfig(quantization_config={"quant_method": "gptq", "bits": 4}),
    "gpt2-by-layer": GPT2Config(scale_attn_by_inverse_layer_idx=True, activation_function="silu"),
}


def randomise(model: PreTrainedModel, seed: int) -> None:
    """No value stays at a neutral start: a bias or norm that is mixed up must show."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in sorted(model.named_parameters()):
            noise = torch.randn(parameter.shape, generator=generator)
            is_norm = parameter.dim() == 1 and name.endswith(".weight")
            parameter.copy_(1 + 0.2 * noise if is_norm else 0.2 * noise)


def save(case: Case, model: PreTrainedModel, folder: Path) -> None:
    stored = model.to(case.dtype)
    if case.trunk_only:
        trunk = stored.model if isinstance(stored, LlamaForCausalLM) else stored.transformer
        assert isinstance(trunk, (LlamaModel, GPT2Model))
        trunk.save_pretrained(folder)
    elif case.max_shard_size is not None:
        stored.save_pretrained(folder, max_shard_size=case.max_shard_size)
    else:
        stored.save_pretrained(folder)
    if case.torch_files > 0:
        (folder / "model.safetensors").unlink()
        save_torch_files(stored.state_dict(), folder, case.torch_files)


def save_torch_files(state: dict[str, torch.Tensor], folder: Path, count: int) -> None:
    if count == 1:
        torch.save(state, folder / "pytorch_model.bin")
        return
    weight_map = {}
    for part in range(count):
        name = f"pytorch_model-{part + 1:05d}-of-{count:05d}.bin"
        names = list(state)[part::count]
        torch.save({key: state[key].clone() for key in names}, folder / name)
        weight_map |= dict.fromkeys(names, name)
    index = {"metadata": {"total_size": 0}, "weight_map": weight_map}
    (folder / "pytorch_model.bin.index.json").write_text(json.dumps(index))


def make(case: Case, index: int, folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    model = case.build().eval()
    randomise(model, seed=100 + index)
    save(case, model, folder)

    generator = torch.Generator().manual_seed(index)
    ids = torch.randint(0, model.config.vocab_size, (2, POSITIONS), generator=generator)
    mask = None
    if case.has_mask:
        mask = torch.ones_like(ids)
        mask[1, POSITIONS - 4 :] = 0
    # The rounded weights, computed with in float32.
    reread = type(model).from_pretrained(folder, dtype=torch.float32).eval()
    with torch.no_grad():
        logits = reread(input_ids=ids, attention_mask=mask).logits
    expected = {
        "about": "Made by interop/make_hf_fixtures.py.",
        "transformers": transformers.__version__,
        "input_ids": ids.tolist(),
        "attention_mask": None if mask is None else mask.tolist(),
        "logits": [[[float(f"{v:.7g}") for v in row] for row in rows] for rows in logits.tolist()],
    }
    (folder / "expected.json").write_text(json.dumps(expected) + "\n")
    print(f"{case.name}: {sum(p.stat().st_size for p in folder.iterdir())} bytes")


def write_config(config: PreTrainedConfig, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    config.to_json_file(folder / "config.json", use_diff=False)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=DEFAULT_OUT)
    parser.add_argument("--set", choices=["committed", "all"], default="committed")
    args = parser.parse_args()
    torch.set_num_threads(1)
    for index, case in enumerate(CASES):
        if args.set == "all" or case.is_committed:
            make(case, index, args.out / case.name)
    if args.set == "all":
        for config_class in (LlamaConfig, MistralConfig, Qwen2Config, GPT2Config):
            write_config(config_class(), args.out / "defaults" / config_class.model_type)
        for name, config in REFUSED.items():
            write_config(config, args.out / "refused" / name)


if __name__ == "__main__":
    main()
