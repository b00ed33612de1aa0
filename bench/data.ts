// `npm run bench -- data`: whether data keep up with training. How much of a step of size S is waiting for data, how fast
// prepared ids are read compared with what a step takes, and how much time and memory it is to tokenise a large text.

import { spawnSync } from "node:child_process";
import { closeSync, mkdtempSync, openSync, readFileSync, rmSync, writeSync } from "node:fs";
import { cpus, tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { sizes } from "./sizes.js";
import { type Spread, spread } from "./stats.js";

export interface DataBenchOptions {
  readonly rounds: number;
  readonly steps: number;
  readonly threads: number;
  /** A `tokenizer.json`; without one bytes are the ids. */
  readonly tokenizer: string | undefined;
  /** Of the text that is tokenised. */
  readonly sizeMb: number;
  readonly folder: string | undefined;
  readonly log: (text: string) => void;
}

interface Prepared {
  readonly workers: number;
  readonly sizeMb: number;
  readonly seconds: Spread;
  readonly megabytesPerSec: number;
  readonly tokensPerSec: number;
  readonly peakMb: number;
}

export interface DataBenchResult {
  readonly bench: "data";
  readonly processor: string | undefined;
  readonly cores: number;
  readonly node: string;
  readonly rounds: number;
  readonly tokenizer: string;
  readonly training: {
    readonly tokensPerSec: Spread;
    /** Of the time of all steps. */
    readonly waitingShare: Spread;
    /** From nothing to the first step, with tokenising and without. */
    readonly firstStepS: { readonly fromText: Spread; readonly fromCache: Spread };
  };
  readonly reading: { readonly tokensPerSec: Spread; readonly timesTraining: number };
  readonly preparing: readonly Prepared[];
}

type Measured = Readonly<Record<string, number>>;

const script = fileURLToPath(new URL("./data-speedtronic.mjs", import.meta.url));

export function benchData(options: DataBenchOptions): DataBenchResult {
  const { rounds, steps, threads, tokenizer, sizeMb, folder: parent, log } = options;
  const folder = mkdtempSync(join(parent ?? tmpdir(), "speedtronic-data-"));
  const size = sizes.S!;
  const naming = tokenizer === undefined ? {} : { tokenizer };
  const separated = { document_separator: "\n\n", cache_dir: join(folder, "cache"), ...naming };
  try {
    const small = writeText(join(folder, "small.txt"), 10);
    const large = writeText(join(folder, "large.txt"), sizeMb);
    const ids = join(folder, "ids");
    run("prepare", { size, data: { ...separated, sources: small }, out: ids, workers: threads });

    const [fromText, fromCache, loaded]: [Measured[], Measured[], Measured[]] = [[], [], []];
    for (let round = 1; round <= rounds; round++) {
      const data = { ...separated, sources: small };
      rmSync(separated.cache_dir, { recursive: true, force: true });
      fromText.push(run("train", { size, threads, steps, data }));
      fromCache.push(run("train", { size, threads, steps, data }));
      loaded.push(run("load", { size, data: { ...naming, sources: ids }, batches: 2000 }));
      const { tokensPerSec, waitingShare } = fromCache.at(-1)!;
      log(
        `round ${round}/${rounds}: ${Math.round(tokensPerSec!)} tok/s, ${percent(waitingShare!)} waiting\n`,
      );
    }
    const preparing = [1, threads].map((workers): Prepared => {
      const times: Measured[] = [];
      for (let round = 1; round <= rounds; round++) {
        const data = { ...separated, sources: large };
        times.push(run("prepare", { size, data, out: join(folder, "large-ids"), workers }));
        log(`preparing by ${workers}, round ${round}/${rounds}: ${times.at(-1)!.seconds!.toFixed(1)} s\n`);
      }
      const seconds = spread(of(times, "seconds"));
      return {
        workers,
        sizeMb,
        seconds,
        megabytesPerSec: sizeMb / seconds.median,
        tokensPerSec: spread(of(times, "tokensPerSec")).median,
        peakMb: Math.max(...of(times, "peakMb")),
      };
    });
    const tokensPerSec = spread(of([...fromText, ...fromCache], "tokensPerSec"));
    const reading = spread(of(loaded, "tokensPerSec"));
    return {
      bench: "data",
      processor: cpus()[0]?.model.trim(),
      cores: cpus().length,
      node: process.versions.node,
      rounds,
      tokenizer: tokenizer === undefined ? "bytes" : `${size.vocab} ids`,
      training: {
        tokensPerSec,
        waitingShare: spread(of([...fromText, ...fromCache], "waitingShare")),
        firstStepS: {
          fromText: spread(of(fromText, "firstStepS")),
          fromCache: spread(of(fromCache, "firstStepS")),
        },
      },
      reading: { tokensPerSec: reading, timesTraining: reading.median / tokensPerSec.median },
      preparing,
    };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

export function formatData({ training, reading, preparing, tokenizer }: DataBenchResult): string {
  const { tokensPerSec, waitingShare, firstStepS } = training;
  const lines = [
    `training S (${tokenizer}): ${Math.round(tokensPerSec.median)} tok/s, waiting for data ${percent(waitingShare.median)} of the time ` +
      `(${percent(waitingShare.min)} to ${percent(waitingShare.max)})`,
    `first step after ${firstStepS.fromText.median.toFixed(1)} s from a text of 10 MB, ${firstStepS.fromCache.median.toFixed(1)} s once it is tokenised`,
    `prepared ids: ${Math.round(reading.tokensPerSec.median)} tok/s, ${reading.timesTraining.toFixed(0)} times what training takes`,
    ...preparing.map(
      ({ workers, sizeMb, seconds, megabytesPerSec, peakMb }) =>
        `tokenising ${sizeMb} MB by ${workers}: ${seconds.median.toFixed(1)} s, ${megabytesPerSec.toFixed(1)} MB/s, peak ${Math.round(peakMb)} MB`,
    ),
  ];
  return lines.join("\n");
}

function run(task: string, options: object): Measured {
  const done = spawnSync(process.execPath, [script, task, JSON.stringify(options)], { encoding: "utf8" });
  if (done.status !== 0) throw new Error(`${task} failed: ${done.stderr}`);
  return JSON.parse(done.stdout.trim().split("\n").at(-1)!) as Measured;
}

function of(list: readonly Measured[], key: string): number[] {
  return list.map((measured) => measured[key]!);
}

function percent(share: number): string {
  return `${(100 * share).toFixed(2)} %`;
}

/** The demo's book over and over, with a number between its copies, so that no two blocks are alike. */
function writeText(path: string, sizeMb: number): string {
  const book = readFileSync(fileURLToPath(new URL("../assets/moby-dick.txt", import.meta.url)), "utf8");
  const file = openSync(path, "w");
  try {
    for (let written = 0, copy = 1; written < sizeMb * 1e6; copy++)
      written += writeSync(file, `Copy ${copy}\n\n${book.slice(0, sizeMb * 1e6 - written)}`);
  } finally {
    closeSync(file);
  }
  return path;
}
