// Folders in the layout of transformers: what it made is imported with the logits that it computed, and what is
// exported says what it must. Whether transformers agrees with an export is for interop/ to tell.

import { cp, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { loadCheckpoint } from "../../src/checkpoint/index.js";
import {
  loadSafetensors,
  openSafetensorsFile,
  saveSafetensors,
  type TensorStream,
} from "../../src/formats/safetensors/index.node.js";
import {
  exportHuggingFace,
  HuggingFaceError,
  importHuggingFace,
  readHuggingFaceConfig,
  saveImportedModel,
  UnsupportedModelError,
} from "../../src/interchange/huggingface/index.js";
import {
  Generator,
  Gpt2,
  initialize,
  Linear,
  Llama,
  type ModelOptions,
  ReferenceTransformer,
} from "../../src/nn/index.js";
import { createOnnxBackend } from "../../src/tensor/backends/onnx/backend.node.js";
import { referenceBackend } from "../../src/tensor/index.js";
import { loadTrainedModel } from "../../src/train/load-model.node.js";
import { fixtures, largestLogitDifference, logitsOf, readExpected } from "./huggingface-helpers.js";

const environment = { threads: 1, cpu: "test", node: "test", library: "test", platform: "test" };
const ids = [[1, 4, 2, 6, 0, 200]];

let scratch = "";
let made = 0;
const newPath = () => join(scratch, `folder-${made++}`);

beforeAll(async () => {
  scratch = await mkdtemp(join(tmpdir(), "speedtronic-hf-"));
});
afterAll(async () => {
  await rm(scratch, { recursive: true, force: true });
});

const readJson = async (path: string) => JSON.parse(await readFile(path, "utf8")) as Record<string, unknown>;

/** A copy of a committed folder with its config.json changed; keys set to undefined are taken out. */
async function changedFixture(name: string, changes: Record<string, unknown>): Promise<string> {
  const folder = newPath();
  await cp(join(fixtures, name), folder, { recursive: true });
  const config = await readJson(join(folder, "config.json"));
  await writeFile(join(folder, "config.json"), JSON.stringify({ ...config, ...changes }));
  return folder;
}

async function failureOf(promise: Promise<unknown>): Promise<HuggingFaceError> {
  const error = await promise.then(
    () => undefined,
    (reason: unknown) => reason,
  );
  expect(error).toBeInstanceOf(HuggingFaceError);
  return error as HuggingFaceError;
}

describe("import", () => {
  it.each([["llama"], ["qwen2"], ["gpt2-sharded"]])("gives %s the logits of transformers", async (name) => {
    const { model } = await importHuggingFace(join(fixtures, name));
    const expected = readExpected(join(fixtures, name));
    const found = logitsOf(model, expected.input_ids, expected.attention_mask);
    expect(largestLogitDifference(found, expected)).toBeLessThan(1e-5);
  });

  it("says in a config's words what the model is", async () => {
    const { config, source } = await importHuggingFace(join(fixtures, "llama"));
    expect(source).toMatchObject({ modelType: "llama", architecture: "LlamaForCausalLM", notes: [] });
    expect(config).toEqual({
      model: {
        name: "llama",
        vocab_size: 61,
        max_seq_len: 32,
        n_layer: 2,
        n_head: 4,
        n_kv_head: 2,
        d_model: 24,
        dropout: 0,
        tie_weights: false,
        rope_base: 500000,
        mlp_width: 40,
        extra: {
          head_dim: 10,
          norm_eps: 1e-6,
          qkv_bias: false,
          attention_output_bias: false,
          mlp_bias: false,
          rope_scaling: {
            type: "llama3",
            factor: 8,
            low_freq_factor: 1,
            high_freq_factor: 4,
            original_max_position_embeddings: 16,
          },
        },
      },
    });
  });

  it("is saved as weights that generate, and that no run resumes from", async () => {
    for (const name of ["llama", "qwen2", "gpt2-sharded"]) {
      const imported = await importHuggingFace(join(fixtures, name));
      const folder = newPath();
      await saveImportedModel(imported, folder, { environment });
      const { model, config } = await loadTrainedModel(folder);
      expect(config.model).toMatchObject({ ...imported.config.model, d_ff: null });
      const expected = readExpected(join(fixtures, name));
      expect(
        largestLogitDifference(
          logitsOf(model as Llama, expected.input_ids, expected.attention_mask),
          expected,
        ),
      ).toBeLessThan(1e-5);
      await expect(loadCheckpoint(folder)).rejects.toMatchObject({ code: "checkpoint.weights_only" });
    }
  });

  it("runs on the engine's backend, cached, as on the reference", async () => {
    for (const name of ["llama", "gpt2-sharded"]) {
      const { model } = await importHuggingFace(join(fixtures, name));
      const continued = [];
      for (const backend of [referenceBackend, await createOnnxBackend({ threads: 1 })]) {
        const generator = new Generator({ model, backend });
        continued.push(
          Array.from(await generator.generate({ ids: [5, 6], maxNewTokens: 40, temperature: 0 })),
        );
        await generator.close();
      }
      expect(continued[1]).toEqual(continued[0]);
    }
  });

  it("takes old spellings: a bare trunk, computed buffers, rope_theta beside rope_scaling", async () => {
    const folder = await changedFixture("llama", {
      rope_parameters: undefined,
      rope_theta: 500000,
      rope_scaling: {
        type: "llama3",
        factor: 8,
        low_freq_factor: 1,
        high_freq_factor: 4,
        original_max_position_embeddings: 16,
      },
    });
    const tensors = await loadSafetensors(join(folder, "model.safetensors"));
    const renamed = new Map<string, Omit<TensorStream, "name">>(
      [...tensors].map(([name, { bytes, ...rest }]) => [
        name.replace(/^model\./, ""),
        { ...rest, data: bytes },
      ]),
    );
    renamed.set("layers.0.self_attn.rotary_emb.inv_freq", {
      dtype: "F32",
      shape: [5],
      data: new Float32Array(5),
    });
    await saveSafetensors(renamed, join(folder, "model.safetensors"));
    const expected = readExpected(folder);
    const { model } = await importHuggingFace(folder);
    expect(
      largestLogitDifference(logitsOf(model, expected.input_ids, expected.attention_mask), expected),
    ).toBeLessThan(1e-5);
  });

  it("builds for a shorter context on request, where the model computes the same", async () => {
    const { model } = await importHuggingFace(join(fixtures, "llama"), { maxSeqLen: 12 });
    const expected = readExpected(join(fixtures, "llama"));
    expect(model.blockSize).toBe(12);
    expect(
      largestLogitDifference(logitsOf(model, expected.input_ids, expected.attention_mask), expected),
    ).toBeLessThan(1e-5);
    await expect(importHuggingFace(join(fixtures, "llama"), { maxSeqLen: 0 })).rejects.toThrow(
      /maxSeqLen must be a positive integer, got 0/,
    );
    await expect(importHuggingFace(join(fixtures, "llama"), { maxSeqLen: 33 })).rejects.toThrow(
      /context of 33 positions is longer than the model was made for \(max_position_embeddings: 32\)/,
    );
    await expect(importHuggingFace(join(fixtures, "gpt2-sharded"), { maxSeqLen: 33 })).rejects.toThrow(
      /\(n_positions: 32\)/,
    );
    const learned = await failureOf(importHuggingFace(join(fixtures, "gpt2-sharded"), { maxSeqLen: 12 }));
    expect(learned.message).toContain("fewer positions than the 32 that it learned");
  });

  it("lists the tokenizer's files without reading them", async () => {
    const folder = await changedFixture("qwen2", {});
    await writeFile(join(folder, "tokenizer.json"), "not JSON");
    await writeFile(join(folder, "merges.txt"), "");
    const { tokenizerFiles } = await importHuggingFace(folder);
    expect(tokenizerFiles).toEqual([join(folder, "tokenizer.json"), join(folder, "merges.txt")]);
  });

  it("tells what it leaves behind", async () => {
    const llama = await changedFixture("llama", { attention_dropout: 0.1, auto_map: { AutoModel: "x.Y" } });
    expect((await readHuggingFaceConfig(llama)).notes).toEqual([
      "attention_dropout 0.1 is left out: model.dropout is 0, set it to train with dropout",
      "its own Python code (auto_map) is not run; the model is taken for a plain one of its type",
    ]);
    const gpt2 = await changedFixture("gpt2-sharded", { attn_pdrop: 0.2 });
    const { notes, model } = await readHuggingFaceConfig(gpt2);
    expect(notes).toEqual(["dropout rates that differ (0.1, 0.1, 0.2) are left out: model.dropout is 0"]);
    expect(model.dropout).toBe(0);
  });
});

describe("features that are not supported", () => {
  it.each<[string, Record<string, unknown>, string]>([
    [
      "llama",
      { model_type: "mixtral" },
      'model type (model_type: "mixtral"); supported: llama, mistral, qwen2, gpt2',
    ],
    [
      "llama",
      { architectures: ["LlamaForSequenceClassification"] },
      'head for another task (architectures: "LlamaForSequenceClassification")',
    ],
    ["llama", { num_local_experts: 8 }, "mixture of experts (num_local_experts: 8)"],
    [
      "llama",
      { quantization_config: { quant_method: "awq", bits: 4 } },
      "quantised weights (quantization_config: awq)",
    ],
    ["llama", { attn_logit_softcapping: 50 }, "soft cap on attention scores (attn_logit_softcapping: 50)"],
    ["llama", { final_logit_softcapping: 30 }, "soft cap on logits (final_logit_softcapping: 30)"],
    ["llama", { use_parallel_residual: true }, "attention and MLP in parallel (use_parallel_residual: true)"],
    ["llama", { partial_rotary_factor: 0.5 }, "rotation of a part of each head (partial_rotary_factor: 0.5)"],
    ["llama", { no_rope_layers: [1, 0] }, "layers without positions (no_rope_layers: [1,0])"],
    ["llama", { hidden_act: "gelu" }, 'activation other than silu (hidden_act: "gelu")'],
    ["llama", { logits_scaling: 8 }, "scaling factors between layers (logits_scaling: 8)"],
    ["llama", { text_config: { model_type: "llama" } }, "several kinds of input (text_config: llama)"],
    [
      "llama",
      { rope_parameters: { rope_type: "yarn", factor: 4 } },
      'scaling of rotary positions other than linear or llama3 (rope_type: "yarn")',
    ],
    ["llama", { rope_parameters: { rope_type: "linear" } }, 'scaling of rotary positions without "factor"'],
    [
      "llama",
      { rope_parameters: { full_attention: { rope_type: "default" } } },
      "rotary settings that differ between layers (rope_parameters)",
    ],
    [
      "llama",
      { model_type: "mistral", sliding_window: 16 },
      "sliding window in use (sliding_window: 16, context: 32); import it for a context of at most 16 tokens, where the window changes nothing",
    ],
    [
      "qwen2",
      { use_sliding_window: true, sliding_window: 16, max_window_layers: 1, layer_types: undefined },
      "sliding window in use (sliding_window: 16, context: 32); import it for a context of at most 16 tokens, where the window changes nothing",
    ],
    [
      "gpt2-sharded",
      { activation_function: "silu" },
      'activation other than gelu_new, gelu, relu (activation_function: "silu")',
    ],
    [
      "gpt2-sharded",
      { scale_attn_weights: false },
      "attention without its scale (scale_attn_weights: false)",
    ],
    [
      "gpt2-sharded",
      { scale_attn_by_inverse_layer_idx: true },
      "attention scaled by layer (scale_attn_by_inverse_layer_idx: true)",
    ],
    [
      "gpt2-sharded",
      { add_cross_attention: true },
      "attention to another sequence (add_cross_attention: true)",
    ],
  ])("%s with %j", async (name, changes, feature) => {
    const error = await failureOf(readHuggingFaceConfig(await changedFixture(name, changes)));
    expect(error).toBeInstanceOf(UnsupportedModelError);
    expect((error as UnsupportedModelError).features).toEqual([feature]);
    expect(error.code).toBe("huggingface.unsupported");
  });

  it("are named all at once", async () => {
    const folder = await changedFixture("llama", {
      model_type: "mistral",
      sliding_window: 8,
      hidden_act: "relu",
      quantization_config: { quant_method: "gptq" },
      num_experts: 4,
    });
    const error = await failureOf(importHuggingFace(folder));
    expect(error.message.replace(folder, "FOLDER")).toBe(
      [
        "FOLDER/config.json: this model cannot be imported, since it has features that are not supported here:",
        "  mixture of experts (num_experts: 4)",
        "  quantised weights (quantization_config: gptq)",
        '  activation other than silu (hidden_act: "relu")',
        "  sliding window in use (sliding_window: 8, context: 32); import it for a context of at most 8 tokens, where the window changes nothing",
      ].join("\n"),
    );
  });

  it.each<[string, Record<string, unknown>]>([
    ["llama", { model_type: "mistral", sliding_window: 32 }],
    ["llama", { model_type: "mistral", sliding_window: null }],
    ["qwen2", { use_sliding_window: false, sliding_window: 4 }],
    ["qwen2", { use_sliding_window: true, sliding_window: 4, max_window_layers: 2, layer_types: undefined }],
    [
      "llama",
      { num_experts: 1, attn_logit_softcapping: null, partial_rotary_factor: 1, no_rope_layers: [1, 1] },
    ],
    ["llama", { hidden_act: "swish", pretraining_tp: 4, unheard_of: 3 }],
    ["gpt2-sharded", { activation_function: "gelu_pytorch_tanh", reorder_and_upcast_attn: true }],
  ])("do not include %s with %j", async (name, changes) => {
    await expect(readHuggingFaceConfig(await changedFixture(name, changes))).resolves.toBeDefined();
  });

  it("let a window pass that the context does not reach", async () => {
    const folder = await changedFixture("llama", { model_type: "mistral", sliding_window: 12 });
    const { model } = await readHuggingFaceConfig(folder, { maxSeqLen: 12 });
    expect(model.max_seq_len).toBe(12);
  });
});

describe("folders that are not sound", () => {
  it("without config.json, or with one that is no JSON object", async () => {
    const empty = await failureOf(importHuggingFace(scratch));
    expect(empty.code).toBe("huggingface.not_a_folder");
    const folder = await changedFixture("llama", {});
    await writeFile(join(folder, "config.json"), "{");
    expect((await failureOf(importHuggingFace(folder))).message).toMatch(/config.json: not valid JSON/);
    await writeFile(join(folder, "config.json"), "[]");
    expect((await failureOf(importHuggingFace(folder))).message).toMatch(/must be a JSON object/);
  });

  it.each<[Record<string, unknown>, RegExp]>([
    [{ hidden_size: "24" }, /"hidden_size" must be a positive integer, got "24"/],
    [{ num_hidden_layers: 1.5 }, /"num_hidden_layers" must be a positive integer, got 1.5/],
    [{ rms_norm_eps: 0 }, /"rms_norm_eps" must be a number greater than 0, got 0/],
    [{ tie_word_embeddings: 1 }, /"tie_word_embeddings" must be true or false, got 1/],
    [{ rope_parameters: 7 }, /"rope_parameters" must be a mapping, got 7/],
    [
      { rope_parameters: { rope_theta: "x" } },
      /rope_parameters: "rope_theta" must be a number greater than 0/,
    ],
    [{ architectures: "Llama" }, /"architectures" must be a list of texts/],
    [{ attention_dropout: 1 }, /"attention_dropout" must be a number from 0 up to but not including 1/],
  ])("with %j", async (changes, message) => {
    const error = await failureOf(readHuggingFaceConfig(await changedFixture("llama", changes)));
    expect(error.code).toBe("huggingface.config");
    expect(error.message).toMatch(message);
  });

  it("without weights", async () => {
    const folder = await changedFixture("llama", {});
    await rm(join(folder, "model.safetensors"));
    const error = await failureOf(importHuggingFace(folder));
    expect(error.code).toBe("huggingface.no_weights");
    expect(error.message).toContain("pytorch_model.bin.index.json");
  });

  it("with weights of another model", async () => {
    const folder = await changedFixture("llama", {
      vocab_size: 60,
      num_hidden_layers: 1,
      attention_bias: true,
    });
    const error = await failureOf(importHuggingFace(folder));
    expect(error.code).toBe("huggingface.weights");
    expect(error.details).toMatchObject({
      missing: ["q", "k", "v", "o"].map((p) => `model.layers.0.self_attn.${p}_proj.bias`),
      mismatched: [
        "lm_head.weight: the model has [60, 24], the file [61, 24]",
        "model.embed_tokens.weight: the model has [60, 24], the file [61, 24]",
      ],
    });
    expect((error.details.unexpected as string[]).every((name) => name.startsWith("model.layers.1."))).toBe(
      true,
    );
    expect(error.message).toMatch(/missing \(4\):\n {2}model.layers.0.self_attn.q_proj.bias\n/);
  });

  it("with a tied head of its own", async () => {
    const folder = await changedFixture("llama", { tie_word_embeddings: true });
    const error = await failureOf(importHuggingFace(folder));
    expect(error.code).toBe("huggingface.tied_values_differ");
    expect(error.message).toContain("set tie_word_embeddings to false");
  });
});

describe("export", () => {
  const shape: Partial<ModelOptions> = {
    vocabSize: 300,
    blockSize: 32,
    nLayer: 2,
    nHead: 4,
    nKvHead: 2,
    dModel: 16,
  };
  const models: [string, () => ReferenceTransformer | Llama | Gpt2][] = [
    ["reference_transformer", () => new ReferenceTransformer(shape)],
    [
      "reference_transformer, untied",
      () => new ReferenceTransformer({ ...shape, tieWeights: false, ropeBase: 500 }),
    ],
    ["llama, with Qwen's biases", () => new Llama({ ...shape, extra: { qkv_bias: true, norm_eps: 1e-6 } })],
    [
      "llama, with all biases, scaled and wide",
      () =>
        new Llama({
          ...shape,
          extra: {
            qkv_bias: true,
            attention_output_bias: true,
            mlp_bias: true,
            head_dim: 10,
            rope_scaling: { type: "linear", factor: 2 },
          },
        }),
    ],
    ["gpt2", () => new Gpt2({ ...shape, nKvHead: null, tieWeights: false, extra: { activation: "gelu" } })],
  ];

  it.each(models)("%s comes back with the same logits", async (_, build) => {
    const model = build();
    initialize(model, 5);
    const folder = newPath();
    await exportHuggingFace(model, folder);
    const { model: back } = await importHuggingFace(folder);
    expect(logitsOf(back, ids)).toEqual(logitsOf(model, ids));
  });

  it("writes what transformers needs to see the reference model as a Llama", async () => {
    const model = new ReferenceTransformer(shape);
    initialize(model, 5);
    const folder = newPath();
    const exported = await exportHuggingFace(model, folder);
    expect(exported.architecture).toBe("LlamaForCausalLM");
    expect((await readdir(folder)).sort()).toEqual([
      "config.json",
      "generation_config.json",
      "model.safetensors",
      "tokenizer.json",
      "tokenizer_config.json",
    ]);
    expect(exported.files.map((path) => path.slice(folder.length + 1)).sort()).toEqual(
      (await readdir(folder)).sort(),
    );
    expect(await readJson(join(folder, "config.json"))).toEqual({
      architectures: ["LlamaForCausalLM"],
      model_type: "llama",
      attention_bias: false,
      mlp_bias: false,
      dtype: "float32",
      torch_dtype: "float32",
      bos_token_id: null,
      eos_token_id: null,
      pad_token_id: null,
      initializer_range: 0.02,
      use_cache: true,
      vocab_size: 300,
      max_position_embeddings: 32,
      hidden_size: 16,
      intermediate_size: 44,
      num_hidden_layers: 2,
      num_attention_heads: 4,
      num_key_value_heads: 2,
      head_dim: 4,
      hidden_act: "silu",
      rms_norm_eps: 1e-5,
      attention_dropout: 0,
      tie_word_embeddings: true,
      rope_theta: 10000,
      rope_scaling: null,
      rope_parameters: { rope_type: "default", rope_theta: 10000 },
    });
    const reader = await openSafetensorsFile(join(folder, "model.safetensors"));
    await reader.close();
    expect([...reader.metadata]).toEqual([["format", "pt"]]);
    expect(reader.fileSizeBytes).toBe(exported.sizeBytes);
    expect([...reader.entries.keys()].sort().slice(0, 4)).toEqual([
      "model.embed_tokens.weight",
      "model.layers.0.input_layernorm.weight",
      "model.layers.0.mlp.down_proj.weight",
      "model.layers.0.mlp.gate_proj.weight",
    ]);
    expect(reader.entries.has("lm_head.weight")).toBe(false);
  });

  it("gives each byte its own value as id", async () => {
    const folder = newPath();
    await exportHuggingFace(new ReferenceTransformer(shape), folder);
    const { model } = (await readJson(join(folder, "tokenizer.json"))) as {
      model: { vocab: Record<string, number>; merges: unknown[] };
    };
    expect(Object.values(model.vocab).sort((a, b) => a - b)).toEqual(
      Array.from({ length: 256 }, (_, i) => i),
    );
    expect(model.merges).toEqual([]);
    const wellKnown = { "!": 33, A: 65, "~": 126, Ġ: 32, Ċ: 10, Ā: 0, ġ: 127, "¡": 161, Ń: 173, ÿ: 255 };
    expect(model.vocab).toMatchObject(wellKnown);
  });

  it("writes tokenizer files as asked", async () => {
    const small = new ReferenceTransformer({ ...shape, vocabSize: 100 });
    const plain = newPath();
    await exportHuggingFace(small, plain);
    expect(await readdir(plain)).not.toContain("tokenizer.json");
    await expect(exportHuggingFace(small, newPath(), { tokenizer: "bytes" })).rejects.toThrow(
      /needs 256 ids, the model has 100/,
    );
    const copied = newPath();
    const source = newPath();
    await exportHuggingFace(new ReferenceTransformer(shape), source);
    await exportHuggingFace(small, copied, { tokenizer: { folder: source } });
    expect(await readFile(join(copied, "tokenizer.json"), "utf8")).toBe(
      await readFile(join(source, "tokenizer.json"), "utf8"),
    );
    await expect(exportHuggingFace(small, newPath(), { tokenizer: { folder: plain } })).rejects.toThrow(
      /there are no tokenizer files/,
    );
  });

  it("takes a checkpoint of ours", async () => {
    const imported = await importHuggingFace(join(fixtures, "qwen2"));
    const [weights, folder] = [newPath(), newPath()];
    await saveImportedModel(imported, weights, { environment });
    const exported = await exportHuggingFace(weights, folder);
    expect(exported).toMatchObject({ architecture: "Qwen2ForCausalLM", checkpoint: weights, skipped: [] });
    const back = await importHuggingFace(folder);
    const expected = readExpected(join(fixtures, "qwen2"));
    expect(largestLogitDifference(logitsOf(back.model, expected.input_ids), expected)).toBeLessThan(1e-5);
  });

  it("refuses a folder that holds a model, unless told to replace it", async () => {
    const folder = newPath();
    const [first, second] = [new ReferenceTransformer(shape), new ReferenceTransformer(shape)];
    initialize(first, 1);
    initialize(second, 2);
    await exportHuggingFace(first, folder);
    expect((await failureOf(exportHuggingFace(second, folder))).code).toBe("huggingface.not_empty");
    expect(logitsOf((await importHuggingFace(folder)).model, ids)).toEqual(logitsOf(first, ids));
    await exportHuggingFace(second, folder, { overwrite: true });
    expect(logitsOf((await importHuggingFace(folder)).model, ids)).toEqual(logitsOf(second, ids));
  });

  it("refuses what transformers has no model for", async () => {
    const odd = new Llama({ ...shape, extra: { qkv_bias: true, mlp_bias: true } });
    await expect(exportHuggingFace(odd, newPath())).rejects.toThrow(
      /has these biases together: qkv_bias true/,
    );
    await expect(exportHuggingFace(new Linear(2, 2) as never, newPath())).rejects.toThrow(
      /a Linear cannot be exported/,
    );
  });
});
