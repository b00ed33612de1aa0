// Whole runs through the public API: what a run counts, reports, evaluates, writes, and how it ends.

import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { buildRuntime, loadConfigFile, trainFromConfig } from "speedtronic";
import { loadCheckpoint } from "speedtronic/checkpoint";
import { ByteTokenizer } from "speedtronic/data";
import { Generator, generateText, type ReferenceTransformer } from "speedtronic/nn";
import { constant, evaluate, referenceBackend } from "speedtronic/tensor";
import { describe, expect, it } from "vitest";
import {
  bookFile,
  copyOf,
  equalTensors,
  folderState,
  recordEvents,
  smokeFile,
  temporaryFolder,
  tinyConfig,
} from "./helpers.js";

async function smokeConfig(outputDir: string) {
  const config = await loadConfigFile(smokeFile);
  config.run.output_dir = outputDir;
  return config;
}

describe("the smoke configuration", () => {
  it("trains every tensor and counts steps, samples and tokens", async () => {
    const runtime = await buildRuntime(await smokeConfig(temporaryFolder()));
    await runtime.refreshModel();
    const before = copyOf(runtime.model.stateDict());
    const result = await runtime.trainer.fit();
    expect(equalTensors(runtime.model.stateDict(), before)).toEqual([]);
    expect(before.size).toBe(1 + 2 * 9 + 1 + 1);
    expect(result).toEqual({
      steps: 4,
      samples: 8,
      tokens: 256,
      finalLoss: expect.closeTo(Math.log(128), 1),
      validation: null,
      elapsedS: expect.any(Number),
      stop: { kind: "target" },
    });
    await runtime.close();
    await runtime.close();
  });

  it("gives hooks the Python system's events, with its keys first and in its order", async () => {
    const events = recordEvents();
    const outputDir = temporaryFolder();
    await trainFromConfig(await smokeConfig(outputDir), { hooks: [events.hook] });
    const names = events.names();
    expect(names.filter((name) => !name.startsWith("checkpoint"))).toEqual([
      "run_info",
      "train_start",
      "train_step:1",
      "train_step:2",
      "train_step:3",
      "train_step:4",
      "train_end",
    ]);
    // Saving goes on beside training, so the first checkpoint is reported when it is safe on disk.
    const place = (name: string) => names.indexOf(name);
    expect(names).toHaveLength(9);
    expect(place("checkpoint:2")).toBeGreaterThan(place("train_step:2"));
    expect(place("checkpoint:4")).toBeGreaterThan(place("checkpoint:2"));
    expect(place("checkpoint:4")).toBe(place("train_end") - 1);

    const keys = {
      train_start:
        "start_step target_step device precision accumulation_steps parameters shape_alignment shape_warning_count ooo_backprop",
      train_step: "step loss lr steps_per_sec samples_per_sec tokens_per_sec samples tokens micro_batches",
      checkpoint: "step path",
      train_end: "steps elapsed_s loss",
    } as const;
    for (const [event, expected] of Object.entries(keys))
      for (const payload of events.of(event as keyof typeof keys))
        expect(Object.keys(payload).slice(0, expected.split(" ").length).join(" ")).toBe(expected);
    expect(events.of("train_start")).toMatchObject([
      {
        start_step: 0,
        target_step: 4,
        device: "cpu",
        precision: "fp32",
        accumulation_steps: 2,
        parameters: 66_880,
        device_requested: "auto",
        precision_requested: "fp32",
        model: "reference_transformer",
        seed: 1234,
      },
    ]);
    expect(
      events.of("train_step").map(({ samples, tokens, micro_batches }) => [samples, tokens, micro_batches]),
    ).toEqual([1, 2, 3, 4].map((step) => [2 * step, 64 * step, 2]));
    const [, last] = events.of("checkpoint");
    expect(last).toMatchObject({ reason: "final", path: join(outputDir, "checkpoints/step-000000000004") });
    expect(events.of("train_end")).toMatchObject([{ steps: 4, samples: 8, tokens: 256, reason: "target" }]);
  });

  it("reports the learning rate that produced each step", async () => {
    const events = recordEvents();
    await trainFromConfig(await smokeConfig(temporaryFolder()), { hooks: [events.hook] });
    const steps = events.of("train_step");
    expect(steps.map(({ lr }) => Number(lr.toPrecision(6)))).toEqual([3e-4, 2.325e-4, 9.75e-5, 3e-5]);
    expect(steps.slice(1).map(({ lr }) => lr)).toEqual(steps.slice(0, -1).map(({ next_lr }) => next_lr));
  });

  it("gives the same bits when it is run again", async () => {
    const losses: unknown[] = [];
    for (let run = 0; run < 2; run++) {
      const events = recordEvents();
      await trainFromConfig(await smokeConfig(temporaryFolder()), { hooks: [events.hook] });
      losses.push(events.of("train_step").map(({ loss, grad_norm }) => [loss, grad_norm]));
    }
    expect(losses[1]).toEqual(losses[0]);
  });
});

