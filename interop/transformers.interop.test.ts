// Both directions between this library and transformers: it loads what is exported here and computes the same, and
// what it saves is imported here with the same logits. Nothing is downloaded: all models are small and random.
// Needs SPEEDTRONIC_PYTHON, which run-tests.sh sets.

import { spawn } from "node:child_process";
import { mkdir, mkdtemp, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, it } from "vitest";

import {
  exportHuggingFace,
  importHuggingFace,
  readHuggingFaceConfig,
  UnsupportedModelError,
} from "../src/interchange/huggingface/index.js";
import { Generator, Gpt2, Llama, type ModelOptions, ReferenceTransformer } from "../src/nn/index.js";
import { referenceBackend } from "../src/tensor/index.js";
import {
  fixtures,
  largestLogitDifference,
  logitsOf,
  readExpected,
} from "../test/interchange/huggingface-helpers.js";

const interopDir = fileURLToPath(new URL(".", import.meta.url));
const TOLERANCE = 1e-4;
let scratch = "";

beforeAll(async () => {
  scratch = await mkdtemp(join(tmpdir(), "speedtronic-transformers-"));
  await runPython("make_hf_fixtures.py", ["--out", scratch, "--set", "all"]);
});

afterAll(async () => {
  await rm(scratch, { recursive: true, force: true });
});

/** stdout of a script of this folder. */
function runPython(script: string, args: readonly string[], input = ""): Promise<string> {
  const python = process.env.SPEEDTRONIC_PYTHON;
  if (!python) throw new Error("SPEEDTRONIC_PYTHON is not set; run these tests with interop/run-tests.sh");
  const child = spawn(python, [join(interopDir, script), ...args]);
  let [out, err] = ["", ""];
  child.stdout.setEncoding("utf8").on("data", (text: string) => {
    out += text;
  });
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    err += text;
  });
  child.stdin.end(input);
  return new Promise((resolve, reject) => {
    child.on("error", reject);
    child.on("close", (code) =>
      code === 0 ? resolve(out) : reject(new Error(`${script} exited with ${code}:\n${err}`)),
    );
  });
}

const imported = [
  "llama",
  "llama-tied-biased",
  "llama-linear-sharded",
  "llama-trunk",
  "llama-torch-file",
  "llama-torch-shards",
  "mistral",
  "mistral-wide-window",
  "qwen2",
  "qwen2-untied",
  "gpt2",
  "gpt2-sharded",
  "gpt2-untied-gelu",
  "gpt2-trunk",
];

describe("models that transformers made", () => {
  it("are all tried here", async () => {
    const folders = await readdir(scratch);
    expect(folders.sort()).toEqual([...imported, "defaults", "refused"].sort());
    expect(await readdir(join(scratch, "llama-linear-sharded"))).toContain("model.safetensors.index.json");
    expect(await readdir(join(scratch, "gpt2-sharded"))).toContain("model.safetensors.index.json");
  });

  it.each(imported.map((name) => [name]))("%s has the same logits here", async (name) => {
    const folder = join(scratch, name);
    const { model } = await importHuggingFace(folder);
    const expected = readExpected(folder);
    const found = logitsOf(model, expected.input_ids, expected.attention_mask);
    expect(largestLogitDifference(found, expected)).toBeLessThan(TOLERANCE);
  });

  it.each([["llama"], ["qwen2"], ["gpt2-sharded"]])(
    "the committed folder of %s is what is made now",
    async (name) => {
      const [committed, now] = [readExpected(join(fixtures, name)), readExpected(join(scratch, name))];
      expect(now.input_ids).toEqual(committed.input_ids);
      expect(largestLogitDifference(now.logits, committed)).toBeLessThan(1e-5);
      expect((await readHuggingFaceConfig(join(scratch, name))).model).toEqual(
        (await readHuggingFaceConfig(join(fixtures, name))).model,
      );
    },
  );
});

describe("config.json", () => {
  it.each([["llama"], ["mistral"], ["qwen2"], ["gpt2"]])(
    "of %s that says nothing means what its class has by default",
    async (type) => {
      const options = type === "gpt2" ? {} : { maxSeqLen: 1024 };
      const { model: full } = await readHuggingFaceConfig(join(scratch, "defaults", type), options);
      const { model: silent } = await readHuggingFaceConfig(await silentConfig(type), options);
      const withHeads = ({ extra, ...model }: typeof full) => ({
        ...model,
        extra: { ...extra, head_dim: extra.head_dim ?? model.d_model / model.n_head },
      });
      expect(withHeads(silent)).toEqual(withHeads(full));
    },
  );

  it.each<[string, RegExp[]]>([
    ["mixtral", [/^model type \(model_type: "mixtral"\)/, /^mixture of experts \(num_local_experts: 8\)$/]],
    [
      "gemma2",
      [
        /^model type/,
        /^soft cap on attention scores \(attn_logit_softcapping: 50\)$/,
        /^soft cap on logits \(final_logit_softcapping: 30\)$/,
        /^attention scale of its own/,
      ],
    ],
    ["gpt-neox", [/^model type/, /^attention and MLP in parallel/]],
    ["mistral-window", [/^sliding window in use \(sliding_window: 4096, context: 8192\)/]],
    ["qwen2-window", [/^sliding window in use \(sliding_window: 4096, context: 32768\)/]],
    ["llama-yarn", [/^scaling of rotary positions other than linear or llama3 \(rope_type: "yarn"\)$/]],
    ["llama-quantised", [/^quantised weights \(quantization_config: gptq\)$/]],
    ["gpt2-by-layer", [/^activation other than/, /^attention scaled by layer/]],
  ])("of %s is refused by its features", async (name, features) => {
    const error = await readHuggingFaceConfig(join(scratch, "refused", name)).catch(
      (reason: unknown) => reason,
    );
    expect(error).toBeInstanceOf(UnsupportedModelError);
    const found = (error as UnsupportedModelError).features;
    expect(found).toHaveLength(features.length);
    for (const feature of features)
      expect(
        found.some((text) => feature.test(text)),
        String(feature),
      ).toBe(true);
  });
});

