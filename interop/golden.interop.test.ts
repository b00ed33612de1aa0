// Reruns the Python scripts that made the committed golden files and compares the results.
// It proves that the files come from these scripts and this peer, not that our own code agrees with them.
// Needs SPEEDTRONIC_PYTHON, which run-tests.sh sets.

import { execFile } from "node:child_process";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it } from "vitest";

interface Curve {
  torch: string;
  cpu_capability: string;
  threads: number;
  lrs: number[];
  float32: { losses: number[]; grad_norms: number[] };
  float64: { losses: number[]; grad_norms: number[] };
  weights: { tensors: { sum: number; sum_of_squares: number; first: number[] }[] };
}

interface LogitCase {
  loss: number;
  logits: number[][][];
  gradients?: Record<string, number[]>;
}

const interopDir = fileURLToPath(new URL(".", import.meta.url));
const fixturesDir = join(interopDir, "..", "test", "fixtures");
let scratch = "";

beforeAll(async () => {
  scratch = await mkdtemp(join(tmpdir(), "speedtronic-golden-"));
});

afterAll(async () => {
  await rm(scratch, { recursive: true, force: true });
});

async function runScript(name: string, ...args: string[]): Promise<void> {
  const python = process.env.SPEEDTRONIC_PYTHON;
  if (!python) {
    throw new Error("SPEEDTRONIC_PYTHON is not set; run these tests with interop/run-tests.sh");
  }
  await promisify(execFile)(python, [join(interopDir, name), ...args], { maxBuffer: 2 ** 24 });
}

async function readJson<T>(path: string): Promise<T> {
  return JSON.parse(await readFile(path, "utf8")) as T;
}

/** Largest |a/b - 1| over two lists of the same length; where the expectation is 0 the absolute difference. */
function worstRelative(actual: number[], expected: number[]): number {
  expect(actual.length).toBe(expected.length);
  return Math.max(0, ...expected.map((e, i) => Math.abs(actual[i]! - e) / (e === 0 ? 1 : Math.abs(e))));
}

describe("golden curve", () => {
  it("is what PyTorch computes here", async () => {
    const path = join(scratch, "curve.json");
    const expected = await readJson<Curve>(join(fixturesDir, "golden-curve", "golden-curve.json"));
    await runScript("make_golden_curve.py", "--out", path, "--threads", String(expected.threads));
    const actual = await readJson<Curve>(path);

    // Other vector widths sum in another order; the difference grows through training.
    const sameArithmetic = actual.cpu_capability === expected.cpu_capability;
    expect(worstRelative(actual.float32.losses, expected.float32.losses)).toBeLessThan(
      sameArithmetic ? 1e-6 : 1e-5,
    );
    expect(worstRelative(actual.float64.losses, expected.float64.losses)).toBeLessThan(1e-9);
    expect(worstRelative(actual.float64.grad_norms, expected.float64.grad_norms)).toBeLessThan(1e-8);
    expect(worstRelative(actual.lrs, expected.lrs)).toBeLessThan(1e-14);
    for (const [i, tensor] of expected.weights.tensors.entries()) {
      const got = actual.weights.tensors[i]!;
      expect(worstRelative([got.sum, got.sum_of_squares], [tensor.sum, tensor.sum_of_squares])).toBeLessThan(
        1e-7,
      );
    }
    expect({ ...actual, ...volatileParts }).toEqual({ ...expected, ...volatileParts });
  });

  it("stays close to float64, far inside the tolerance it is used with", async () => {
    const { float32, float64 } = await readJson<Curve>(
      join(fixturesDir, "golden-curve", "golden-curve.json"),
    );
    expect(float32.losses).toHaveLength(100);
    expect(worstRelative(float32.losses, float64.losses)).toBeLessThan(5e-5);
  });
});

/** Fields whose digits may depend on the processor; everything else must be equal. */
const volatileParts = { cpu_capability: "", torch: "", float32: {}, float64: {}, lrs: [], weights: {} };

describe("golden logits", () => {
  it("are what PyTorch computes here, and the Speedtronic package agrees", async () => {
    const path = join(scratch, "logits.json");
    // The script itself fails if the package's model differs in keys, shapes, logits or loss.
    await runScript("make_golden_logits.py", "--out", path);
    const expected = await readJson<{ cases: LogitCase[] }>(
      join(fixturesDir, "golden-curve", "golden-logits.json"),
    );
    const actual = await readJson<{ cases: LogitCase[] }>(path);
    const withoutNumbers = (c: LogitCase) => ({ ...c, loss: 0, logits: [], gradients: {} });
    expect(actual.cases.map(withoutNumbers)).toEqual(expected.cases.map(withoutNumbers));
    for (const [i, want] of expected.cases.entries()) {
      const got = actual.cases[i]!;
      expect(got.loss).toBeCloseTo(want.loss, 12);
      expectClose(got.logits.flat(2), want.logits.flat(2), 1e-12);
      expect(Object.keys(got.gradients ?? {})).toEqual(Object.keys(want.gradients ?? {}));
      for (const [name, values] of Object.entries(want.gradients ?? {})) {
        expectClose(got.gradients![name]!, values, 1e-9);
      }
    }
  });
});

function expectClose(actual: number[], expected: number[], tolerance: number): void {
  expect(actual.length).toBe(expected.length);
  const worst = Math.max(0, ...expected.map((e, i) => Math.abs(actual[i]! - e)));
  expect(worst).toBeLessThan(tolerance);
}

describe("safetensors tables", () => {
  it("hold the verdicts and seeds of Python's safetensors", async () => {
    await runScript("make_safetensors_verdicts.py", "--out-dir", scratch);
    for (const file of ["verdicts.json", "seeds.json"]) {
      const expected = await readJson<unknown>(join(fixturesDir, "safetensors-verdicts", file));
      expect(await readJson<unknown>(join(scratch, file))).toEqual(expected);
    }
  });
});
