// Sources as training takes them: through the configuration, the loader, and the command line.

import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { resolveConfig } from "../../../src/config/resolve.js";
import { buildDataloader, type DataOptions } from "../../../src/data/index.js";
import { dataloaderOptions } from "../../../src/train/from-config.js";
import { progressLines } from "../../../src/train/source-options.node.js";
import { cli } from "../../cli/harness.js";
import { rowsOf, samplesOf, take, temporaryFolder } from "../helpers.js";
import { documentsOf, separator, writePlainForms } from "./corpus.js";

const base = { vocabSize: 300, blockSize: 16, microBatchSize: 3 };

async function build(options: Partial<DataOptions>, cacheDirectory: string) {
  const built = await buildDataloader({ config: { ...base, ...options }, endOfText: 256, cacheDirectory });
  onTestFinished(() => built.train.close());
  return built;
}

describe("the batches of sources", () => {
  it("are equal for every form, with equal fingerprints", async () => {
    const folder = await temporaryFolder();
    const { entries } = await writePlainForms(folder, documentsOf(40));
    const cache = join(folder, "cache");
    const options = { shuffle: true, seed: 5, validationFraction: 0.1 };
    const results = [];
    for (const entry of Object.values(entries)) {
      const { train, validation, fingerprint } = await build({ ...options, sources: [entry] }, cache);
      results.push({ batches: await take(train, 20), held: await samplesOf(validation!), fingerprint });
    }
    for (const result of results.slice(1)) expect(result).toEqual(results[0]);
  });

  it("go on after three resumes as if there had been none", async () => {
    const folder = await temporaryFolder();
    const { entries } = await writePlainForms(folder, documentsOf(40));
    const weighed = [
      { ...entries.txt!, weight: 2 },
      { ...entries.jsonl!, weight: 1 },
    ];
    for (const sources of [[entries.gz!], weighed]) {
      const open = () => build({ sources, shuffle: true, seed: 11, numWorkers: 2 }, join(folder, "cache"));
      const whole = await open();
      const count = 2 * whole.train.batchesPerEpoch + 7;
      const expected = (await take(whole.train, count)).map((batch) => rowsOf(batch, "input_ids"));
      const found = [];
      let place = (await open()).train.position();
      for (const until of [13, whole.train.batchesPerEpoch + 1, 2 * whole.train.batchesPerEpoch - 2, count]) {
        const { train } = await open();
        train.seek(JSON.parse(JSON.stringify(place)));
        found.push(...(await take(train, until - found.length)).map((batch) => rowsOf(batch, "input_ids")));
        place = train.position();
        await train.close();
      }
      expect(found).toEqual(expected);
    }
  });

  it("hold out the end of each source, from the beginning of a document where one is near", async () => {
    const folder = await temporaryFolder();
    const documents = documentsOf(200, 3, 5);
    const { entries } = await writePlainForms(folder, documents);
    const { validation } = await build(
      { sources: [entries.txt!], validationFraction: 0.25 },
      join(folder, "cache"),
    );
    const [first] = await samplesOf(validation!);
    // The id before is its input, and ends the document before.
    expect(first!.inputIds[0]).toBe(256);
    const start = Buffer.from(first!.labels.slice(0, 6)).toString();
    expect(start).toMatch(/^1[45]\d: /);
  });

  it("mix by weight, each source by itself", async () => {
    const folder = await temporaryFolder();
    await mkdir(folder, { recursive: true });
    await writeFile(join(folder, "a.txt"), "a".repeat(1600));
    await writeFile(join(folder, "b.txt"), "b".repeat(1600));
    const sources = [
      { paths: [join(folder, "a.txt")], weight: 3 },
      { paths: [join(folder, "b.txt")], weight: 1 },
    ];
    const { train } = await build({ sources, microBatchSize: 4 }, join(folder, "cache"));
    const counts = (await take(train, 10)).map(
      (batch) => rowsOf(batch, "input_ids")!.filter((row) => row[3] === 98).length,
    );
    expect(counts).toEqual(Array.from({ length: 10 }, () => 1));
  });

  it("are refused for a vocabulary that is too small, for a text that is too short, and for half the weights", async () => {
    const folder = await temporaryFolder();
    const path = join(folder, "short.txt");
    await writeFile(path, "short");
    const sources = [{ paths: [path] }];
    await expect(build({ sources, vocabSize: 256 }, folder)).rejects.toThrow(/it has 257 ids, the model 256/);
    await expect(build({ sources }, folder)).rejects.toThrow(
      /short\.txt is shorter than one block: 6 training tokens/,
    );
    await expect(build({ sources: [...sources, { paths: [path], weight: 1 }] }, folder)).rejects.toThrow(
      /1 of 2 entries of data\.sources have a weight/,
    );
  });

  it("say what was left out", async () => {
    const folder = await temporaryFolder();
    const path = join(folder, "some.jsonl");
    const lines = documentsOf(30).map((text) => JSON.stringify({ text }));
    await writeFile(path, [...lines, "{", "[]"].join("\n"));
    const sources = [{ paths: [path] }];
    for (const _ of ["tokenised now", "tokenised before"]) {
      const { notices } = await build({ sources, badRecordLimit: 2 }, join(folder, "cache"));
      expect(notices).toEqual([
        {
          code: "data.bad_records",
          message: expect.stringMatching(/^2 records of .*some\.jsonl were left out: .*line 31: .*line 32: /),
          details: expect.objectContaining({ count: 2 }),
        },
      ]);
    }
    await expect(build({ sources, badRecordLimit: 1 }, join(folder, "cache"))).rejects.toMatchObject({
      code: "data.bad_records",
      exitCode: 3,
    });
  });
});

