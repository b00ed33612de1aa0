// Gives back what start-up left behind. Training allocates its large arrays right after start-up, and a heap that
// holds garbage by then holds it for hours, since hardly anything is allocated on it later.

import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

/** False where this V8 does not hand its collector out. */
let collect: (() => void) | false | undefined;

/** One full collection of this thread's heap; some 10 ms. Housekeeping: does nothing where it cannot. */
export function collectGarbage(): void {
  collect ??= findCollector();
  if (collect) collect();
}

function findCollector(): (() => void) | false {
  // The flag is one for all threads, so it stays set: switching it off could hit another thread at this point.
  setFlagsFromString("--expose-gc");
  const found: unknown = runInNewContext("typeof gc === 'function' && gc");
  return typeof found === "function" ? (found as () => void) : false;
}