describe("absolute targets", () => {
  it("do nothing and rewrite nothing for a run that is there already", async () => {
    const outputDir = temporaryFolder();
    await trainFromConfig(tinyConfig(outputDir));
    const before = await folderState(join(outputDir, "checkpoints"));
    for (const max_steps of [4, 2]) {
      const events = recordEvents();
      const result = await trainFromConfig(tinyConfig(outputDir, { run: { max_steps } }), {
        resume: true,
        hooks: [events.hook],
      });
      expect(result).toMatchObject({
        steps: 4,
        samples: 8,
        tokens: 64,
        finalLoss: null,
        stop: { kind: "target" },
      });
      expect(events.names()).toEqual(["run_info", "resume:4", "train_start", "train_end"]);
      expect(events.of("train_end")[0]).toMatchObject({ steps: 4, loss: null });
    }
    const after = await folderState(join(outputDir, "checkpoints"));
    for (const name of ["lock", ".lock"]) delete after[name];
    expect(after).toEqual(before);
  });

  it("count from the run's first start", async () => {
    const outputDir = temporaryFolder();
    await trainFromConfig(tinyConfig(outputDir));
    const events = recordEvents();
    const result = await trainFromConfig(tinyConfig(outputDir, { run: { max_steps: 7 } }), {
      resume: true,
      hooks: [events.hook],
    });
    expect(result).toMatchObject({ steps: 7, samples: 14, tokens: 112 });
    expect(events.of("train_step").map(({ step, samples }) => [step, samples])).toEqual([
      [5, 10],
      [6, 12],
      [7, 14],
    ]);
  });
});

describe("a text with a held-out tail", () => {
  const text = { vocab_size: 256, max_seq_len: 16 };
  const write = async (bytes: number) => {
    const folder = temporaryFolder();
    const path = join(folder, "text.txt");
    const content = (await readFile(bookFile)).subarray(5000, 5000 + bytes);
    await writeFile(path, content);
    return { folder, path, content };
  };

  it("is scored over every byte once, as a direct computation does", async () => {
    const { folder, path, content } = await write(1003);
    const events = recordEvents();
    const runtime = await buildRuntime(
      tinyConfig(folder, {
        model: text,
        data: { text_path: path, validation_fraction: 0.1 },
        evaluation: { every_steps: 2, batch_size: 3 },
      }),
      { hooks: [events.hook] },
    );
    const result = await runtime.trainer.fit();
    const tail = Math.ceil(1003 * 0.1);
    expect(events.of("evaluation").map(({ step, tokens }) => [step, tokens])).toEqual([
      [2, tail],
      [4, tail],
    ]);
    const model = runtime.model as ReferenceTransformer;
    const first = content.length - tail - 1;
    let sum = 0;
    let count = 0;
    for (let start = first; start < content.length - 1; start += 16) {
      const ids = Int32Array.from(content.subarray(start, Math.min(start + 17, content.length)));
      const field = (data: Int32Array) => constant({ dtype: "int32", shape: [1, data.length], data });
      const output = model.forward({ input_ids: field(ids.slice(0, -1)), labels: field(ids.slice(1)) });
      const [lossSum, tokens] = evaluate([output.lossSum!, output.tokenCount!]);
      sum += lossSum!.data[0]!;
      count += tokens!.data[0]!;
    }
    expect(count).toBe(tail);
    expect(result.validation).toEqual({ step: 4, tokens: tail, loss: expect.closeTo(sum / count, 5) });
    const [, last] = events.of("evaluation");
    const { loss } = last!;
    expect(last).toMatchObject({
      loss: result.validation!.loss,
      perplexity: Math.exp(loss),
      bits_per_byte: loss / Math.LN2,
      best: true,
    });
    await runtime.close();
  });

  it("can be scored in part, and leaves training as it is", async () => {
    const { folder, path } = await write(600);
    const losses: number[][] = [];
    for (const evaluation of [{ every_steps: 1, max_batches: 2, batch_size: 2 }, {}]) {
      const events = recordEvents();
      const outputDir = join(folder, String(losses.length));
      await trainFromConfig(
        tinyConfig(outputDir, {
          model: { ...text, dropout: 0.1 },
          data: { text_path: path, validation_fraction: 0.3 },
          evaluation,
        }),
        { hooks: [events.hook] },
      );
      losses.push(events.of("train_step").map(({ loss }) => loss));
      const tokens = events.of("evaluation").map((e) => e.tokens);
      expect(tokens).toEqual(losses.length === 1 ? [64, 64, 64, 64] : [180]);
    }
    expect(losses[1]).toEqual(losses[0]);
  });

  it("brings sample text, which is what the model writes", async () => {
    const { folder, path } = await write(400);
    const events = recordEvents();
    const sampling = { prompt: "whale", max_new_tokens: 12, temperature: 0, every_steps: 3, at_end: true };
    const runtime = await buildRuntime(
      tinyConfig(folder, { model: text, data: { text_path: path }, sampling }),
      {
        hooks: [events.hook],
      },
    );
    await runtime.trainer.fit();
    const model = runtime.model as ReferenceTransformer;
    const generator = new Generator({ model, backend: referenceBackend });
    const tokenizer = new ByteTokenizer({ vocabSize: 256, overflow: "refuse" });
    const written = await generateText({
      generator,
      tokenizer,
      prompt: "whale",
      maxNewTokens: 12,
      temperature: 0,
    });
    expect(events.of("sample").map(({ step, prompt }) => [step, prompt])).toEqual([
      [3, "whale"],
      [4, "whale"],
    ]);
    expect(events.of("sample")[1]!.text).toBe(written);
    expect(written.length).toBeGreaterThan(0);
    await generator.close();
    await runtime.close();
  });
});