describe("the configuration of sources", () => {
  const optionsOf = (data: object) => dataloaderOptions(resolveConfig({ data })).config.sources;
  const plain = { format: "auto", textField: "text", template: null, separator: null, weight: null };

  it("gives each entry what it does not say itself", () => {
    expect(optionsOf({ sources: "a/*.txt" })).toEqual([{ ...plain, paths: ["a/*.txt"] }]);
    expect(
      optionsOf({
        format: "jsonl",
        template: "{q}",
        document_separator: "---",
        sources: [
          "a",
          { path: ["b", "c"], format: "text" },
          { path: "d", text_field: "body", template: null },
        ],
      }),
    ).toEqual([
      { ...plain, paths: ["a"], format: "jsonl", template: "{q}", separator: "---" },
      { ...plain, paths: ["b", "c"], format: "text", template: "{q}", separator: "---" },
      { ...plain, paths: ["d"], format: "jsonl", textField: "body", separator: "---" },
    ]);
    expect(optionsOf({})).toEqual([]);
  });

  it("is refused where it contradicts itself", () => {
    for (const [data, message] of [
      [{ sources: "a", text_path: "b" }, /set beside text_path/],
      [{ sources: ["a", { path: "b", weight: 1 }] }, /1 of 2 entries have a weight/],
      [{ sources: [] }, /sources/],
      [{ sources: [{ path: "a", wieght: 2 }] }, /sources/],
      [{ sources: "a", document_separator: "" }, /document_separator/],
    ] as const)
      expect(() => resolveConfig({ data } as never)).toThrow(message);
  });
});

