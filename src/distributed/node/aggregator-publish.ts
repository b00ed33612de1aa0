// One round from its plan to the repository: the outer step into scratch files, then everything in one commit.

import { openSafetensors, type SafetensorsReader } from "../../formats/safetensors/index.js";
import { LEDGER_PATH } from "../protocol/ledger-text.js";
import type { RoundPlan } from "../protocol/master-contract.js";
import type { RepoOperation, Transport } from "../transports/contract.js";
import { bufferRules } from "../wire/buffer-merge.js";
import { LATEST_MODEL_FILE, versionedModelFile } from "../wire/model-file.js";
import type { JsonValue } from "../wire/python-json.js";
import {
  ALGORITHM,
  encodeVersionRecord,
  formatUpdatedAt,
  OPTIMIZER,
  VERSION_RECORD_PATH,
  type VersionRecord,
} from "../wire/version-record.js";
import { writeOuterStep } from "../wire/write-outer-step.js";
import { commitChecked } from "./aggregator-commit.js";
import { presentDelta, presentFiles } from "./aggregator-files.js";
import { encodeHistory, HISTORY_PATH, type History } from "./aggregator-history.js";
import { extraOf, isSameOwner, momentumFile, type RecordFacts } from "./aggregator-record.js";
import { ledgerDocument, listDeltas } from "./aggregator-repository.js";
import { fencedError, type LiveRun, scratchName } from "./aggregator-run.js";
import { type ScratchFile, type Surroundings, sha256Of, smallContent } from "./aggregator-surroundings.js";

export interface PublishContext {
  readonly transport: Transport;
  readonly surroundings: Surroundings;
  readonly keepVersions: number;
  /** More keys of the record that this version needs; `earlier`: those of the version before. */
  readonly recordFields?:
    | ((plan: RoundPlan, earlier: Readonly<Record<string, JsonValue>>) => Readonly<Record<string, JsonValue>>)
    | undefined;
  /** Content ids by path in the listing that the plan was made from. */
  readonly listed: ReadonlyMap<string, string>;
  /** From 0 to below 1. Default: Math.random. */
  readonly random?: (() => number) | undefined;
  readonly signal?: AbortSignal | undefined;
  onTrouble(problem: string, message: string): void;
}

/** What the repository says is newer than what this process knows, and is its own: read it again. */
export class BehindError extends Error {}

/**
 * The run after the round.
 * @throws WireError `wire.non_finite` when a delta is too large to be added; AggregatorError `fenced`, `scratch_lost`;
 *   BehindError; TransportError, after which the version may have been published.
 */
export async function publishRound(context: PublishContext, run: LiveRun, plan: RoundPlan): Promise<LiveRun> {
  const { transport, surroundings, keepVersions } = context;
  const { hasher } = surroundings;
  const { outerStep } = plan;
  const { state, momentum } = await computeRound(context, run, plan);
  const files = { model: versionedModelFile(outerStep), momentum: momentumFile(outerStep) };
  const oldest = outerStep - keepVersions;
  const history: History = {
    norms: plan.norms,
    versions: [
      ...run.history.versions.filter((version) => version.outerStep >= oldest),
      {
        outerStep,
        parentOuterStep: plan.parentOuterStep,
        modelFile: files.model,
        modelSha256: state.sha256,
        momentumFile: files.momentum,
        momentumSha256: momentum.sha256,
        lr: plan.lr,
        mu: plan.mu,
        usesPlainMean: plan.usesPlainMean,
        deltas: plan.deltas,
      },
    ],
  };
  const historyText = encodeHistory(history);
  const ledgerText = ledgerDocument(plan.ledger, hasher);
  const facts: RecordFacts = {
    owner: run.owner,
    parentOuterStep: plan.parentOuterStep,
    modelSha256: state.sha256,
    momentumFile: files.momentum,
    momentumSha256: momentum.sha256,
    ledgerSha256: ledgerText.sha256,
    historySha256: sha256Of(hasher, historyText),
    outerLr: plan.lr,
    outerMomentum: plan.mu,
    fingerprint: run.fingerprint,
    bufferPolicies: run.head.facts.bufferPolicies,
  };
  const record: VersionRecord = {
    outerStep,
    modelFile: files.model,
    updatedAt: formatUpdatedAt(surroundings.dateMs()),
    algorithm: ALGORITHM,
    optimizer: OPTIMIZER,
    isBootstrap: false,
    extra: extraOf(facts, {
      ...run.head.record.extra,
      ...context.recordFields?.(plan, run.head.record.extra),
    }),
  };
  const puts: RepoOperation[] = [
    { kind: "put", path: files.model, content: state.content() },
    { kind: "put", path: LATEST_MODEL_FILE, content: state.content() },
    { kind: "put", path: files.momentum, content: momentum.content() },
    { kind: "put", path: LEDGER_PATH, content: smallContent(hasher, ledgerText.text) },
    { kind: "put", path: HISTORY_PATH, content: smallContent(hasher, historyText) },
    { kind: "put", path: VERSION_RECORD_PATH, content: smallContent(hasher, encodeVersionRecord(record)) },
  ];
  const message = `speedtronic: version ${outerStep} from ${plan.deltas.length} deltas`;
  const revision = await commitChecked(
    transport,
    surroundings.clock,
    {
      parent: run.head.revision,
      build: async (parent) => ({
        parent,
        message,
        operations: [...puts, ...(await deletions(context, parent, plan, oldest))],
      }),
      look: (found) => {
        if (found === undefined || !isSameOwner(found.facts.owner, run.owner)) {
          throw fencedError(transport, found, run.owner);
        }
        if (found.record.outerStep === plan.parentOuterStep) return "again";
        const isOurs = found.record.outerStep === outerStep && found.facts.modelSha256 === state.sha256;
        // The ledger decides what a version is: equal weights may come with another one.
        if (isOurs && found.facts.ledgerSha256 === ledgerText.sha256) return "done";
        throw new BehindError(`version ${found.record.outerStep} is in the repository already`);
      },
      random: context.random,
      onTrouble: context.onTrouble,
    },
    context.signal,
  );
  return {
    ...run,
    head: { revision, record, facts },
    state,
    momentum,
    ledger: plan.ledger,
    history,
  };
}

