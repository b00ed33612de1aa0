// PyTorch's files and Python Speedtronic's checkpoints, written by the real packages just now: ours reads every
// tensor as PyTorch has it, and goes on training with Python's losses. Also proves that the malicious files of the
// test suite are what they claim: loaded by Python, the first of them runs its command.
// Needs SPEEDTRONIC_PYTHON, which run-tests.sh sets.

import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { CheckpointStore } from "../src/checkpoint/index.js";
import type { ConfigInput } from "../src/config/index.js";
import { bytesSource } from "../src/formats/safetensors/index.js";
import { openTorchFile, readTorchFile } from "../src/formats/torch/index.node.js";
import { importPythonCheckpoint, type PythonImport } from "../src/interchange/python-speedtronic/index.js";
import { trainFromConfig } from "../src/train/index.js";
import { maliciousFiles } from "../test/formats/torch-corpus.js";

interface Tensor {
  dtype: string;
  shape: number[];
  bytes: string;
}

interface Kind {
  step: number;
  parameters: string[];
  state: Record<string, Record<string, number>>;
  losses: number[];
}

const fixtures = join(import.meta.dirname, "../test/fixtures/torch");
let scratch = "";

beforeAll(async () => {
  scratch = await mkdtemp(join(tmpdir(), "speedtronic-torch-"));
});

afterAll(async () => {
  await rm(scratch, { recursive: true, force: true });
});

async function python(...args: string[]): Promise<void> {
  const interpreter = process.env.SPEEDTRONIC_PYTHON;
  if (!interpreter)
    throw new Error("SPEEDTRONIC_PYTHON is not set; run these tests with interop/run-tests.sh");
  await promisify(execFile)(interpreter, args, { maxBuffer: 2 ** 24 });
}

const readJson = async <T>(path: string): Promise<T> => JSON.parse(await readFile(path, "utf8")) as T;

describe("files that PyTorch writes", () => {
  it("are read as PyTorch has them, every type and view, and are those of the test suite", async () => {
    const out = join(scratch, "files");
    await python(join(import.meta.dirname, "make_torch_fixtures.py"), "--out-dir", out);
    const fresh = await readJson<{ files: Record<string, Record<string, Tensor>> }>(
      join(out, "expected.json"),
    );
    const committed = await readJson<typeof fresh>(join(fixtures, "expected.json"));
    expect(fresh.files).toEqual(committed.files);
    for (const [name, expected] of Object.entries(fresh.files)) {
      const file = await openTorchFile(join(out, name));
      for (const [key, tensor] of [...file.tensors.tensors, ...file.withoutEntry]) {
        const bytes = Buffer.from(await file.readBytes(tensor)).toString("base64");
        const { dtype, shape } = tensor;
        expect({ dtype, shape, bytes }, `${name} ${key}`).toEqual(expected[key]);
      }
      expect(file.tensors.tensors.size + file.withoutEntry.size).toBe(Object.keys(expected).length);
      await file.close();
    }
  });
});

describe("a malicious file", () => {
  it("runs its command when Python loads it, and nothing here", async () => {
    const canary = join(scratch, "canary");
    const [first] = maliciousFiles(canary);
    const path = join(scratch, "evil.pt");
    await writeFile(path, first!.file);
    await expect(readTorchFile(bytesSource(first!.file, "evil.pt"))).rejects.toThrow(
      /wants to call os\.system/,
    );
    await expect(openTorchFile(path)).rejects.toThrow(/wants to call os\.system/);
    expect(existsSync(canary)).toBe(false);
    await python("-c", "import sys, torch; torch.load(sys.argv[1], weights_only=False)", path);
    expect(existsSync(canary)).toBe(true);
  });
});

describe("checkpoints of Python Speedtronic", () => {
  let expected: Record<string, Kind>;
  let folder = "";

  beforeAll(async () => {
    folder = join(scratch, "checkpoints");
    await python(join(import.meta.dirname, "make_python_checkpoints.py"), "--out-dir", folder);
    expected = await readJson(join(folder, "expected.json"));
  });

  async function importKind(kind: string): Promise<PythonImport> {
    const file = await openTorchFile(join(folder, `${kind}.pt`));
    try {
      return await importPythonCheckpoint(file);
    } finally {
      await file.close();
    }
  }

  async function nextLosses(kind: string, { content }: PythonImport, steps: number): Promise<number[]> {
    const output = join(scratch, `run-${kind}`);
    const store = new CheckpointStore({ directory: join(output, "imported"), keepLast: null, runId: kind });
    const { path } = await store.save(content);
    const config = content.config as ConfigInput;
    const losses: number[] = [];
    const run = { ...config.run, output_dir: output, max_steps: content.trainer.step + steps };
    await trainFromConfig(
      { ...config, run, logging: { level: "ERROR" } },
      {
        resume: { path },
        hooks: [
          (event: string, payload: Readonly<Record<string, unknown>>) => {
            if (event === "train_step") losses.push(payload.loss as number);
          },
        ],
      },
    );
    return losses;
  }

  it("go on with Python's next five losses where every module is marked for AdamW", async () => {
    const imported = await importKind("marked");
    expect(imported.report.missingMoments).toEqual([]);
    const losses = await nextLosses("marked", imported, 5);
    expect(losses).toHaveLength(5);
    const worst = Math.max(...losses.map((loss, i) => Math.abs(loss - expected.marked!.losses[i]!)));
    expect(worst).toBeLessThan(1e-5);
  });

  it("go on with Python's next loss by default, and name the moments that are not there", async () => {
    const { parameters, state, losses } = expected.default!;
    const imported = await importKind("default");
    expect(imported.report.missingMoments).toEqual(parameters.filter((name) => !(name in state)));
    expect(imported.report.missingMoments.length).toBeGreaterThan(0);
    const [loss] = await nextLosses("default", imported, 1);
    expect(Math.abs(loss! - losses[0]!)).toBeLessThan(1e-5);
  });

  it("come over whole with Muon", async () => {
    const { content, report } = await importKind("muon");
    const { state } = expected.muon!;
    const slots = Object.entries(state).flatMap(([name, entry]) =>
      Object.keys(entry).flatMap((slot) => (slot === "step" ? [] : [`${name}.${slot}`])),
    );
    expect([...content.optimizer.keys()].sort()).toEqual(slots.sort());
    expect(report.missingMoments).toEqual([]);
    expect(content.config).toMatchObject({ optimizer: { name: "muon" } });
  });
});
