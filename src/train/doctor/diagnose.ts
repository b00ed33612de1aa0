// The deep check of a run before it is one: every part is built or asked as training would, and let go again. A check
// that fails does not keep the others from looking.

import type { SpeedtronicConfig } from "../../config/schema.js";
import type { LoadedBatch } from "../../data/types.js";
import type { Transport } from "../../distributed/transports/contract.js";
import { formatCount, formatDuration } from "../../observe/number-text.js";
import { loadAdapterBase } from "../adapters.node.js";
import { openTransport } from "../open-transport.node.js";
import { type PlannedRun, planRun } from "../plan/plan-run.js";
import { type Probe, probeSpeed } from "../plan/probe.js";
import { checkData } from "./data.js";
import { type CheckResult, type Diagnosis, type Finding, Findings, isExpected } from "./finding.js";
import { checkMemory, checkPlaces, type Machine, thisMachine } from "./places.js";
import { checkRepository } from "./repository.js";
import { checkSettings } from "./settings.js";

export interface DiagnoseOptions {
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Whether a few updates are run. Default true. */
  readonly probes?: boolean;
  readonly machine?: Machine;
  /** In place of what `distributed.repo_id` names. The caller closes it. */
  readonly transport?: Transport;
  readonly signal?: AbortSignal;
}

/** Where the fault of a failed check most likely is, and where to look if its message does not say what to do. */
const places: Readonly<Record<string, readonly [where: string, action: string]>> = {
  data: ["data", "correct the section data, or put the file there"],
  model: ["model", "correct the section model"],
  speed: ["model", "correct the section model, or report it with the output of --trace"],
  repository: ["distributed.repo_id", "correct the section distributed"],
};

export async function diagnose(config: SpeedtronicConfig, options: DiagnoseOptions): Promise<Diagnosis> {
  const { machine = thisMachine(), probes = true, signal } = options;
  const checks: CheckResult[] = [];
  const findings: Finding[] = [];

  const run = async (check: string, look: (own: Findings) => Promise<string> | string): Promise<boolean> => {
    const own = new Findings(check);
    let detail = "";
    try {
      detail = await look(own);
    } catch (error) {
      if (!isExpected(error) || signal?.aborted) throw error;
      const [where, action] = places[check] ?? [check, "see speedtronic doctor --help"];
      own.problem(where, error.message, action);
    }
    findings.push(...own.all);
    checks.push({ check, status: own.hasProblem ? "problem" : "ok", detail });
    return !own.hasProblem;
  };
  const skip = (check: string, detail: string) => {
    checks.push({ check, status: "skipped", detail });
  };

  let batch: LoadedBatch | undefined;
  let planned: PlannedRun | undefined;
  let probe: Probe | undefined;
  await run("settings", (own) => checkSettings(config, own));
  await run("data", async (own) => {
    const seen = await checkData(config, own);
    batch = seen.batch;
    return seen.detail;
  });
  await run("model", async () => {
    const found = planRun(config);
    if (config.lora.base !== null && config.lora.rank !== null)
      await loadAdapterBase(found.model, config.lora.base, config);
    planned = found;
    const { parameters, flopsPerToken } = found.plan;
    return `${formatCount(parameters)} parameters, ${formatCount(flopsPerToken)} FLOPs per token`;
  });
  let fits = false;
  if (planned === undefined) skip("memory", "the model cannot be built");
  else {
    const { memory } = planned.plan;
    fits = await run("memory", (own) => checkMemory(memory, machine, own));
  }
  await run("disk", (own) => checkPlaces(config, planned?.plan.disk, machine, own));
  if (!probes) skip("speed", "not asked for");
  else if (planned === undefined) skip("speed", "the model cannot be built");
  else if (!fits) skip("speed", "there is too little memory");
  else {
    const { model, graph, batch: stand, plan } = planned;
    await run("speed", async (own) => {
      // Real samples, where they have the shape that the graph was traced for.
      const input = batch !== undefined && sameTypes(batch, stand) ? batch : stand;
      probe = await probeSpeed(config, model, graph, input, signal === undefined ? {} : { signal });
      if (!Number.isFinite(probe.loss))
        own.problem(
          "model",
          `the first loss is ${probe.loss}: training would end with its first update`,
          "check the sizes of the model and the data",
        );
      const time = formatDuration(plan.tokens / probe.tokensPerSec);
      return `${formatDuration(probe.stepS)} an update, ${formatCount(probe.tokensPerSec)} tokens/s, ${time} in all; first loss ${probe.loss.toPrecision(4)}`;
    });
  }
  if (config.distributed.enabled)
    await run("repository", async (own) => {
      const warn = (message: string) => own.note("distributed.token", message);
      const transport = options.transport ?? openTransport(config.distributed, options.env, warn);
      try {
        return await checkRepository(config, transport, probe?.stepS, own, { signal });
      } finally {
        if (options.transport === undefined) await transport.close();
      }
    });
  return { checks, findings };
}

function sameTypes({ batch }: LoadedBatch, stand: PlannedRun["batch"]): boolean {
  const textOf = (fields: LoadedBatch["batch"]) =>
    JSON.stringify(Object.entries(fields).map(([name, { dtype, shape }]) => [name, dtype, shape]));
  return textOf(batch) === textOf(stand.batch);
}
