// Finds and reads the metrics file of a run, line by line: files of any length, in the memory of what is shown.

import { createReadStream } from "node:fs";
import { readdir, stat } from "node:fs/promises";
import { basename, join, resolve } from "node:path";
import { createInterface } from "node:readline";
import { DataError } from "../../util/errors.js";
import { RunData } from "./run-data.js";

const usualName = "metrics.jsonl";

/**
 * @param path a folder that a run writes to, or its metrics file
 * @throws DataError `report.no_run`, `report.no_metrics`
 */
export async function readRun(path: string): Promise<RunData> {
  const file = await findMetrics(path);
  const run = new RunData(labelOf(path), file);
  const lines = createInterface({
    input: createReadStream(file, "utf8"),
    crlfDelay: Number.POSITIVE_INFINITY,
  });
  for await (const line of lines) run.addLine(line);
  if (run.events > 0) return run;
  throw new DataError(`${file}: holds no events; name the metrics file of a run, or its folder`, {
    code: "report.no_metrics",
    details: { path: file },
  });
}

/** Several runs of one name are told apart by their paths. */
export async function readRuns(paths: readonly string[]): Promise<RunData[]> {
  const runs: RunData[] = [];
  for (const path of paths) runs.push(await readRun(path));
  const labels = runs.map(({ label }) => label);
  for (const [index, run] of runs.entries())
    if (labels.some((label, other) => other !== index && label === run.label)) run.label = paths[index]!;
  return runs;
}

async function findMetrics(path: string): Promise<string> {
  const status = await stat(path).catch(() => undefined);
  if (status === undefined)
    throw new DataError(`${path}: there is no such file or folder; name the run.output_dir of a run`, {
      code: "report.no_run",
      details: { path },
    });
  if (!status.isDirectory()) return path;
  const files = (await readdir(path)).filter((name) => name.endsWith(".jsonl")).sort();
  const name = files.includes(usualName) ? usualName : files[0];
  if (name !== undefined) return join(path, name);
  throw new DataError(
    `${path}: there is no metrics file (${usualName}) in it; a run writes one with logging.sinks: [console, jsonl]. ` +
      "If it is elsewhere (logging.json_file), name the file",
    { code: "report.no_metrics", details: { path } },
  );
}

/** `runs/demo`, `runs/demo/` and `runs/demo/metrics.jsonl` are `demo`. */
function labelOf(path: string): string {
  const full = resolve(path);
  const isUsual = basename(full) === usualName;
  const name = basename(isUsual ? resolve(full, "..") : full);
  return name.replace(/\.jsonl$/, "") || full;
}
