// A coordinator of one's own: two runs in one process that average their weights every few steps. A protocol
// between machines has the same shape; only how the values travel differs.
// Run it with: npx tsx examples/custom-coordinator.ts

import { pathToFileURL } from "node:url";
import { type SyncCoordinator, type TrainResult, trainFromConfig } from "speedtronic";
import type { TensorData } from "speedtronic/tensor";
import type { CoordinatedRun } from "speedtronic/train";

type Weights = Map<string, TensorData>;

/** Where members meet: nobody goes on before all that still run have brought their weights. */
class Meeting {
  #members = 0;
  #brought: Weights[] = [];
  #waiting: ((mean: Weights) => void)[] = [];

  join(): void {
    this.#members++;
  }

  leave(): void {
    this.#members--;
    this.#closeIfComplete();
  }

  average(weights: Weights): Promise<Weights> {
    const mean = new Promise<Weights>((resolve) => this.#waiting.push(resolve));
    this.#brought.push(weights);
    this.#closeIfComplete();
    return mean;
  }

  #closeIfComplete(): void {
    if (this.#brought.length === 0 || this.#brought.length < this.#members) return;
    const mean = meanOf(this.#brought);
    const waiting = this.#waiting;
    this.#brought = [];
    this.#waiting = [];
    for (const resolve of waiting) resolve(mean);
  }
}

function meanOf(all: readonly Weights[]): Weights {
  return new Map(
    [...all[0]!].map(([name, first]) => {
      const data = new Float32Array(first.data.length);
      for (const weights of all)
        for (const [i, value] of weights.get(name)!.data.entries()) data[i]! += value / all.length;
      return [name, { ...first, data }];
    }),
  );
}

export class AveragingCoordinator implements SyncCoordinator {
  /** Rounds of averaging so far, earlier parts of a resumed run included. */
  rounds = 0;

  constructor(
    private readonly meeting: Meeting,
    private readonly everySteps: number,
  ) {
    // Known before any run begins, so that the first to arrive waits for the other.
    meeting.join();
  }

  start(): void {}

  async afterOptimizerStep(run: CoordinatedRun, step: number): Promise<boolean> {
    if (step % this.everySteps !== 0) return false;
    await run.writeParameters(await this.meeting.average(await run.readParameters()));
    this.rounds++;
    return true;
  }

  /** Called however the run ends; the other one is then not kept waiting. */
  stop(): void {
    this.meeting.leave();
  }

  stateDict() {
    return { rounds: this.rounds };
  }

  loadStateDict(state: ReturnType<AveragingCoordinator["stateDict"]>): void {
    this.rounds = state.rounds;
  }
}

/** Two runs on different random data. Their weights are equal when the last step was one of averaging. */
export async function main(
  options: { steps?: number; everySteps?: number; outputDir?: string } = {},
): Promise<{ results: TrainResult[]; rounds: number[] }> {
  const { steps = 20, everySteps = 5, outputDir = "runs/averaging" } = options;
  const meeting = new Meeting();
  const coordinators = [1, 2].map(() => new AveragingCoordinator(meeting, everySteps));
  const results = await Promise.all(
    coordinators.map((coordinator, index) =>
      trainFromConfig(
        {
          run: { seed: 1, threads: 1, max_steps: steps, output_dir: `${outputDir}/${index}` },
          model: { vocab_size: 16, max_seq_len: 16, n_layer: 1, n_head: 2, d_model: 16 },
          data: { seed: index, num_tokens: 64, micro_batch_size: 4 },
          scheduler: { warmup_steps: 2 },
        },
        { coordinator },
      ),
    ),
  );
  return { results, rounds: coordinators.map(({ rounds }) => rounds) };
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? "").href) {
  const { results, rounds } = await main();
  for (const [index, { steps, finalLoss }] of results.entries())
    console.log(`run ${index}: ${steps} steps, ${rounds[index]} averagings, loss ${finalLoss?.toFixed(4)}`);
}