/** New weights and momentum, computed in one pass. */
async function computeRound(
  { transport, surroundings, signal }: PublishContext,
  run: LiveRun,
  plan: RoundPlan,
): Promise<{ state: ScratchFile; momentum: ScratchFile }> {
  const { scratch, kernels } = surroundings;
  const opened: SafetensorsReader[] = [];
  const open = async (file: ScratchFile) => {
    const reader = await openSafetensors(await file.open());
    opened.push(reader);
    return reader;
  };
  try {
    const files = await presentFiles(transport, surroundings, run, signal);
    const state = await open(files.state);
    const momentum = files.momentum && (await open(files.momentum));
    const deltas: SafetensorsReader[] = [];
    for (const delta of plan.deltas) {
      deltas.push(await open(await presentDelta(transport, surroundings, run, delta, signal)));
    }
    const weights = plan.usesPlainMean ? undefined : plan.deltas.map(({ weight }) => weight);
    const buffers = bufferRules(run.head.facts.bufferPolicies, plan.parentOuterStep, deltas);
    const inputs = { state, momentum, deltas, lr: plan.lr, mu: plan.mu, weights, kernels, buffers };
    let momentumOut: ScratchFile | undefined;
    const stateOut = await scratch.write(
      scratchName(transport, versionedModelFile(plan.outerStep)),
      async (stateSink) => {
        momentumOut = await scratch.write(
          scratchName(transport, momentumFile(plan.outerStep)),
          async (momentumSink) => {
            await writeOuterStep(inputs, { state: stateSink, momentum: momentumSink });
          },
        );
      },
    );
    return { state: stateOut, momentum: momentumOut! };
  } finally {
    for (const reader of opened) await reader.close();
  }
}

const VERSIONED = /^global\/(?:step|momentum)_([0-9]{6,16})\.safetensors$/;

/** What the plan deletes and is still what was decided on, and old versions of weights and momentum. */
async function deletions(
  { transport, listed, signal }: PublishContext,
  revision: string,
  plan: RoundPlan,
  oldest: number,
): Promise<RepoOperation[]> {
  const paths: string[] = [];
  if (plan.deletions.length > 0) {
    const wanted = new Set(plan.deletions);
    for (const { path, contentId } of await listDeltas(transport, revision, signal)) {
      // A node may have put another delta under the same path meanwhile.
      if (wanted.has(path) && listed.get(path) === contentId) paths.push(path);
    }
  }
  if (oldest > 0) {
    for (const { path } of await transport.list(revision, "global/", { signal })) {
      const version = VERSIONED.exec(path)?.[1];
      if (version !== undefined && Number(version) < oldest) paths.push(path);
    }
  }
  return paths.map((path) => ({ kind: "delete", path }));
}
