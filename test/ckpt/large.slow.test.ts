// A file of 4.4 GB with one tensor of 2.5 GiB: looked at, verified, rewritten and compared, each in a process of its
// own whose memory stays below 200 MB.

import { type ChildProcess, spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, readdirSync, rmSync, statfsSync } from "node:fs";
import { open } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, test } from "vitest";

const LARGE_BYTES = 2.5 * 2 ** 30;
const HALF_BYTES = 1.6e9;
const MAX_RSS_KB = 200_000;

const folder = mkdtempSync(join(tmpdir(), "speedtronic-large-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
const source = join(folder, "large.safetensors");
const copy = join(folder, "copy.safetensors");

const { bavail, bsize } = statfsSync(tmpdir());
const freeBytes = bavail * bsize;
/** The source is sparse, the copy is not. */
const neededBytes = 6e9;

async function writeSource(): Promise<void> {
  const header = JSON.stringify({
    large: { dtype: "F32", shape: [LARGE_BYTES / 4096, 1024], data_offsets: [0, LARGE_BYTES] },
    half: { dtype: "BF16", shape: [HALF_BYTES / 2], data_offsets: [LARGE_BYTES, LARGE_BYTES + HALF_BYTES] },
  });
  const text = Buffer.from(header.padEnd(Math.ceil(header.length / 8) * 8));
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(text.byteLength));
  const handle = await open(source, "wx");
  await handle.write(Buffer.concat([length, text]));
  await handle.truncate(8 + text.byteLength + LARGE_BYTES + HALF_BYTES);
  // Something to find on both sides of 2 GiB.
  const at = 8 + text.byteLength;
  await handle.write(Buffer.from(Float32Array.of(-1, 2).buffer), 0, 8, at);
  await handle.write(Buffer.from(Float32Array.of(3).buffer), 0, 4, at + LARGE_BYTES - 4);
  await handle.close();
}

function start(...args: string[]): ChildProcess {
  const cli = fileURLToPath(new URL("../../src/cli/main.ts", import.meta.url));
  return spawn(process.execPath, ["--import", "tsx", cli, "ckpt", ...args], { stdio: "ignore" });
}

/** Runs a tool and measures its peak memory by the system's own account. */
async function ckpt(...args: string[]): Promise<{ code: number; out: string; maxRssKb: number }> {
  const cli = fileURLToPath(new URL("../../src/cli/main.ts", import.meta.url));
  const report = "process.on('exit',()=>process.stderr.write('RSS '+process.resourceUsage().maxRSS))";
  const child = spawn(
    process.execPath,
    [
      "--import",
      "tsx",
      "--import",
      `data:text/javascript,${encodeURIComponent(report)}`,
      cli,
      "ckpt",
      ...args,
    ],
    { stdio: ["ignore", "pipe", "pipe"] },
  );
  let [out, err] = ["", ""];
  child.stdout.setEncoding("utf8").on("data", (text: string) => {
    out += text;
  });
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    err += text;
  });
  const code = await new Promise<number>((resolve) => child.once("close", (value) => resolve(value ?? -1)));
  return { code, out, maxRssKb: Number(/RSS (\d+)/.exec(err)?.[1]) };
}

// The reason is printed with the test's name.
const lacksSpace = freeBytes < neededBytes;
const title = lacksSpace
  ? `skipped: needs ${neededBytes / 1e9} GB of free disk, has ${(freeBytes / 1e9).toFixed(1)}`
  : "a file of 4.4 GB";

describe.skipIf(lacksSpace)(title, () => {
  beforeAll(writeSource);

  test("its statistics cover both ends of the large tensor", async () => {
    const { code, out, maxRssKb } = await ckpt("stats", source, "--only", "large", "--json");
    expect(code).toBe(0);
    expect(JSON.parse(out).tensors[0]).toMatchObject({ min: -1, max: 3, zeros: LARGE_BYTES / 4 - 3 });
    expect(maxRssKb).toBeLessThan(MAX_RSS_KB);
  });

  test("it is verified", async () => {
    const { code, maxRssKb } = await ckpt("verify", source);
    expect(code).toBe(0);
    expect(maxRssKb).toBeLessThan(MAX_RSS_KB);
  });

  test("it is rewritten, and the copy is the same", async () => {
    const written = await ckpt("convert", source, "--to", "safetensors", "-o", copy);
    expect(written.code).toBe(0);
    expect(written.maxRssKb).toBeLessThan(MAX_RSS_KB);
    const compared = await ckpt("diff", source, copy);
    expect(compared.code).toBe(0);
    expect(compared.maxRssKb).toBeLessThan(MAX_RSS_KB);
  });

  test.skipIf(process.platform === "win32")("Ctrl-C in the middle leaves nothing behind", async () => {
    const target = join(folder, "stopped");
    mkdirSync(target);
    const child = start("cast", source, "--to", "bf16", "-o", join(target, "out.safetensors"));
    while (readdirSync(target).length === 0) await new Promise((resolve) => setTimeout(resolve, 20));
    child.kill("SIGINT");
    const code = await new Promise((resolve) => child.once("close", resolve));
    expect([code, readdirSync(target)]).toEqual([130, []]);
  });
});
