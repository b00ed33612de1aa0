// The checkpoints of one run in one directory: save, list, load, lock, sweep. The order of steps in `save` is what
// makes a crash at any moment harmless. It decides nothing about training: when to save, and whether a failed save
// ends the run, is the trainer's.

import { dirname, join, resolve } from "node:path";

import { CheckpointError, ConfigError } from "../util/errors.js";
import type { CheckpointContent } from "./content.js";
import { readNewestGood, scanDirectory } from "./directory.js";
import { Disk, type FileOperation, freeBytes } from "./disk.js";
import { corrupt, directoryFailure, errorMessage, saveFailure } from "./failure.js";
import { checkpointFolderName } from "./file-names.js";
import { type CheckpointInfo, openContent, readContent, readInfo } from "./folder-reader.js";
import { type PreparedFolder, prepareFolder, writeFolder } from "./folder-writer.js";
import { type Loaded, type LoadedCheckpoint, loadCheckpoint, type OpenedCheckpoint } from "./load.js";
import { acquireLock, type Lock } from "./lock.js";
import type { ParentReference } from "./manifest.js";
import { writePointer } from "./pointer.js";
import { checkRetention, type RetentionPolicy, selectForRemoval } from "./retention.js";
import { Temporaries } from "./temporaries.js";
import type { TiedTensors } from "./tensor-file.js";
import { verifyFiles } from "./verify.js";

export interface CheckpointStoreOptions extends RetentionPolicy {
  /** Folder of the checkpoints; created when first needed. */
  readonly directory: string;
  readonly runId: string;
  /** `each` writes tied tensors under all their names, for readers elsewhere that expect them. Default `once`. */
  readonly tiedTensors?: TiedTensors;
  /** Told of what went wrong without failing a call: a folder passed over, an old one that could not be removed. */
  readonly onWarning?: (message: string, details: Readonly<Record<string, unknown>>) => void;
  readonly clock?: () => Date;
  /** Called before each change on disk; what it throws prevents that change. For tests of crashes. */
  readonly onFileOperation?: (operation: FileOperation) => void;
}

export interface SavedCheckpoint {
  readonly path: string;
  readonly step: number;
  readonly sizeBytes: number;
  /** From the call to the moved pointer, verification included. */
  readonly elapsedMs: number;
}

export class CheckpointStore {
  readonly directory: string;
  readonly #options: CheckpointStoreOptions;
  readonly #disk: Disk;
  readonly #temporaries: Temporaries;
  readonly #clock: () => Date;
  /** Names of folders that a load found damaged: they do not count as generations. */
  readonly #damaged = new Set<string>();
  #runId: string;
  #parent: ParentReference | null = null;
  #lock: Lock | undefined;
  #saving: Promise<unknown> = Promise.resolve();

