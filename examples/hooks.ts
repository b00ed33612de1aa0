// Hooks: a function, and an object with a method. They are told of every event and never decide anything
// themselves; to act on what they see they abort a signal, and the run then ends in order, with a checkpoint.
// Run it with: npx tsx examples/hooks.ts

import { pathToFileURL } from "node:url";
import { type Hook, type TrainResult, trainFromConfig } from "speedtronic";

/** Keeps the losses of a run. */
export function recordLosses(losses: number[]): Hook {
  return (event, payload) => {
    if (event === "train_step") losses.push(payload.loss);
  };
}

/** Stops a run whose loss has gone below `target`. */
export class StopBelow {
  readonly #controller = new AbortController();

  constructor(private readonly target: number) {}

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  onEvent(...[event, payload]: Parameters<Extract<Hook, (...args: never) => unknown>>): void {
    if (event === "train_step" && payload.loss < this.target)
      this.#controller.abort(`loss is below ${this.target}`);
  }
}

/** Eight samples of random tokens, which the model soon knows by heart. */
export async function main({ outputDir = "runs/hooks" }: { outputDir?: string } = {}): Promise<{
  result: TrainResult;
  losses: number[];
}> {
  const losses: number[] = [];
  const stop = new StopBelow(1.5);
  const result = await trainFromConfig(
    {
      run: { max_steps: 200, output_dir: outputDir },
      model: { vocab_size: 8, max_seq_len: 16, n_layer: 1, n_head: 2, d_model: 32 },
      data: { num_tokens: 8, micro_batch_size: 8 },
      optimizer: { lr: 3e-3 },
      scheduler: { warmup_steps: 5 },
    },
    { hooks: [recordLosses(losses), stop], signal: stop.signal },
  );
  return { result, losses };
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? "").href) {
  const { result, losses } = await main();
  const cause = result.stop.kind === "stopped" ? result.stop.cause : "target reached";
  console.log(`${losses[0]!.toFixed(3)} → ${losses.at(-1)!.toFixed(3)} in ${result.steps} steps: ${cause}`);
}
