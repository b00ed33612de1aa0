// The first version of a run: created only where the repository was read and has none.

import type { Ledger } from "../protocol/ledger.js";
import { LEDGER_PATH } from "../protocol/ledger-text.js";
import type { RepoOperation } from "../transports/contract.js";
import { LATEST_MODEL_FILE, versionedModelFile } from "../wire/model-file.js";
import {
  ALGORITHM,
  encodeVersionRecord,
  formatUpdatedAt,
  VERSION_RECORD_PATH,
  type VersionRecord,
} from "../wire/version-record.js";
import { commitChecked } from "./aggregator-commit.js";
import { AggregatorError } from "./aggregator-errors.js";
import { encodeHistory, HISTORY_PATH, type History } from "./aggregator-history.js";
import { deltaModel } from "./aggregator-inspect.js";
import { extraOf, isSameOwner, type Ownership, type RecordFacts } from "./aggregator-record.js";
import { ledgerDocument } from "./aggregator-repository.js";
import {
  type Bootstrap,
  type LiveRun,
  newLife,
  type RunOptions,
  scratchName,
  startOf,
} from "./aggregator-run.js";
import { sha256Of, smallContent } from "./aggregator-surroundings.js";

/** Publishes version 0, unless somebody was faster: then undefined. */
export async function bootstrapRun(
  options: RunOptions & { readonly bootstrap: Bootstrap },
  revision: string,
): Promise<LiveRun | undefined> {
  const { transport, surroundings, bootstrap, fingerprint, signal } = options;
  const { hasher, scratch, clock } = surroundings;
  const { isPublic } = await transport.create({ signal });
  if (isPublic && bootstrap.allowPublic !== true) {
    throw new AggregatorError(
      "no_run",
      `${transport.title} can be read by everybody, and weights of a run would be public: make it private, or say that this is meant (--public-ok)`,
    );
  }
  const stray = (await transport.list(revision, "global/", { signal })).find(({ path }) =>
    path.endsWith(".safetensors"),
  );
  if (stray !== undefined && options.takeOver !== true) {
    throw new AggregatorError(
      "half_started",
      `${transport.title} has ${stray.path} but no ${VERSION_RECORD_PATH}: another master may be starting this run now. If none is, start with --take-over, which begins at version 0 with weights of its own`,
      { details: { path: stray.path } },
    );
  }
  const modelFile = versionedModelFile(0);
  const state = await scratch.write(scratchName(transport, modelFile), (sink) => bootstrap.writeState(sink));
  // A model that no round could change is refused before anybody sees it.
  await deltaModel(state, fingerprint);
  const owner: Ownership = { masterId: options.masterId, term: 1, life: newLife(options) };
  const ledger: Ledger = { entries: [] };
  const history: History = { versions: [startOf(0, modelFile, state.sha256)], norms: [] };
  const ledgerText = ledgerDocument(ledger, hasher);
  const historyText = encodeHistory(history);
  const facts: RecordFacts = {
    owner,
    parentOuterStep: undefined,
    modelSha256: state.sha256,
    momentumFile: undefined,
    momentumSha256: undefined,
    ledgerSha256: ledgerText.sha256,
    historySha256: sha256Of(hasher, historyText),
    outerLr: undefined,
    outerMomentum: undefined,
    fingerprint,
    bufferPolicies: options.bufferPolicies,
  };
  const record: VersionRecord = {
    outerStep: 0,
    modelFile,
    updatedAt: formatUpdatedAt(surroundings.dateMs()),
    algorithm: ALGORITHM,
    isBootstrap: true,
    extra: extraOf(facts),
  };
  const operations: RepoOperation[] = [
    { kind: "put", path: modelFile, content: state.content() },
    { kind: "put", path: LATEST_MODEL_FILE, content: state.content() },
    { kind: "put", path: LEDGER_PATH, content: smallContent(hasher, ledgerText.text) },
    { kind: "put", path: HISTORY_PATH, content: smallContent(hasher, historyText) },
    { kind: "put", path: VERSION_RECORD_PATH, content: smallContent(hasher, encodeVersionRecord(record)) },
  ];
  let isOvertaken = false;
  const published = await commitChecked(
    transport,
    clock,
    {
      parent: revision,
      random: options.random,
      build: (parent) => ({ parent, message: "speedtronic: version 0", operations }),
      look: (found) => {
        if (found === undefined) return "again";
        isOvertaken = !isSameOwner(found.facts.owner, owner) || found.facts.modelSha256 !== state.sha256;
        return "done";
      },
    },
    signal,
  );
  if (isOvertaken) return undefined;
  options.onEvent?.("version_published", { outer_step: 0, revision: published, deltas: 0 });
  const head = { revision: published, record, facts };
  return { head, owner, state, momentum: undefined, ledger, history, fingerprint };
}
