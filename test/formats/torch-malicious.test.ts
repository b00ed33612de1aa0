// Files that would run code, take all memory or hide something when they are loaded: each is refused by name, and
// nothing has run.

import { existsSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";

import { bytesSource } from "../../src/formats/safetensors/index.js";
import { readTorchFile, TorchFileError } from "../../src/formats/torch/index.js";
import { maliciousFiles } from "./torch-corpus.js";
import { asm, call, floats, pickle, tensor, torchLegacy, torchZip, zip } from "./torch-craft.js";

const canary = join(tmpdir(), `speedtronic-canary-${process.pid}`);

async function refusalOf(file: Uint8Array): Promise<TorchFileError> {
  try {
    await readTorchFile(bytesSource(file, "evil.pt"));
  } catch (error) {
    if (error instanceof TorchFileError) return error;
    throw error;
  }
  return expect.fail("the file was accepted");
}

test.each(maliciousFiles(canary))("refused: $name", async ({ file, code, says }) => {
  const error = await refusalOf(file);
  expect(error.code).toBe(code);
  expect(error.message).toMatch(says);
  expect(error.message).toMatch(/^evil\.pt: /);
  expect(error.exitCode).toBe(4);
  expect(existsSync(canary)).toBe(false);
});

test("the refusal says where in the file the name stands", async () => {
  const file = torchZip(pickle(call("os", "system", asm.text("x"))));
  const error = await refusalOf(file);
  expect(file[error.offset!]).toBe(0x63);
  expect(Buffer.from(file.subarray(error.offset! + 1, error.offset! + 10)).toString()).toBe("os\nsystem");
  expect(error.details).toMatchObject({ name: "os.system", file: "evil.pt" });
});

test("the same parts without malice are read", async () => {
  const w = tensor("0", 4, [2, 2], [2, 1]);
  const good = pickle(asm.emptyDict(), asm.text("w"), w, asm.setItem());
  for (const file of [
    torchZip(good, { 0: floats(1, 2, 3, 4) }),
    zip(
      [
        { name: "x/data.pkl", bytes: good, zip64: true },
        { name: "x/data/0", bytes: floats(1, 2, 3, 4), zip64: true },
      ],
      { zip64: true },
    ),
  ]) {
    const { tensors } = await readTorchFile(bytesSource(file));
    expect(await tensors.read("w")).toEqual({ dtype: "F32", shape: [2, 2], bytes: floats(1, 2, 3, 4) });
  }
  const legacy = await readTorchFile(bytesSource(torchLegacy(pickle(asm.text("value")))));
  expect(legacy.root).toBe("value");
});

test("limits can be changed by a caller", async () => {
  const deep = torchZip(
    pickle(asm.emptyList(), asm.emptyList(), asm.emptyList(), asm.append(), asm.append()),
  );
  await expect(readTorchFile(bytesSource(deep), { maxDepth: 2 })).rejects.toThrow(/more than 2 deep/);
  await expect(readTorchFile(bytesSource(deep), { maxDepth: 3 })).resolves.toMatchObject({ root: [[[]]] });
  await expect(readTorchFile(bytesSource(deep), { maxObjects: 2 })).rejects.toThrow(/more than 2 objects/);
  await expect(readTorchFile(bytesSource(deep), { maxInstructions: 4 })).rejects.toThrow(
    /more than 4 instructions/,
  );
  await expect(readTorchFile(bytesSource(deep), { maxPickleBytes: 5 })).rejects.toThrow(
    /pickle has 6|at most 5/,
  );
  await expect(readTorchFile(bytesSource(deep), { maxRecords: 2 })).rejects.toThrow(/at most 2/);
});
