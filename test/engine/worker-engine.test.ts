// The engine in its thread gives the very results of the engine on this one, and its errors and its end arrive
// here as they should.

import { InternalError, ModelError } from "speedtronic";
import { input } from "speedtronic/tensor";
import { type TrainEngine, traceTraining, WorkerEngine } from "speedtronic/train";
import { afterEach, describe, expect, it } from "vitest";
import { toGraph } from "../../src/tensor/trace/graph.js";
import { engineFor, engineOptions, parametersOf, smallTransformer, tokens } from "./fixtures.js";

const open: WorkerEngine[] = [];
afterEach(async () => {
  for (const engine of open.splice(0)) await engine.close();
});

async function workerFor(model = smallTransformer(), backend: "onnx" | "reference" = "onnx") {
  const engine = new WorkerEngine();
  open.push(engine);
  await engine.create(engineOptions(model, backend));
  await engine.writeParameters(parametersOf(model));
  return engine;
}

describe("the engine in a worker", () => {
  it("gives the bits of the engine on this thread", async () => {
    const model = smallTransformer({ dropout: 0.2 });
    const [worker, local] = [await workerFor(model), await engineFor(model)];
    const graph = traceTraining(model, tokens(2, 8));
    const results = [];
    for (const engine of [worker, local]) {
      const program = await engine.addProgram(graph);
      const updates = [];
      for (let count = 1; count <= 3; count++) {
        const microbatches = [0, 1].map((m) => ({
          program,
          weight: 16,
          feeds: {
            ...tokens(2, 8, { salt: 2 * count + m, targets: 5 + m }),
            rng: { dtype: "int32" as const, shape: [2], data: Int32Array.of(7, 2 * count + m) },
          },
        }));
        const { times: _, ...update } = await engine.update({
          microbatches,
          lr: 0.01,
          count,
          gradClip: 1,
          averaging: "targets",
        });
        updates.push(update);
      }
      results.push([
        updates,
        await engine.readParameters(),
        await engine.readOptimizer(),
        await engine.describe(),
      ]);
    }
    expect(results[0]).toEqual(results[1]);
    await local.close();
  });

  it("does not take the caller's arrays away", async () => {
    const model = smallTransformer();
    const engine = await workerFor(model);
    const feeds = tokens(2, 8);
    const program = await engine.addProgram(traceTraining(model, feeds));
    await engine.evaluate(program, feeds);
    expect(feeds).toEqual(tokens(2, 8));
    const first = await engine.readParameters();
    first.get("transformer.ln_f.weight")!.data.fill(9);
    expect(await engine.readParameters()).toEqual(parametersOf(smallTransformer()));
  });

  it("answers in the order of the questions", async () => {
    const model = smallTransformer();
    const engine = await workerFor(model);
    const program = await engine.addProgram(traceTraining(model, tokens(2, 8)));
    const order: string[] = [];
    const [before, , after] = await Promise.all([
      engine.readParameters().finally(() => order.push("read")),
      engine
        .update({
          microbatches: [{ program, feeds: tokens(2, 8), weight: 16 }],
          lr: 0.1,
          count: 1,
          gradClip: null,
          averaging: "targets",
        })
        .finally(() => order.push("update")),
      engine.readParameters().finally(() => order.push("read again")),
    ]);
    expect(order).toEqual(["read", "update", "read again"]);
    expect(before).toEqual(parametersOf(model));
    expect(after).not.toEqual(before);
  });
});

describe("errors from the worker", () => {
  it("keep class, code, message and details", async () => {
    const model = smallTransformer();
    const engine = await workerFor(model);
    const program = await engine.addProgram(traceTraining(model, tokens(2, 8)));
    const local = await engineFor(model);
    const localProgram = await local.addProgram(traceTraining(model, tokens(2, 8)));
    const value = { dtype: "float32" as const, shape: [1], data: new Float32Array(1) };
    const attempts = [
      (e: TrainEngine) => e.writeParameters(new Map([["no.such", value]])),
      (e: TrainEngine, p: number) => e.evaluate(p, tokens(2, 7)),
      (e: TrainEngine) => e.evaluate(99, {}),
      // A bug of the caller's, for which there is no error of ours.
      (e: TrainEngine) => e.update(undefined as never),
    ];
    for (const attempt of attempts) {
      const error = await attempt(engine, program).catch((e: unknown) => e);
      const expected = await attempt(local, localProgram).catch((e: unknown) => e);
      expect(error).toBeInstanceOf(Error);
      const fields = ({ name, message, code, details }: ModelError) => ({ name, message, code, details });
      if (expected instanceof ModelError || expected instanceof InternalError)
        expect(fields(error as ModelError)).toEqual(fields(expected as ModelError));
      else
        expect([error instanceof InternalError, (error as Error).message]).toEqual([
          true,
          (expected as Error).message,
        ]);
    }
    // The engine still works.
    expect(Object.keys(await engine.evaluate(program, tokens(2, 8)))).toContain("loss");
    await local.close();
  });

  it("of compiling leave the engine as it was", async () => {
    const engine = await workerFor();
    const graph = toGraph({ result: input("x", [2], "float32") });
    const broken = { ...graph, outputs: [{ name: "result", value: 7 as never }] };
    await expect(engine.addProgram(broken)).rejects.toBeInstanceOf(Error);
    expect(await engine.readParameters()).toEqual(parametersOf(smallTransformer()));
  });
});

describe("close", () => {
  it("rejects what is pending and what comes later, and ends the thread", async () => {
    const engine = await workerFor();
    const closing = engine.close();
    const pending = [engine.readParameters(), engine.readOptimizer()].map((p) => p.catch((e: unknown) => e));
    await closing;
    for (const error of [
      ...(await Promise.all(pending)),
      await engine.readParameters().catch((e: unknown) => e),
    ]) {
      expect(error).toBeInstanceOf(InternalError);
      expect(error).toMatchObject({ code: "engine.ended", message: "the engine was closed" });
    }
  });

  it("can be called twice, also at once", async () => {
    const engine = await workerFor();
    await Promise.all([engine.close(), engine.close()]);
    await engine.close();
  });

  it("works on an engine that was never created", async () => {
    const engine = new WorkerEngine();
    await expect(engine.readParameters()).rejects.toMatchObject({ code: "internal.invariant" });
    await engine.close().catch(() => undefined);
    await expect(engine.describe()).rejects.toMatchObject({ code: "engine.ended" });
  });
});