async function silentConfig(type: string): Promise<string> {
  const folder = join(scratch, "defaults", `${type}-silent`);
  await mkdir(folder, { recursive: true });
  await writeFile(join(folder, "config.json"), JSON.stringify({ model_type: type }));
  return folder;
}

const shape: Partial<ModelOptions> = {
  vocabSize: 300,
  blockSize: 32,
  nLayer: 2,
  nHead: 4,
  nKvHead: 2,
  dModel: 16,
};
const llama3 = {
  type: "llama3",
  factor: 8,
  low_freq_factor: 1,
  high_freq_factor: 4,
  original_max_position_embeddings: 16,
};

const exported: [string, string, () => ReferenceTransformer | Llama | Gpt2][] = [
  ["the reference model", "LlamaForCausalLM", () => new ReferenceTransformer(shape)],
  [
    "the reference model, untied, all heads, another base",
    "LlamaForCausalLM",
    () => new ReferenceTransformer({ ...shape, nKvHead: null, tieWeights: false, ropeBase: 500, dFf: 50 }),
  ],
  [
    "llama with all settings",
    "LlamaForCausalLM",
    () =>
      new Llama({
        ...shape,
        extra: {
          head_dim: 10,
          norm_eps: 1e-3,
          qkv_bias: true,
          attention_output_bias: true,
          mlp_bias: true,
          rope_scaling: llama3,
        },
      }),
  ],
  [
    "llama with stretched positions",
    "LlamaForCausalLM",
    () => new Llama({ ...shape, tieWeights: false, extra: { rope_scaling: { type: "linear", factor: 4 } } }),
  ],
  [
    "llama with the biases of Qwen2",
    "Qwen2ForCausalLM",
    () => new Llama({ ...shape, ropeBase: 1e6, extra: { qkv_bias: true } }),
  ],
  ["gpt2", "GPT2LMHeadModel", () => new Gpt2({ ...shape, nKvHead: null })],
  [
    "gpt2, untied, exact GELU",
    "GPT2LMHeadModel",
    () =>
      new Gpt2({
        ...shape,
        nKvHead: null,
        tieWeights: false,
        mlpWidth: 30,
        extra: { activation: "gelu", norm_eps: 1e-3 },
      }),
  ],
];

interface Answer {
  readonly class: string;
  readonly loading: Record<string, string[]>;
  readonly dtype: string;
  readonly logits: number[][][];
  readonly continued: number[];
  readonly tokenized: { ids: number[]; decoded: string }[] | null;
}

const texts = ["Call me Ishmael.", "  two  spaces\n\ttab", "Grüße, 鯨! \u{1F40B}", "a\u0000b\u007f"];

describe("models that are exported", () => {
  it.each(exported)("transformers computes the same for %s", async (title, architecture, build) => {
    const model = build();
    // Larger than a fresh start: what is mixed up must show, in biases and norms too.
    for (const [t, [name, parameter]] of [...model.namedParameters()].entries()) {
      const isNorm = parameter.rank === 1 && name.endsWith("weight");
      parameter.data.forEach((_, i) => {
        // Waves that do not repeat: no two rows are alike.
        parameter.data[i] = (isNorm ? 1 : 0) + 0.3 * Math.sin(1.3 * i + 0.01 * i * i + 0.7 * t);
      });
    }
    const folder = join(scratch, `export-${exported.findIndex(([other]) => other === title)}`);
    await exportHuggingFace(model, folder);
    const ids = [
      [67, 97, 108, 108, 32, 109, 101],
      [0, 255, 2, 299, 1, 13, 10],
    ];
    const request = JSON.stringify({ input_ids: ids, new_tokens: 12, texts });
    const answer = JSON.parse(await runPython("hf_run.py", [folder], request)) as Answer;

    expect(answer.class).toBe(architecture);
    expect(answer.dtype).toBe("torch.float32");
    expect(answer.loading).toEqual({
      missing_keys: [],
      unexpected_keys: [],
      mismatched_keys: [],
      error_msgs: [],
    });
    expect(
      largestLogitDifference(logitsOf(model, ids), { logits: answer.logits, attention_mask: null }),
    ).toBeLessThan(TOLERANCE);

    const generator = new Generator({ model, backend: referenceBackend });
    const continued = await generator.generate({ ids: ids[0]!, maxNewTokens: 12, temperature: 0 });
    await generator.close();
    expect(answer.continued).toEqual(Array.from(continued));

    if (!(model instanceof ReferenceTransformer)) return;
    expect(answer.tokenized).toEqual(
      texts.map((text) => ({ ids: Array.from(new TextEncoder().encode(text)), decoded: text })),
    );
  });
});
