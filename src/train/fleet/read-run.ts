// What a repository says about its run: how it was set up, and how far it is.

import { type RunHead, readRunHead } from "../../distributed/node/aggregator-repository.js";
import type { ModelFingerprint } from "../../distributed/protocol/fingerprint.js";
import type { CallOptions, Transport } from "../../distributed/transports/contract.js";
import { RunError } from "./errors.js";
import {
  CONFIG_PATH,
  FINGERPRINT_PATH,
  parseFingerprintFile,
  parseSharedConfig,
  type SharedConfig,
} from "./run-files.js";

const MAX_FILE_BYTES = 2 ** 20;

/** The set-up and the state of a run at one revision. */
export interface RunSetup {
  readonly revision: string;
  /** Texts as they are; undefined where the file is not there. */
  readonly configText: string | undefined;
  readonly fingerprintText: string | undefined;
  /** Undefined before the first version. */
  readonly head: RunHead | undefined;
}

export async function readSetup(transport: Transport, { signal }: CallOptions = {}): Promise<RunSetup> {
  const revision = await transport.head({ signal });
  const read = async (path: string) => {
    const bytes = await transport.read(revision, path, MAX_FILE_BYTES, { signal });
    return bytes && new TextDecoder().decode(bytes);
  };
  const configText = await read(CONFIG_PATH);
  const fingerprintText = await read(FINGERPRINT_PATH);
  return { revision, configText, fingerprintText, head: await readRunHead(transport, revision, signal) };
}

export interface SharedRun {
  readonly shared: SharedConfig;
  readonly fingerprint: ModelFingerprint | undefined;
  readonly head: RunHead | undefined;
}

/** @throws RunError `run.not_set_up`, `run.invalid_files`; ConfigError for a text that is no YAML; TransportError. */
export async function readSharedRun(
  transport: Transport,
  {
    advice = "take part with speedtronic train and a configuration of your own",
    ...options
  }: CallOptions & {
    /** What else can be done with a run that has no configuration in its repository. */
    readonly advice?: string;
  } = {},
): Promise<SharedRun> {
  const { configText, fingerprintText, head } = await readSetup(transport, options);
  if (configText === undefined) {
    const hint =
      head === undefined
        ? "set the run up with speedtronic init"
        : `a run is there (version ${head.record.outerStep}), but it was not set up with speedtronic init: ${advice}, or add one with speedtronic init`;
    throw new RunError("not_set_up", `${transport.title} has no ${CONFIG_PATH}; ${hint}`);
  }
  const where = (path: string) => `${path} of ${transport.title}`;
  return {
    shared: parseSharedConfig(configText, where(CONFIG_PATH)),
    fingerprint:
      fingerprintText === undefined
        ? undefined
        : parseFingerprintFile(fingerprintText, where(FINGERPRINT_PATH)),
    head,
  };
}