  constructor(options: CheckpointStoreOptions) {
    checkRetention(options);
    if (options.runId === "")
      throw new ConfigError("the run id of a checkpoint store is empty", { code: "config.run_id" });
    this.directory = resolve(options.directory);
    this.#options = options;
    this.#disk = new Disk(options.onFileOperation);
    this.#temporaries = new Temporaries(this.#disk, this.directory, (path, reason) =>
      this.#warn(`could not remove ${path}: ${reason}`, { path, reason }),
    );
    this.#clock = options.clock ?? (() => new Date());
    this.#runId = options.runId;
  }

  /** The run that new checkpoints belong to. */
  get runId(): string {
    return this.#runId;
  }

  /**
   * Makes the next save continue `info`: it becomes the parent, and its run is taken over if it lies in this
   * directory. Without this call a store starts a run of its own and leaves all other checkpoints alone.
   */
  continueFrom(info: CheckpointInfo): void {
    this.#parent = { runId: info.runId, name: info.name, step: info.step };
    if (dirname(resolve(info.path)) === this.directory) this.#runId = info.runId;
  }

  /**
   * Writes a checkpoint, verifies it on disk, moves the pointer to it and only then removes what retention lets
   * go. `content` must not change until the promise settles. Saves of one store happen one after the other.
   *
   * @throws CheckpointError `checkpoint.disk_full`, `checkpoint.write_failed`, `checkpoint.not_plain_data`,
   * `checkpoint.lock_lost`; earlier checkpoints and the pointer are then as before, and nothing partial stays.
   */
  save(content: CheckpointContent): Promise<SavedCheckpoint> {
    const saved = this.#saving.then(() => this.#save(content));
    this.#saving = saved.catch(() => undefined);
    return saved;
  }

  /** All readable checkpoints of the directory, of every run: by step, then by time, oldest first. */
  async list(): Promise<CheckpointInfo[]> {
    return [...(await scanDirectory(this.directory)).infos];
  }

  /**
   * The newest intact checkpoint of the run that the pointer names, every byte verified; walks back over damaged
   * ones and reports them. Undefined where the directory holds none.
   *
   * @throws CheckpointError `checkpoint.none_intact`, or `checkpoint.newer_format` if a later release wrote there.
   */
  async loadNewestGood(): Promise<LoadedCheckpoint | undefined> {
    return this.#newestGood(readContent);
  }

  /** Like {@link loadNewestGood}, with the tensors left on disk, to be read one by one. To be closed. */
  async openNewestGood(): Promise<OpenedCheckpoint | undefined> {
    return this.#newestGood(openContent);
  }

  /** A checkpoint's folder (no fallback if it is damaged), or a folder of checkpoints or of a run (newest good). */
  load(path: string): Promise<LoadedCheckpoint> {
    return loadCheckpoint(path);
  }

  /** Keeps other processes from writing here. @throws CheckpointError `checkpoint.locked`. */
  async lock(): Promise<Lock> {
    try {
      await this.#disk.makeFolder(this.directory);
      this.#lock = await acquireLock(
        this.#disk,
        this.directory,
        () => this.#temporaries.newPath("lock"),
        this.#clock,
      );
      return this.#lock;
    } catch (error) {
      throw directoryFailure(error, this.directory);
    }
  }

  /**
   * Removes what killed writers left half-done and returns the names. Leftovers of a writer on another machine,
   * of which nobody here can tell whether it lives, go only while this store holds the lock.
   */
  async sweep(): Promise<string[]> {
    return this.#temporaries.sweep(this.#lock !== undefined && (await this.#lock.isHeld()));
  }

  async #newestGood<T>(read: (info: CheckpointInfo) => Promise<T>): Promise<Loaded<T> | undefined> {
    const found = await readNewestGood(this.directory, read);
    for (const { path, reason } of found?.skipped ?? []) {
      this.#damaged.add(path.slice(this.directory.length + 1));
      this.#warn(`passed over ${path}: ${reason}`, { path, reason });
    }
    return found && { content: found.value, info: found.info, skipped: found.skipped };
  }

  async #save(content: CheckpointContent): Promise<SavedCheckpoint> {
    const startMs = performance.now();
    const { step } = content.trainer;
    if (!Number.isSafeInteger(step) || step < 0) {
      throw new CheckpointError(`cannot save step ${step}: a step is a whole number from 0 on`, {
        code: "checkpoint.invalid_step",
        details: { step },
      });
    }
    const prepared = prepareFolder(content, this.#options.tiedTensors ?? "once");
    await this.#lock?.assertHeld();
    const temporary = this.#temporaries.newPath("new");
    try {
      const { infos, names } = await scanDirectory(this.directory);
      const ofRun = infos.filter((info) => info.runId === this.#runId);
      const sequence = 1 + Math.max(0, ...ofRun.map((info) => info.sequence));
      const name = freeName(step, names);
      const path = join(this.directory, name);
      await this.#disk.makeFolder(this.directory);
      await this.#requireSpace(path, prepared);
      const { manifestDigest } = await writeFolder(this.#disk, temporary, prepared, {
        runId: this.#runId,
        sequence,
        createdAt: this.#clock().toISOString(),
        parent: this.#parent,
      });
      await this.#disk.rename(temporary, path);
      const info = await this.#verify(path);
      const pointer = { step, file: name, runId: this.#runId, sequence };
      await writePointer(this.#disk, this.directory, pointer, this.#temporaries.newPath("pointer"));
      this.#parent = { runId: this.#runId, name, step };
      const elapsedMs = performance.now() - startMs;
      await this.#prune([...infos, info], name);
      return { path, step, sizeBytes: info.sizeBytes + manifestDigest.sizeBytes, elapsedMs };
    } catch (error) {
      await this.#temporaries.removeOwn();
      throw saveFailure(error, join(this.directory, checkpointFolderName(step, 1)));
    }
  }

  async #requireSpace(path: string, { neededBytes }: PreparedFolder): Promise<void> {
    const availableBytes = await freeBytes(this.directory);
    if (availableBytes === undefined || availableBytes >= neededBytes) return;
    throw new CheckpointError(
      `could not save the checkpoint ${path}: it needs about ${neededBytes} bytes, the disk has ${availableBytes} ` +
        "free; nothing was written and earlier checkpoints are untouched. Free some space or lower checkpoint.keep_last",
      { code: "checkpoint.disk_full", details: { path, neededBytes, availableBytes } },
    );
  }

  /** Reads back what was written. A folder that fails is taken out of sight, since it was never vouched for. */
  async #verify(path: string): Promise<CheckpointInfo> {
    try {
      const info = await readInfo(path);
      await verifyFiles(info);
      return info;
    } catch (error) {
      await this.#temporaries.remove(path);
      throw corrupt(
        `${path}: the checkpoint just written does not read back as it was written, so it was removed and earlier ` +
          `ones were kept (${errorMessage(error)}); check memory and disk`,
        { path },
        error,
      );
    }
  }

  async #prune(infos: readonly CheckpointInfo[], pointedTo: string): Promise<void> {
    const { keepLast, keepBest = 0, keepEvery = null } = this.#options;
    const rule = { keepLast, keepBest, keepEvery, runId: this.#runId, pointedTo, damaged: this.#damaged };
    for (const name of selectForRemoval(infos, rule))
      await this.#temporaries.remove(join(this.directory, name));
  }

  #warn(message: string, details: Readonly<Record<string, unknown>>): void {
    this.#options.onWarning?.(message, details);
  }
}

function freeName(step: number, taken: ReadonlySet<string>): string {
  for (let copy = 1; ; copy += 1) {
    const name = checkpointFolderName(step, copy);
    if (!taken.has(name)) return name;
  }
}
