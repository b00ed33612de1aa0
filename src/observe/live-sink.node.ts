// The display for a terminal: a status line redrawn in place, with permanent lines printed above it.
// Colours and cursor movement live here; what is said lives in narrator.ts and status-line.ts.
import type { LogLevel } from "./level.js";
import { Narrator } from "./narrator.js";
import type { Sink } from "./sink.js";
import { renderStatus, type Segment, type SegmentStyle, StatusState } from "./status-line.js";
import {
  GuardedStream,
  makePainter,
  type OutputStream,
  type TerminalAbilities,
  type TextStyle,
} from "./terminal.node.js";
import { passesLevel } from "./text-line.js";

const hideCursor = "\x1b[?25l";
const showCursor = "\x1b[?25h";
const clearLine = "\r\x1b[2K";
const clearToEnd = "\x1b[K";

const segmentStyles: Readonly<Record<SegmentStyle, TextStyle | undefined>> = {
  plain: undefined,
  bar: "cyan",
  rest: "gray",
  label: "gray",
  value: "bold",
  good: ["bold", "green"],
};

const eventStyles: Readonly<Record<string, TextStyle>> = {
  warning: "yellow",
  checkpoint_failed: "yellow",
  optimizer_step_skipped: "yellow",
  checkpoint: "gray",
  evaluation: "green",
};

export interface LiveSinkOptions {
  stream: OutputStream;
  abilities: Omit<TerminalAbilities, "isLive">;
  level?: LogLevel;
  /** Least time between two redraws for steps. Default 100, so at most 10 a second. */
  minIntervalMs?: number;
}

class LiveDisplay {
  readonly #output: GuardedStream;
  readonly #options: LiveSinkOptions;
  readonly #paint: (style: TextStyle, text: string) => string;
  readonly #state = new StatusState();
  readonly #narrator = new Narrator();
  #timer: ReturnType<typeof setTimeout> | undefined;
  #lastDrawMs = Number.NEGATIVE_INFINITY;
  #isShown = false;
  readonly #onExit = (): void => {
    if (this.#isShown) this.#options.stream.write(`\n${showCursor}`);
  };

  constructor(options: LiveSinkOptions) {
    this.#options = options;
    this.#output = new GuardedStream(options.stream);
    this.#paint = makePainter(options.abilities.hasColor);
    // A process that ends without closing the logger must not leave the user without a cursor.
    process.on("exit", this.#onExit);
  }

  write(event: string, payload: Readonly<Record<string, unknown>>): void {
    const hasChanged = this.#state.update(event, payload);
    if (event === "train_step") {
      this.#drawSoon();
      return;
    }
    const lines = this.#narrator.describe(event, payload);
    if (event === "train_end") this.#end(lines);
    else this.#printAbove(event, lines, hasChanged);
  }

  async close(): Promise<void> {
    process.off("exit", this.#onExit);
    try {
      this.#end([]);
    } finally {
      await this.#output.close();
    }
  }

  #drawSoon(): void {
    if (this.#timer !== undefined) return;
    const waitMs = this.#lastDrawMs + (this.#options.minIntervalMs ?? 100) - performance.now();
    if (waitMs <= 0) {
      this.#draw("");
      return;
    }
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      try {
        this.#draw("");
      } catch {
        // The stream is gone; the next write reports it to the logger.
      }
    }, waitMs);
    this.#timer.unref();
  }

  #printAbove(event: string, lines: readonly string[], hasStatus: boolean): void {
    const style = eventStyles[event];
    const text = lines.map((line) => `${style === undefined ? line : this.#paint(style, line)}\n`).join("");
    if (this.#isShown || hasStatus) this.#draw((this.#isShown ? clearLine : "") + text);
    else this.#output.write(text);
  }

  /** Redraws the status line behind `before`, in one write so that nothing flickers. */
  #draw(before: string): void {
    this.#stopTimer();
    // The last column stays free: writing into it makes some terminals wrap.
    const width = Math.max(1, (this.#options.stream.columns || 80) - 1);
    const segments = renderStatus(this.#state, width, this.#options.abilities.hasUnicode);
    const start = this.#isShown ? "" : hideCursor;
    this.#isShown = true;
    this.#lastDrawMs = performance.now();
    this.#output.write(
      `${start}${before}\r${segments.map((segment) => this.#paintSegment(segment)).join("")}${clearToEnd}`,
    );
  }

  /** Leaves the last status line in place, gives the cursor back, then prints `lines`. */
  #end(lines: readonly string[]): void {
    this.#stopTimer();
    const wasShown = this.#isShown;
    if (wasShown) this.#draw("");
    this.#isShown = false;
    const text = lines.map((line) => `${line}\n`).join("");
    if (wasShown || text !== "") this.#output.write(`${wasShown ? `\n${showCursor}` : ""}${text}`);
  }

  #paintSegment({ text, style }: Segment): string {
    const textStyle = segmentStyles[style];
    return textStyle === undefined ? text : this.#paint(textStyle, text);
  }

  #stopTimer(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }
}

/** A status line at the bottom of a terminal that stays on one row, with all other events printed above it. */
export function liveSink(options: LiveSinkOptions): Sink {
  const display = new LiveDisplay(options);
  return {
    name: "console",
    accept: (event, payload) => passesLevel(event, payload, options.level ?? "INFO"),
    write: (event, payload) => display.write(event, payload),
    close: () => display.close(),
  };
}
