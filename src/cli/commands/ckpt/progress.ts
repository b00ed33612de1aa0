// Progress of long work, on stderr, so that results on stdout can be piped. On a terminal a bar that is redrawn in
// place and leaves nothing behind; anywhere else nothing at all.

import { formatDuration } from "../../../observe/number-text.js";
import { detectTerminal, makePainter } from "../../../observe/terminal.node.js";
import { SpeedtronicError } from "../../../util/errors.js";
import { onStopSignals, type StopSignal } from "../../../util/signals.node.js";
import type { CliContext } from "../../context.js";
import { exitCodeOfStop } from "../../exit-codes.js";
import { formatBytes } from "./format.js";

/** Work that ends sooner shows no bar. */
const DELAY_MS = 300;
const INTERVAL_MS = 80;

/** Thrown out of long work by Ctrl-C or SIGTERM, so that half-written outputs are cleared away on the way out. */
class StoppedError extends SpeedtronicError {
  readonly exitCode: number;

  constructor(signal: StopSignal) {
    super(`stopped by ${signal}`, { code: "cli.stopped", details: { signal } });
    this.exitCode = exitCodeOfStop(signal);
  }
}

export interface Progress {
  /** The amount of work, where it becomes known later. */
  setTotal(totalBytes: number): void;
  /** @throws StoppedError once a signal has asked for the end. */
  advance(bytes: number, what?: string): void;
  /** Removes the bar. Call it always, also after an error. */
  close(): void;
}

export function startProgress(context: CliContext, verb: string, totalBytes = 0): Progress {
  let stop: StopSignal | undefined;
  const signals = onStopSignals((signal) => {
    stop = signal;
  });
  const bar = makeBar(context, verb, totalBytes);
  return {
    setTotal: (bytes) => bar.setTotal(bytes),
    advance: (bytes, what) => {
      if (stop !== undefined) throw new StoppedError(stop);
      bar.advance(bytes, what);
    },
    close: () => {
      signals.close();
      bar.close();
    },
  };
}

function makeBar(context: CliContext, verb: string, totalBytes: number): Progress {
  const stream = context.errStream;
  const abilities = stream && detectTerminal(stream, context.env);
  if (!stream || !abilities?.isLive) return { setTotal() {}, advance() {}, close() {} };
  const paint = makePainter(abilities.hasColor);
  const [full, rest] = abilities.hasUnicode ? ["━", "─"] : ["#", "-"];
  const started = performance.now();
  let total = totalBytes;
  let done = 0;
  let drawnMs = started + DELAY_MS - INTERVAL_MS;
  let isShown = false;
  const erase = () => {
    if (isShown) stream.write("\r\x1b[2K\x1b[?25h");
    isShown = false;
  };
  // A second signal ends the process while the bar is there.
  process.once("exit", erase);
  const draw = (nowMs: number, what: string) => {
    const width = Math.max(20, (stream.columns || 80) - 1);
    const seconds = (nowMs - started) / 1000;
    const share = total > 0 ? Math.min(1, done / total) : 0;
    const rate = done / seconds;
    const eta = rate > 0 && total > done ? `  ${formatDuration((total - done) / rate)} left` : "";
    const figures = `${String(Math.floor(100 * share)).padStart(3)}%  ${formatBytes(rate)}/s${eta}`;
    const barWidth = Math.max(8, Math.min(30, Math.floor(width / 4)));
    const filled = Math.floor(share * barWidth);
    const room = width - verb.length - barWidth - figures.length - 6;
    const name = room < 8 ? "" : `  ${what.length > room ? `…${what.slice(1 - room)}` : what}`;
    const bar = paint("cyan", full.repeat(filled)) + paint("gray", rest.repeat(barWidth - filled));
    stream.write(`${isShown ? "" : "\x1b[?25l"}\r${verb}  ${bar}  ${figures}${paint("gray", name)}\x1b[K`);
    isShown = true;
    drawnMs = nowMs;
  };
  return {
    setTotal(bytes) {
      total = bytes;
    },
    advance(bytes, what = "") {
      done += bytes;
      const nowMs = performance.now();
      if (nowMs - drawnMs >= INTERVAL_MS) draw(nowMs, what);
    },
    close() {
      process.off("exit", erase);
      erase();
    },
  };
}
