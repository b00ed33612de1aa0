// What `data.sources` says, as the data pipeline takes it: each entry with the keys that it leaves to its section, and the
// hub that addresses are read from.

import { join } from "node:path";
import type { SpeedtronicConfig } from "../config/schema.js";
import type { BuildDataloaderOptions } from "../data/build-dataloader.js";
import type { DataSourceOptions } from "../data/options.js";
import { cacheFolder } from "../data/sources/cache-folder.js";
import { resolveHub } from "../distributed/transports/endpoint.js";
import { HubDatasets, isHubAddress } from "../interchange/hub-datasets/hub-datasets.node.js";
import { formatCount } from "../observe/number-text.js";

const progressMs = 5000;

type DataSection = SpeedtronicConfig["data"];
type Entry = Exclude<Exclude<NonNullable<DataSection["sources"]>, string>[number], string>;

/** Empty without sources. */
export function sourceOptions(data: DataSection): DataSourceOptions[] {
  const { sources } = data;
  if (sources === null) return [];
  return (typeof sources === "string" ? [sources] : sources).map((entry) => {
    const own: Entry = typeof entry === "string" ? { path: entry } : entry;
    // A field of its own takes the place of the section's template.
    const inherited = own.text_field === undefined ? data.template : null;
    return {
      paths: typeof own.path === "string" ? [own.path] : own.path,
      format: own.format ?? data.format,
      textField: own.text_field ?? data.text_field,
      template: own.template === undefined ? inherited : own.template,
      separator: own.document_separator === undefined ? data.document_separator : own.document_separator,
      weight: own.weight ?? null,
    };
  });
}

/** Says how far tokenising is, as lines, if it takes more than some seconds. */
export function progressLines(
  write: (text: string) => void,
  now: () => number = () => performance.now(),
): NonNullable<BuildDataloaderOptions["onProgress"]> {
  let said = now();
  return (label, { documents, tokens }) => {
    if (now() - said < progressMs) return;
    said = now();
    const name = label.length > 60 ? `${label.slice(0, 59)}…` : label;
    write(`tokenising ${name}: ${formatCount(documents)} documents, ${formatCount(tokens)} tokens so far\n`);
  };
}

/**
 * Where sources come from and are kept. Datasets are read from the hub that HF_ENDPOINT names, with HF_TOKEN if that was
 * set for it: a token for the hub that nodes meet on is not for others.
 */
export function sourceAccess(
  data: DataSection,
  env: Readonly<Record<string, string | undefined>>,
): Pick<BuildDataloaderOptions, "remote" | "cacheDirectory"> {
  const cacheDirectory = cacheFolder(data.cache_dir, env);
  // A wrong token in the environment is nobody's business where nothing is fetched.
  if (!sourceOptions(data).some(({ paths }) => paths.some(isHubAddress))) return { cacheDirectory };
  const directory = join(cacheDirectory, "hub");
  return { cacheDirectory, remote: new HubDatasets({ ...resolveHub({ env }), directory }) };
}
