// Limits of the Python system's reference model, one test each by its number in the list: what is better here.

import { join } from "node:path";
import { resolveConfig, trainFromConfig } from "speedtronic";
import { collateCausal } from "speedtronic/data";
import { exportHuggingFace, importHuggingFace } from "speedtronic/interchange";
import {
  buildModel,
  Generator,
  initialize,
  isIncremental,
  modelOptionsFromConfig,
  ReferenceTransformer,
  registerModel,
  sizeOrNullRule,
} from "speedtronic/nn";
import { constant, type Graph, referenceBackend, trace } from "speedtronic/tensor";
import { describe, expect, test } from "vitest";
import { CheckedDataset } from "../../../src/data/checked-dataset.js";
import { CausalSelfAttention } from "../../../src/nn/layers/attention.js";
import { temporaryFolder, tinyConfig } from "../../train/helpers.js";
import { bool, errorOf, int32, tinyTransformer, valuesOf } from "../helpers.js";

const ids = int32([[1, 4, 2, 6, 0]]);

/** The forward pass of `model` over one row of five ids, with a mask of `mask`'s dtype or none. */
function graphOf(model: ReferenceTransformer, mask?: "bool" | "int32", training = false): Graph {
  const shape = [2, 5];
  return trace(
    ({ input_ids, attention_mask }: Record<string, Parameters<typeof model.forward>[0][string]>) =>
      model.forward({ input_ids: input_ids!, ...(attention_mask && { attention_mask }) }).logits!,
    {
      input_ids: { shape, dtype: "int32" },
      ...(mask && { attention_mask: { shape, dtype: mask } }),
    } as Record<string, { shape: number[]; dtype: "bool" | "int32" }>,
    { training, parameters: model.namedParameters() },
  );
}

const nodesOf = ({ nodes }: Graph, op: string) => nodes.filter((node) => node.op === op);

describe("attention", () => {
  test("RL-61: rows of one length need no mask, and get none", () => {
    const sample = (length: number) => ({
      inputIds: new Int32Array(length).fill(1),
      labels: new Int32Array(length).fill(1),
    });
    expect(Object.keys(collateCausal([sample(5), sample(5)]).batch)).toEqual(["input_ids", "labels"]);
    expect(Object.keys(collateCausal([sample(5), sample(3)]).batch)).toContain("attention_mask");
    const masked = (graph: Graph) =>
      nodesOf(graph, "attention").map(({ params }) => (params as { hasKeyMask: boolean }).hasKeyMask);
    expect(masked(graphOf(tinyTransformer()))).toEqual([false, false]);
    expect(masked(graphOf(tinyTransformer(), "bool"))).toEqual([true, true]);
  });

  test("RL-62: a mask is prepared once, whatever the number of layers, and never as a square", () => {
    for (const nLayer of [1, 4]) {
      const graph = graphOf(tinyTransformer({ nLayer }), "int32");
      expect(nodesOf(graph, "cast")).toHaveLength(1);
      const masks = new Set(nodesOf(graph, "attention").map(({ inputs }) => inputs[3]));
      expect(masks.size).toBe(1);
      expect(graph.values[[...masks][0]!]!.shape).toEqual([2, 5]);
    }
  });

  test("RL-63: a row that sees no key is zero, and its neighbours do not notice", () => {
    const attention = new CausalSelfAttention({ width: 4, heads: 2 });
    initialize(attention, 1);
    const x = constant({
      dtype: "float32",
      shape: [3, 1, 4],
      data: Float32Array.from({ length: 12 }, (_, i) => Math.sin(i)),
    });
    const masked = valuesOf(attention.forward(x, { keyMask: bool([[0, 0, 1]]) }));
    expect(masked.slice(0, 8)).toEqual(new Array(8).fill(0));
    expect(masked.slice(8).every((value) => Number.isFinite(value) && value !== 0)).toBe(true);
  });

  test("RL-65: shared key heads are read where they are, not copied to every query head", () => {
    const graph = graphOf(tinyTransformer({ nHead: 4, nKvHead: 1, dModel: 16 }));
    for (const { inputs } of nodesOf(graph, "attention")) {
      const [, key, value] = inputs.map((id) => graph.values[id]!.shape);
      expect([key, value]).toEqual([
        [5, 2, 1, 4],
        [5, 2, 1, 4],
      ]);
    }
    expect([
      ...nodesOf(graph, "expand"),
      ...nodesOf(graph, "concat"),
      ...nodesOf(graph, "gather"),
    ]).toHaveLength(1);
  });
});

