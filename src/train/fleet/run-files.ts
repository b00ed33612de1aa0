// The files that describe a run in its repository: config.yaml, everything that all nodes share, and fingerprint.json,
// what the model must be. They lie beside `global/` and `nodes/`, where Python peers do not look. The byte-level
// tokenizer needs no file.

import type { SpeedtronicConfig } from "../../config/schema.js";
import { formatPlainConfig, type PlainValue, toPlainConfig } from "../../config/serialize.js";
import { ConfigSource } from "../../config/source.js";
import { parseConfigText } from "../../config/text.js";
import type { ModelFingerprint } from "../../distributed/protocol/fingerprint.js";
import { encodePythonJson, type JsonValue } from "../../distributed/wire/python-json.js";
import { parseForeignJson } from "../../util/json-depth.js";
import { RunError } from "./errors.js";
import { OWN_KEYS } from "./own-keys.js";

export const CONFIG_PATH = "config.yaml";
export const FINGERPRINT_PATH = "fingerprint.json";

const FORMAT = 1;

const CONFIG_HEAD = `# The configuration that all nodes of this run share, as "speedtronic init" found it. Keys that are each machine's own
# (paths, device, role, node id, token) are left out, and have no effect here.
`;

/** Without secrets and without what is this machine's own. Where the run trains on a text, each node brings its own. */
export function encodeSharedConfig(config: SpeedtronicConfig): string {
  const { text_path, dataset, sources, synthetic } = config.data;
  const hasText = text_path !== null || dataset !== null || sources !== null;
  const plain: Record<string, PlainValue> = {};
  for (const [name, value] of Object.entries(toPlainConfig(config))) {
    if (typeof value !== "object" || value === null || Array.isArray(value)) {
      if (!OWN_KEYS.has(name)) plain[name] = value;
      continue;
    }
    const shared = Object.entries(value).filter(([key]) => !OWN_KEYS.has(`${name}.${key}`));
    if (shared.length > 0) plain[name] = Object.fromEntries(shared);
  }
  plain.data = { ...(plain.data as Record<string, PlainValue>), synthetic: synthetic && !hasText };
  return CONFIG_HEAD + formatPlainConfig(plain, "yaml");
}

export interface SharedConfig {
  readonly source: ConfigSource;
  /** Keys of the file that are each machine's own, and so were left out. */
  readonly ignored: readonly string[];
}

/** `where` goes into messages. Problems in the file are reported once the source is resolved. */
export function parseSharedConfig(text: string, where: string): SharedConfig {
  const { entries, problems, warnings } = parseConfigText(text, { format: "yaml", fileName: where });
  const ignored = [...entries.keys()].filter((path) => OWN_KEYS.has(path));
  const kept = new Map([...entries].filter(([path]) => !OWN_KEYS.has(path)));
  return { source: new ConfigSource(kept, problems, warnings, where), ignored };
}

/** Whether the run trains on a text that each node must name. */
export function needsText({ source }: SharedConfig): boolean {
  return source.entries.get("data.synthetic")?.value === false;
}

export function encodeFingerprint(model: ModelFingerprint): string {
  return `${encodePythonJson({ format: FORMAT, model: model as { [key: string]: JsonValue } })}\n`;
}

/** @throws RunError `run.invalid_files`. */
export function parseFingerprintFile(text: string, where: string): ModelFingerprint {
  try {
    const { format, model } = parseForeignJson(text) as { format?: unknown; model?: unknown };
    if (format !== FORMAT)
      throw new Error(`format is ${JSON.stringify(format)}, this program reads ${FORMAT}`);
    if (typeof model !== "object" || model === null || Array.isArray(model))
      throw new Error("it has no model");
    return model as ModelFingerprint;
  } catch (cause) {
    const message = `${where} is not the fingerprint of a run: ${(cause as Error).message}; set the run up again (speedtronic init --force)`;
    throw new RunError("invalid_files", message, { cause });
  }
}
