// The hidden files and folders in which a store works before anything shows its final name, and in which it removes
// what it no longer needs. Their names say which process owns them, so that leftovers of killed ones can be swept.

import { randomBytes } from "node:crypto";
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { livenessOfTag, processTag } from "../util/process-identity.node.js";
import type { Disk } from "./disk.js";
import { errorMessage } from "./failure.js";

const PREFIX = ".tmp-";

export class Temporaries {
  readonly #disk: Disk;
  readonly #directory: string;
  readonly #onFailure: (path: string, reason: string) => void;
  /** The random part keeps several stores of one process apart. */
  readonly #ownPrefix = `${PREFIX}${processTag()}-${randomBytes(4).toString("hex")}-`;
  #count = 0;

  /** `onFailure` is told of what could not be removed: a nuisance, never a reason to fail a save. */
  constructor(disk: Disk, directory: string, onFailure: (path: string, reason: string) => void) {
    this.#disk = disk;
    this.#directory = directory;
    this.#onFailure = onFailure;
  }

  /** A path that nobody else uses. `purpose` is for people who look into the directory. */
  newPath(purpose: string): string {
    this.#count += 1;
    return join(this.#directory, `${this.#ownPrefix}${this.#count}-${purpose}`);
  }

  /** Removes a folder, out of sight at once, so that a half-removed checkpoint is never seen. */
  async remove(path: string): Promise<boolean> {
    return this.#attempt(path, async () => {
      const hidden = this.newPath("old");
      await this.#disk.rename(path, hidden);
      await this.#disk.removeTree(hidden);
    });
  }

  /** Removes all that this store has left. */
  async removeOwn(): Promise<void> {
    await this.#removeHidden((name) => name.startsWith(this.#ownPrefix));
  }

  /** Removes what dead processes have left; with `isSoleWriter` also what may be of another machine's processes. */
  async sweep(isSoleWriter: boolean): Promise<string[]> {
    return this.#removeHidden((name) => {
      const liveness = livenessOfTag(name.slice(PREFIX.length));
      return liveness === "dead" || (liveness === "unknown" && isSoleWriter);
    });
  }

  async #removeHidden(isUnwanted: (name: string) => boolean): Promise<string[]> {
    const names = await readdir(this.#directory).catch((): string[] => []);
    const removed: string[] = [];
    for (const name of names.sort()) {
      if (!name.startsWith(PREFIX) || !isUnwanted(name)) continue;
      const path = join(this.#directory, name);
      if (await this.#attempt(path, () => this.#disk.removeTree(path))) removed.push(name);
    }
    return removed;
  }

  async #attempt(path: string, remove: () => Promise<void>): Promise<boolean> {
    try {
      await remove();
      return true;
    } catch (error) {
      this.#onFailure(path, errorMessage(error));
      return false;
    }
  }
}