describe("layers", () => {
  test("RL-66: each branch is dropped once, and the attention branch twice only where that is asked for", () => {
    const drops = (doubleDropout: boolean) =>
      nodesOf(
        graphOf(tinyTransformer({ nLayer: 1, dropout: 0.1, doubleDropout }), undefined, true),
        "dropoutMask",
      ).length;
    // The embedding, the probabilities, both branches.
    expect(drops(false)).toBe(4);
    expect(drops(true)).toBe(5);
  });

  test("RL-67: the MLP's width follows the rule, is what is asked for, and is never 0", () => {
    const widthOf = (options: object) =>
      tinyTransformer(options).transformer.h.at(0)!.mlp.gate_proj.weight.shape[0];
    expect(widthOf({ dFf: 12 })).toBe(8);
    expect(widthOf({ dFf: null, mlpWidth: 64 })).toBe(64);
    expect(errorOf(() => tinyTransformer({ dFf: 1 }))).toMatchObject({ code: "model.mlp_width" });
    expect(() => resolveConfig({ model: { d_ff: 1 } })).toThrow(/use at least 2, or set mlp_width/);
  });

  test("RL-68: depth can scale the start, and tied weights are drawn once", () => {
    const model = (scaled_init: boolean, tie_weights = true) => {
      const { model: section } = resolveConfig({
        model: { vocab_size: 64, n_layer: 8, n_head: 2, d_model: 32, scaled_init, tie_weights },
      });
      const built = new ReferenceTransformer(modelOptionsFromConfig(section));
      initialize(built, 1);
      return built;
    };
    const deviation = ({ data }: { data: Float32Array }) =>
      Math.sqrt(data.reduce((sum, x) => sum + x * x, 0) / data.length);
    const outputOf = (built: ReferenceTransformer) =>
      deviation(built.transformer.h.at(0)!.attn.out_proj.weight);
    expect(outputOf(model(true)) / outputOf(model(false))).toBeCloseTo(1 / 4, 2);
    const [tied, untied] = [model(false), model(false, false)];
    expect(tied.transformer.wte.weight.data).toEqual(untied.transformer.wte.weight.data);
  });

  test("RL-69: rotary tables are constants of each graph: generating first changes nothing for training", async () => {
    const [fresh, used] = [tinyTransformer(), tinyTransformer()];
    const generator = new Generator({ model: used, backend: referenceBackend });
    await generator.generate({ ids: [1, 2], maxNewTokens: 3, temperature: 0 });
    await generator.close();
    const tables = ({ constants }: Graph) => constants.filter(({ data }) => data.dtype === "float32");
    expect(tables(graphOf(used, undefined, true))).toEqual(tables(graphOf(fresh, undefined, true)));
    expect(tables(graphOf(fresh)).map(({ data }) => data.shape)).toContainEqual([5, 2]);
  });
});

describe("inputs", () => {
  test("RL-70: a misspelt input is refused with what was meant", () => {
    const error = errorOf(() => tinyTransformer().forward({ input_ids: ids, attention_maks: ids }));
    expect(error).toMatchObject({ code: "model.unknown_input" });
    expect((error as Error).message).toContain('did you mean "attention_mask"?');
  });

  test("RL-73: an id outside the vocabulary is named with its place before it reaches a kernel", () => {
    const samples = {
      length: 1,
      get: () => ({ inputIds: Int32Array.of(1, 7, 2), labels: Int32Array.of(1, 2, 3) }),
      describe: () => ({}),
    };
    const error = errorOf(() => new CheckedDataset(samples, 7).get(0));
    expect((error as Error).message).toContain("inputIds[1] = 7, outside the vocabulary of 7");
  });
});

describe("use", () => {
  test("RL-71: a model generates from a cache and goes out to other programs", async () => {
    const model = tinyTransformer({ vocabSize: 11 });
    expect(isIncremental(model)).toBe(true);
    const generator = new Generator({ model, backend: referenceBackend });
    const tokens = await generator.generate({ ids: [1, 2], maxNewTokens: 4, temperature: 0 });
    await generator.close();
    const likeliest = (prefix: number[]) => {
      const logits = valuesOf(model.forward({ input_ids: int32([prefix]) }).logits!).slice(-11);
      return logits.indexOf(Math.max(...logits));
    };
    const expected = [1, 2];
    while (expected.length < 6) expected.push(likeliest(expected));
    expect([...tokens]).toEqual(expected.slice(2));

    const folder = join(temporaryFolder(), "out");
    await exportHuggingFace(model, folder);
    const { model: back } = await importHuggingFace(folder);
    expect(valuesOf(back.forward({ input_ids: ids }).logits!)).toEqual(
      valuesOf(model.forward({ input_ids: ids }).logits!),
    );
  });

  test("RL-72: a model has settings of its own in a section that it checks", async () => {
    registerModel("rl72", (options) => new ReferenceTransformer({ ...options, extra: {} }), {
      extra: { experts: sizeOrNullRule() },
    });
    const config = tinyConfig(temporaryFolder(), { run: { max_steps: 1 } });
    const trained = (extra: Record<string, number>) =>
      trainFromConfig({ ...config, model: { ...config.model, name: "rl72", extra } });
    expect((await trained({ experts: 2 })).steps).toBe(1);
    await expect(trained({ experts: -2 })).rejects.toMatchObject({ code: "model.extra" });
    await expect(trained({ expert: 2 })).rejects.toMatchObject({ code: "model.unknown_extra" });
    expect(errorOf(() => buildModel({ name: "gpt", extra: { experts: 2 } }))).toMatchObject({
      code: "model.unknown_extra",
    });
  });
});