describe("the command line", () => {
  async function configFile(data: string): Promise<{ folder: string; path: string }> {
    const folder = await temporaryFolder();
    await writePlainForms(folder, documentsOf(40));
    const path = join(folder, "run.yaml");
    writeFileSync(
      path,
      `run: {max_steps: 2, output_dir: ${join(folder, "run")}, threads: 1}
model: {vocab_size: 256, max_seq_len: 32, n_layer: 1, n_head: 2, d_model: 16, d_ff: 32}
checkpoint: {every_steps: 2}
scheduler: {warmup_steps: 0}
logging: {json_file: ${join(folder, "log.jsonl")}}
data:
  micro_batch_size: 2
  target_batch_size: 2
  document_separator: ${JSON.stringify(separator)}
  cache_dir: ${join(folder, "cache")}
  ${data.replaceAll("$", folder)}
`,
    );
    return { folder, path };
  }

  it("trains on sources, and again without tokenising", async () => {
    const { folder, path } = await configFile("sources: [$/parts/**/*.txt]\n  validation_fraction: 0.1");
    const { code, err, out } = await cli(["train", "--config", path]);
    expect({ code, err }).toEqual({ code: 0, err: "" });
    expect(out).toMatch(/completed steps=2 samples=4 tokens=128/);
    const [tokenised] = readdirSync(join(folder, "cache", "tokens"));
    const manifest = join(folder, "cache", "tokens", tokenised!, "manifest.json");
    const before = readFileSync(manifest, "utf8");
    expect((await cli(["train", "--config", path, "--set", "run.max_steps=3"])).code).toBe(0);
    expect(readFileSync(manifest, "utf8")).toBe(before);
  });

  it("stops a run with exit code 3 when too many records are bad, and logs those within the limit", async () => {
    const { folder, path } = await configFile("sources: $/mixed.jsonl");
    const lines = documentsOf(40).map((text) => JSON.stringify({ text }));
    writeFileSync(join(folder, "mixed.jsonl"), [...lines, "{"].join("\n"));
    const refused = await cli(["train", "--config", path, "--set", "data.bad_record_limit=0"]);
    expect(refused.code).toBe(3);
    expect(refused.err).toMatch(/1 record cannot be used, and data\.bad_record_limit is 0/);
    expect((await cli(["train", "--config", path])).code).toBe(0);
    expect(readFileSync(join(folder, "log.jsonl"), "utf8")).toMatch(/mixed\.jsonl, line 41/);
  });

  it("prepares a folder that trains to the same loss as its sources", async () => {
    const { folder, path } = await configFile("sources: $/corpus.txt");
    const tokens = join(folder, "tokens");
    const prepared = await cli([
      "data",
      "prepare",
      "--config",
      path,
      "--out",
      tokens,
      "--workers",
      "2",
      "--json",
    ]);
    expect(prepared).toMatchObject({ code: 0, err: "" });
    expect(JSON.parse(prepared.out)).toMatchObject({
      was_there: false,
      documents: 40,
      vocab_size: 256,
      bad_records: 0,
    });
    expect((await cli(["data", "prepare", "--config", path, "--out", tokens])).out).toMatch(
      /^holds this already: /,
    );
    const losses = [];
    for (const source of [join(folder, "corpus.txt"), tokens]) {
      const set = [
        "--set",
        `data.sources=${source}`,
        "--set",
        `run.output_dir=${join(folder, String(losses.length))}`,
      ];
      const { out, code } = await cli(["train", "--config", path, ...set]);
      expect(code).toBe(0);
      losses.push(/completed steps=2 .*loss=\S+/.exec(out)?.[0]);
    }
    expect(losses[0]).toBeDefined();
    expect(losses[1]).toBe(losses[0]);
  });

  it("says what it cannot prepare", async () => {
    const { path, folder } = await configFile("synthetic: true");
    const { code, err } = await cli(["data", "prepare", "--config", path, "--out", join(folder, "x")]);
    expect(code).toBe(2);
    expect(err).toMatch(/neither data\.sources nor data\.text_path is set/);
  });
});

describe("the progress of tokenising", () => {
  it("is a line each few seconds", () => {
    const lines: string[] = [];
    let now = 0;
    const progress = progressLines(
      (text) => lines.push(text),
      () => now,
    );
    for (now = 1000; now <= 12_000; now += 1000) progress("books", { documents: 10, tokens: now * 1000 });
    expect(lines).toEqual([
      "tokenising books: 10 documents, 5M tokens so far\n",
      "tokenising books: 10 documents, 10M tokens so far\n",
    ]);
  });
});
