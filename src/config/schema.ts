// The whole configuration as one zod schema and the types that follow from it. `SpeedtronicConfig` is what the
// rest of the system reads: complete, validated, with the derived values filled in. `ConfigInput` is what people
// may write in code: everything optional, aliases included.

import * as z from "zod";
import { sections } from "./sections/index.js";

type Sections = (typeof sections)[number];
type NamedShape = { [S in Exclude<Sections, { name: "" }> as S["name"]]: S["schema"] };
type RootShape = Extract<Sections, { name: "" }>["shape"];

/** Canonical form: no aliases, no shorthands. Key order is the order of output. */
export const configSchema = z.strictObject(
  Object.fromEntries(
    sections.flatMap((section): [string, z.ZodType][] =>
      section.name === "" ? Object.entries(section.shape) : [[section.name, section.schema]],
    ),
  ) as NamedShape & RootShape,
);

type Canonical = z.output<typeof configSchema>;
type CanonicalInput = z.input<typeof configSchema>;
type Filled<T, K extends keyof T> = { [P in keyof T]: P extends K ? NonNullable<T[P]> : T[P] };

export type RunConfig = Canonical["run"];
/** `n_kv_head` is filled in; `d_ff` too, unless `mlp_width` takes its place. */
export type ModelConfig = Filled<Canonical["model"], "n_kv_head">;
export type DataConfig = Filled<Canonical["data"], "vocab_size" | "block_size" | "seed">;
export type OptimizerConfig = Canonical["optimizer"];
export type SchedulerConfig = Canonical["scheduler"];
export type PrecisionConfig = Canonical["precision"];
export type CheckpointConfig = Canonical["checkpoint"];
export type LoggingConfig = Canonical["logging"];
export type DistributedConfig = Canonical["distributed"];
export type ShapeValidationConfig = Canonical["shape_validation"];
export type EvaluationConfig = Filled<Canonical["evaluation"], "batch_size">;
export type SamplingConfig = Filled<Canonical["sampling"], "seed">;
export type LoraConfig = Canonical["lora"];
export type CompatConfig = Canonical["compat"];

export interface SpeedtronicConfig extends Omit<Canonical, "model" | "data" | "evaluation" | "sampling"> {
  model: ModelConfig;
  data: DataConfig;
  evaluation: EvaluationConfig;
  sampling: SamplingConfig;
}

type Loose<T> = { [K in keyof T]?: T[K] | undefined } | null;
type Switch = boolean | { enabled?: boolean } | null;

/** A configuration as written in code. Aliases and shorthands are the same as in files. */
export interface ConfigInput {
  run?: Loose<CanonicalInput["run"]>;
  model?: Loose<CanonicalInput["model"]>;
  data?: Loose<CanonicalInput["data"]>;
  optimizer?: Loose<CanonicalInput["optimizer"]> | OptimizerConfig["name"];
  scheduler?: Loose<CanonicalInput["scheduler"]>;
  precision?: Loose<CanonicalInput["precision"]> | PrecisionConfig["mode"];
  checkpoint?: Loose<CanonicalInput["checkpoint"]>;
  logging?: Loose<CanonicalInput["logging"]>;
  distributed?: Loose<CanonicalInput["distributed"]>;
  hub?: Loose<CanonicalInput["distributed"]>;
  diloco?: Loose<CanonicalInput["distributed"]>;
  shape_validation?: Loose<CanonicalInput["shape_validation"]>;
  evaluation?: Loose<CanonicalInput["evaluation"]>;
  sampling?: Loose<CanonicalInput["sampling"]>;
  lora?: Loose<CanonicalInput["lora"]>;
  compat?: Loose<CanonicalInput["compat"]> | "none" | "python";
  gradient_checkpointing?: Switch;
  compile?: Switch;
  ooo_backprop?: Switch;
  ooo_streams?: number;
  plugins?: readonly string[] | null;
  name?: string;
  seed?: number;
  device?: string;
  output_dir?: string;
  max_steps?: number;
  log_every?: number | null;
  muon_plus?: boolean;
  cautious?: boolean;
}
