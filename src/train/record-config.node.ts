// The configuration of a run in the run's own folder, complete and without secrets: what was really used, to read and
// to train again from.

import { readFile } from "node:fs/promises";
import { join } from "node:path";

import type { SpeedtronicConfig } from "../config/schema.js";
import { formatConfig } from "../config/serialize.js";
import { writeFileAtomically } from "../util/atomic-file.node.js";

/** Leaves a file alone that says the same. @throws FileWriteError */
export async function recordConfig(config: SpeedtronicConfig): Promise<void> {
  const path = join(config.run.output_dir, "config.yaml");
  const text = formatConfig(config, "yaml");
  const before = await readFile(path, "utf8").catch(() => undefined);
  if (before !== text) await writeFileAtomically(path, text, { createFolders: true });
}