describe("an abort signal", () => {
  it("lets the step finish, saves, says why, and the run can go on", async () => {
    const outputDir = temporaryFolder();
    const control = new AbortController();
    const events = recordEvents((event, { step }) => {
      if (event === "train_step" && step === 3) control.abort("SIGTERM");
    });
    const config = tinyConfig(outputDir, { run: { max_steps: 6 }, checkpoint: { every_steps: 100 } });
    const result = await trainFromConfig(config, { signal: control.signal, hooks: [events.hook] });
    expect(result).toMatchObject({
      steps: 3,
      samples: 6,
      finalLoss: events.of("train_step")[2]!.loss,
      stop: { kind: "stopped", cause: "SIGTERM" },
    });
    expect(events.names().slice(-3)).toEqual(["train_step:3", "checkpoint:3", "train_end"]);
    expect(events.of("checkpoint")[0]).toMatchObject({ reason: "SIGTERM" });
    expect(events.of("train_end")[0]).toMatchObject({ steps: 3, reason: "SIGTERM" });
    const { content } = await loadCheckpoint(join(outputDir, "checkpoints"));
    expect(content.trainer).toMatchObject({ step: 3, samples: 6, data: { epoch: 0, position: 6 } });
    expect(await trainFromConfig(config, { resume: true })).toMatchObject({
      steps: 6,
      stop: { kind: "target" },
    });
  });

  it("given before the first step writes nothing", async () => {
    const outputDir = temporaryFolder();
    const result = await trainFromConfig(tinyConfig(outputDir), { signal: AbortSignal.abort("SIGINT") });
    expect(result).toMatchObject({ steps: 0, finalLoss: null, stop: { kind: "stopped", cause: "SIGINT" } });
    expect(Object.keys(await folderState(outputDir)).filter((name) => name.includes("step-"))).toEqual([]);
  });

  it("at the last step makes no difference", async () => {
    const control = new AbortController();
    const events = recordEvents((event, { step }) => {
      if (event === "train_step" && step === 4) control.abort("SIGINT");
    });
    const result = await trainFromConfig(tinyConfig(temporaryFolder()), {
      signal: control.signal,
      hooks: [events.hook],
    });
    expect(result.stop).toEqual({ kind: "target" });
    expect(events.names().slice(-2)).toEqual(["checkpoint:4", "train_end"]);
  });
});
