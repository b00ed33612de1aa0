// A log file under one buffered handle: whole lines only, written in order, never half of one. When the disk is
// full or the file cannot be opened, lines wait in bounded memory and are tried again later.
// Writes are synchronous: a flush is a few kilobytes, and nothing is lost when the process ends by itself, even unclosed.

import { closeSync, fstatSync, ftruncateSync, openSync, readSync, writeSync } from "node:fs";
import { dirname, resolve } from "node:path";
import { makeFolders } from "../util/folders.node.js";

export interface LineFileOptions {
  /** Keep what the file holds (default), or start it anew. */
  append?: boolean;
  /** Flush once so many bytes wait. Default 64 KiB. */
  flushBytes?: number;
  /** Flush at the latest so long after a line was added. Default 1000. */
  flushIntervalMs?: number;
  /** Memory for lines that cannot be written; beyond, the oldest are lost. Default 4 MiB. */
  maximumBytes?: number;
  /** Whether an unfinished last line, left by a process killed while it wrote, may be cut off. */
  isBroken?(lastLine: string): boolean;
}

/** More than any line of ours; a longer unfinished line is not ours to cut. */
const longestTailBytes = 1 << 20;

export class LineFile {
  readonly path: string;
  readonly #options: LineFileOptions;
  #handle: number | undefined;
  #lines: Buffer[] = [];
  #waitingBytes = 0;
  #lostLines = 0;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #hasStarted = false;
  #hasFailed = false;
  #unseenError: unknown;
  readonly #onExit = (): void => {
    try {
      this.flush();
    } catch {
      // Nobody is left to tell.
    }
  };

  constructor(path: string, options: LineFileOptions = {}) {
    this.path = resolve(path);
    this.#options = options;
  }

  /** Lines given up because they could not be written for too long. */
  get lostLines(): number {
    return this.#lostLines;
  }

  /** Adds a line (without its end). Throws the file system's error of this flush, or of a timed one before it. */
  append(line: string): void {
    this.appendBytes(Buffer.from(`${line}\n`));
  }

  /** Like {@link append}, for records that are whole in themselves. */
  appendBytes(bytes: Buffer): void {
    this.#lines.push(bytes);
    this.#waitingBytes += bytes.length;
    while (this.#waitingBytes > (this.#options.maximumBytes ?? 4 << 20)) {
      this.#waitingBytes -= this.#lines.shift()?.length ?? 0;
      this.#lostLines += 1;
    }
    // After a failure only the timer tries again: a full disk is not hammered once per line.
    if (!this.#hasFailed && this.#waitingBytes >= (this.#options.flushBytes ?? 65_536)) this.flush();
    else this.#startTimer();
    const unseen = this.#unseenError;
    this.#unseenError = undefined;
    if (unseen !== undefined) throw unseen;
  }

  /** Writes what waits. Throws the file system's error after taking back a half-written line. */
  flush(): void {
    this.#stopTimer();
    if (this.#lines.length === 0) return;
    try {
      this.#writeAll();
      this.#hasFailed = false;
    } catch (error) {
      this.#hasFailed = true;
      this.#startTimer();
      throw error;
    }
  }

  /** Flushes and closes; throws if lines could not be written, after closing. */
  close(): void {
    try {
      this.flush();
    } finally {
      this.#stopTimer();
      process.off("exit", this.#onExit);
      this.#lostLines += this.#lines.length;
      this.#lines = [];
      this.#waitingBytes = 0;
      if (this.#handle !== undefined) closeSync(this.#handle);
      this.#handle = undefined;
    }
  }

  #writeAll(): void {
    const handle = this.#open();
    const bytes = Buffer.concat(this.#lines);
    let written = 0;
    try {
      while (written < bytes.length) written += writeSync(handle, bytes, written);
    } catch (error) {
      this.#keepWholeLines(handle, written);
      throw error;
    }
    this.#lines = [];
    this.#waitingBytes = 0;
  }

  /** After a failure in the middle: whole lines stay written, the broken one is cut off and waits. */
  #keepWholeLines(handle: number, written: number): void {
    let whole = 0;
    while (this.#lines.length > 0 && whole + (this.#lines[0]?.length ?? 0) <= written) {
      whole += this.#lines.shift()?.length ?? 0;
    }
    this.#waitingBytes -= whole;
    if (whole < written) ftruncateSync(handle, fstatSync(handle).size - (written - whole));
  }

  #open(): number {
    if (this.#handle !== undefined) return this.#handle;
    makeFolders(dirname(this.path));
    const isAppend = this.#options.append !== false || this.#hasStarted;
    const handle = openSync(this.path, isAppend ? "a+" : "w+");
    this.#hasStarted = true;
    this.#handle = handle;
    process.on("exit", this.#onExit);
    const stat = fstatSync(handle);
    if (stat.isFile() && stat.size > 0) this.#endLastLine(handle, stat.size);
    return handle;
  }

  /** The next line must not continue one that has no end. */
  #endLastLine(handle: number, sizeBytes: number): void {
    const start = findLineStart(handle, sizeBytes);
    if (start === sizeBytes) return;
    const tail = Buffer.alloc(Math.min(sizeBytes - start, longestTailBytes));
    readSync(handle, tail, 0, tail.length, start);
    if (this.#options.isBroken?.(tail.toString()) === true) ftruncateSync(handle, start);
    else writeSync(handle, "\n");
  }

  #startTimer(): void {
    if (this.#timer !== undefined) return;
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      try {
        this.flush();
      } catch (error) {
        this.#unseenError = error;
      }
    }, this.#options.flushIntervalMs ?? 1000);
    this.#timer.unref();
  }

  #stopTimer(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }
}

function findLineStart(handle: number, sizeBytes: number): number {
  const chunk = Buffer.alloc(65_536);
  for (let end = sizeBytes; end > 0; ) {
    const start = Math.max(0, end - chunk.length);
    const count = readSync(handle, chunk, 0, end - start, start);
    const at = chunk.subarray(0, count).lastIndexOf(0x0a);
    if (at >= 0) return start + at + 1;
    end = start;
  }
  return 0;
}
