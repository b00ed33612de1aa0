// What an output stream can do: live redraw, colours, Unicode. Decided once from the stream and the environment.
import { styleText } from "node:util";

/** The part of a Node output stream that displays need; `{ write }` alone is enough. */
export interface OutputStream {
  write(text: string): unknown;
  readonly isTTY?: boolean;
  /** Columns of a terminal, read again at each redraw. */
  readonly columns?: number;
  hasColors?(env?: object): boolean;
  on?(event: "error", listener: (error: Error) => void): unknown;
  off?(event: "error", listener: (error: Error) => void): unknown;
}

export interface TerminalAbilities {
  /** The cursor can be moved, so a line can be redrawn in place. */
  readonly isLive: boolean;
  readonly hasColor: boolean;
  readonly hasUnicode: boolean;
}

export type Environment = Readonly<Record<string, string | undefined>>;

/** `isTTY` overrides the stream's own word. Colours follow NO_COLOR and the stream's colour depth. */
export function detectTerminal(
  stream: OutputStream,
  env: Environment,
  isTTY = stream.isTTY === true,
): TerminalAbilities {
  const isLive = isTTY && env.TERM !== "dumb";
  const locale = env.LC_ALL || env.LC_CTYPE || env.LANG || "";
  const isUtf8 = /utf-?8/i.test(locale);
  return {
    isLive,
    hasColor: isLive && !env.NO_COLOR && (stream.hasColors?.(env) ?? false),
    hasUnicode: isUtf8 || (process.platform === "win32" && env.WT_SESSION !== undefined),
  };
}

type Style = "bold" | "cyan" | "gray" | "green" | "yellow";
export type TextStyle = Style | Style[];

/** A painter that leaves text alone where there are no colours. */
export function makePainter(hasColor: boolean): (style: TextStyle, text: string) => string {
  if (!hasColor) return (_style, text) => text;
  // The decision is made above for this stream; styleText would ask about standard output instead.
  return (style, text) => (text === "" ? "" : styleText(style, text, { validateStream: false }));
}

/** Makes a broken pipe an error of the next write instead of one that ends the process. */
export class GuardedStream {
  readonly stream: OutputStream;
  #error: Error | undefined;
  readonly #onError = (error: Error): void => {
    this.#error ??= error;
  };

  constructor(stream: OutputStream) {
    this.stream = stream;
    stream.on?.("error", this.#onError);
  }

  /** Throws the stream's error once it has one; nothing is written from then on. */
  write(text: string): void {
    if (this.#error !== undefined) throw this.#error;
    this.stream.write(text);
  }

  /** Stops listening, after errors of writes already made have had their turn. */
  async close(): Promise<void> {
    await new Promise((resolve) => setTimeout(resolve, 0));
    this.stream.off?.("error", this.#onError);
  }
}
