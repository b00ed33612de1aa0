// Limits of the Python system's advice on sizes, one test each by its number in the list.

import { type ConfigInput, resolveConfig, trainFromConfig } from "speedtronic";
import { planRun, probeSpeed } from "speedtronic/train";
import { describe, expect, test } from "vitest";
import { buildConfiguredModel } from "../../../src/train/configured-model.js";
import { adviseShapes } from "../../../src/train/shape-advice.js";
import { recordEvents, temporaryFolder, tinyConfig } from "../../train/helpers.js";

function report(input: ConfigInput) {
  const config = resolveConfig({
    ...input,
    shape_validation: { warn_on_cpu: true, ...input.shape_validation },
  });
  return adviseShapes(config, buildConfiguredModel(config));
}

/** Sizes that fit all rules of the CPU. */
const fitting: ConfigInput = {
  model: { vocab_size: 256, max_seq_len: 64, n_layer: 3, n_head: 2, d_model: 32, mlp_width: 48 },
  data: { micro_batch_size: 16, target_batch_size: 32 },
};
const changed = (model: object, data: object = {}): ConfigInput => ({
  model: { ...fitting.model, ...model },
  data: { ...fitting.data, ...data },
});

describe("advice on sizes", () => {
  test("RL-106: none means none, and so does enabled: false; a CPU is left in peace unless asked", () => {
    const odd = changed({ d_model: 36 }, { micro_batch_size: 3, target_batch_size: 6 });
    expect(report(odd).advice.length).toBeGreaterThan(0);
    for (const shape_validation of [
      { alignment: "none" as const },
      { enabled: false },
      { warn_on_cpu: false },
    ])
      expect(report({ ...odd, shape_validation })).toEqual({ alignment: null, advice: [] });
    expect(report({ ...fitting })).toEqual({ alignment: 16, advice: [] });
  });

  test.each([
    [9, 72, 8, 24],
    [3, 48, 16, 16],
    [5, 35, 8, null],
    [40, 80, 16, 80],
  ])(
    "RL-107: micro_batch_size %i of %i, in steps of %i: the suggestion %j divides the target batch",
    (micro, target, alignment, suggested) => {
      const { advice } = report({
        ...changed({}, { micro_batch_size: micro, target_batch_size: target }),
        shape_validation: { alignment },
      });
      const [batch] = advice.filter(({ code }) => code === "batch_alignment");
      expect(batch).toMatchObject({ field: "data.micro_batch_size", value: micro, suggested });
      if (batch!.suggested !== null)
        expect([target % batch!.suggested, batch!.suggested % alignment]).toEqual([0, 0]);
    },
  );

  test("RL-107: widths that are suggested can be built, and blocks fit the context", () => {
    const { advice } = report(changed({ n_head: 6, d_model: 60, max_seq_len: 60 }, { block_size: 50 }));
    const suggested = (field: string) => advice.find((one) => one.field === field)!.suggested;
    expect(suggested("model.d_model")).toBe(96);
    expect(() => resolveConfig(changed({ n_head: 6, d_model: 96 }))).not.toThrow();
    expect(suggested("data.block_size")).toBe(48);
  });

  test("RL-108: one line for each distinct size, and the vocabulary only where it is asked for", () => {
    const odd = changed({ vocab_size: 250, mlp_width: 50, d_model: 36 });
    expect(report(odd).advice).toEqual([
      expect.objectContaining({ field: "model.d_model", value: 36, layers: 23 }),
      expect.objectContaining({ field: "model.mlp_width", value: 50, layers: 9 }),
    ]);
    const withVocabulary = report({ ...odd, shape_validation: { check_vocab: true, check_model: false } });
    expect(withVocabulary.advice).toEqual([
      expect.objectContaining({
        code: "vocab_alignment",
        field: "model.vocab_size",
        value: 250,
        suggested: 256,
      }),
    ]);
  });

  test("RL-108: reaches the run's events, once each", async () => {
    const events = recordEvents();
    await trainFromConfig(
      {
        ...tinyConfig(temporaryFolder(), { run: { max_steps: 1 } }),
        shape_validation: { warn_on_cpu: true },
      },
      { hooks: [events.hook] },
    );
    const fields = events.of("shape_warning").map(({ field }) => field);
    expect(fields).toContain("model.d_model");
    expect(new Set(fields).size).toBe(fields.length);
    expect(events.of("shape_profile")).toEqual([
      expect.objectContaining({ alignment: 16, warning_count: fields.length, device_type: "cpu" }),
    ]);
    expect(events.of("train_start")[0]).toMatchObject({
      shape_alignment: 16,
      shape_warning_count: fields.length,
    });
  });

  test("RL-109: what a size costs is measured on real updates", async () => {
    const config = resolveConfig(tinyConfig(temporaryFolder()));
    const { model, graph, batch } = planRun(config);
    const probe = await probeSpeed(config, model, graph, batch, { seconds: 0.01 });
    expect(probe.updates).toBeGreaterThan(0);
    expect(probe.stepS).toBeGreaterThan(0);
    const odd = report(changed({ d_model: 36 })).advice;
    expect(odd.every(({ reason }) => reason.includes("speedtronic doctor measures an update"))).toBe(true);
  });
});
