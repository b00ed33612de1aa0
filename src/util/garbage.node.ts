// Gives back what start-up left behind. Training allocates its large arrays right after start-up, and a heap that
// holds garbage by then holds it for hours, since hardly anything is allocated on it later.

import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

let collect: (() => void) | undefined;

/** One full collection of this thread's heap; some 10 ms. */
export function collectGarbage(): void {
  if (!collect) {
    setFlagsFromString("--expose-gc");
    collect = runInNewContext("gc") as () => void;
    // Contexts made later, a user's among them, do not get to see it.
    setFlagsFromString("--no-expose-gc");
  }
  collect();
}
