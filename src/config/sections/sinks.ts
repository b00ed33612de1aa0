// The kind of `logging.sinks`: a list of words and mappings, and the rules for what stands in one. Opens nothing.

import * as z from "zod";

const sinkTypes = ["console", "text", "jsonl", "tensorboard", "wandb", "callback", "trace"] as const;

const sinkEntry = z.strictObject({
  type: z.enum(sinkTypes),
  path: z.string().min(1).optional(),
  every_steps: z.int().min(1).optional(),
  level: z.enum(["DEBUG", "INFO", "WARNING", "ERROR"]).optional(),
  project: z.string().min(1).optional(),
  entity: z.string().min(1).optional(),
  module: z.string().min(1).optional(),
  export: z.string().min(1).optional(),
});

export type SinkType = (typeof sinkTypes)[number];
export type SinkEntry = z.output<typeof sinkEntry>;

export const sinkList = z.array(z.union([z.enum(sinkTypes), sinkEntry]));

export const expectedSinks = `a list of ${sinkTypes.slice(0, -1).join(", ")} or ${sinkTypes.at(-1)}, or of mappings with such a type and path, every_steps, level, project, entity, module or export`;

const files = ["path", "every_steps"] as const;
/** Keys beside `type` that say something to a sink; the others need none. */
const keysOf: Readonly<Record<SinkType, readonly (keyof SinkEntry)[]>> = {
  console: ["every_steps", "level"],
  text: [...files, "level"],
  jsonl: files,
  tensorboard: files,
  wandb: ["every_steps", "project", "entity"],
  callback: ["every_steps", "module", "export"],
  trace: ["path"],
};

const needed: Partial<Readonly<Record<SinkType, keyof SinkEntry>>> = {
  wandb: "project",
  callback: "module",
};

/** Where a sink writes unless it says so, in `run.output_dir`. */
export const defaultSinkPaths: Partial<Readonly<Record<SinkType, string>>> = {
  text: "train.log",
  jsonl: "metrics.jsonl",
  tensorboard: "tensorboard",
  trace: "trace.json",
};

export function asSinkEntry(item: SinkType | SinkEntry): SinkEntry {
  return typeof item === "string" ? { type: item } : item;
}

/** What is wrong with a list of sinks, or undefined. */
export function findSinkProblem(list: readonly (SinkType | SinkEntry)[] | null): string | undefined {
  const places = new Set<string>();
  for (const [index, item] of (list ?? []).entries()) {
    const entry = asSinkEntry(item);
    const { type } = entry;
    const where = `entry ${index + 1} (${type})`;
    const foreign = Object.keys(entry).find(
      (key) => key !== "type" && !keysOf[type].includes(key as keyof SinkEntry),
    );
    if (foreign !== undefined)
      return `${where} has the key ${foreign}, which says nothing to it; it takes ${keysOf[type].join(", ")}`;
    const missing = needed[type];
    if (missing !== undefined && entry[missing] === undefined) return `${where} needs the key ${missing}`;
    const path = entry.path ?? defaultSinkPaths[type];
    if (path === undefined) continue;
    if (places.has(path)) return `${where} writes to ${path}, and so does an earlier one`;
    places.add(path);
  }
  if ((list ?? []).filter((item) => asSinkEntry(item).type === "console").length > 1)
    return "console stands in it twice; there is one console";
  return undefined;
}
