// The endless stream of training batches. Which samples make up a batch is a pure function of the place in the stream
// (sampler.ts); prefetching only moves the work to an earlier moment and can be thrown away at any time.

import { DataError } from "../util/errors.js";
import { type Draw, EpochSampler, type Sampler } from "./sampler.js";
import type { CollatedBatch, DataLoader, DataPosition, Dataset, LoadedBatch } from "./types.js";

export interface DataLoaderOptions<S> {
  dataset: Dataset<S>;
  /** Samples per batch. */
  batchSize: number;
  /** Makes a batch of samples; `collateCausal` for language models. */
  collate: (samples: readonly S[]) => CollatedBatch;
  /** Default false. */
  shuffle?: boolean;
  /** Default true. */
  dropLast?: boolean;
  /** Any safe integer. Default 0. */
  seed?: number;
  /** Batches kept ready ahead of `next()`. Default 0. */
  prefetchBatches?: number;
  /** Another order of the samples; `shuffle`, `dropLast` and `seed` are without effect then. */
  sampler?: Sampler;
  /** Called once by `close()`, after the last read. For whoever lends the loader something to close. */
  onClose?: () => Promise<void>;
}

/** Throws DataError if an epoch would be without a batch. */
export function createDataLoader<S>(options: DataLoaderOptions<S>): DataLoader {
  return new BatchStream(options);
}

interface Prepared {
  loaded: LoadedBatch;
  end: DataPosition;
}

class BatchStream<S> implements DataLoader {
  readonly batchesPerEpoch: number;
  private readonly options: Required<Pick<DataLoaderOptions<S>, "dataset" | "collate" | "prefetchBatches">>;
  private readonly sampler: Sampler;
  private readonly onClose: (() => Promise<void>) | undefined;
  private consumed: DataPosition;

  /** Batches under way, in order, and the position after the last of them. */
  private queue: Promise<Prepared>[] = [];
  private queuedTo: DataPosition;
  /** Settles when all started loads have. */
  private loads: Promise<void> = Promise.resolve();
  /** Goes up whenever the queue is thrown away, so that loads not yet started can be skipped. */
  private generation = 0;

  private calls: Promise<void> = Promise.resolve();
  private pendingCalls = 0;
  private closing: Promise<void> | undefined;

  constructor(options: DataLoaderOptions<S>) {
    const { dataset, collate, batchSize, shuffle = false, dropLast = true, seed = 0 } = options;
    this.options = { dataset, collate, prefetchBatches: options.prefetchBatches ?? 0 };
    this.onClose = options.onClose;
    this.sampler =
      options.sampler ?? new EpochSampler({ length: dataset.length, batchSize, shuffle, dropLast, seed });
    this.batchesPerEpoch = this.sampler.batchesPerEpoch;
    this.consumed = this.sampler.start;
    this.queuedTo = this.consumed;
  }

  position(): DataPosition {
    return this.consumed;
  }

  seek(position: DataPosition): void {
    this.refuseIfClosed();
    if (this.pendingCalls > 0) {
      throw new DataError("seek() was called while a next() is pending. Await the batch first.", {
        code: "data.seek_while_pending",
      });
    }
    this.consumed = this.sampler.settle(position);
    this.discardQueue();
  }

  next(): Promise<LoadedBatch> {
    // One call after the other, so that batches come in order even if the caller does not wait.
    this.pendingCalls++;
    const call = this.calls.then(() => this.take()).finally(() => this.pendingCalls--);
    this.calls = call.then(ignore, ignore);
    return call;
  }

  close(): Promise<void> {
    this.closing ??= this.finish();
    return this.closing;
  }

  private async finish(): Promise<void> {
    this.generation++;
    await this.calls;
    await this.loads;
    this.discardQueue();
    await this.onClose?.();
  }

  private async take(): Promise<LoadedBatch> {
    this.refuseIfClosed();
    if (this.queue.length === 0) this.enqueue("now");
    try {
      const { loaded, end } = await this.queue[0]!;
      this.queue.shift();
      this.consumed = end;
      while (this.closing === undefined && this.queue.length < this.options.prefetchBatches) {
        this.enqueue("later");
      }
      return loaded;
    } catch (error) {
      this.discardQueue();
      throw error;
    }
  }

  private enqueue(when: "now" | "later"): void {
    const draw = this.sampler.draw(this.queuedTo);
    const { end } = draw;
    const generation = this.generation;
    const load = async (): Promise<Prepared> => {
      if (generation !== this.generation) throw closedError();
      return { loaded: await this.load(draw), end };
    };
    const prepared = when === "now" ? load() : this.loads.then(letOthersRun).then(load);
    // A failure belongs to the next() that asks for this batch; until then it is no unhandled rejection.
    // Settling to nothing matters: a chain of results would keep every batch alive.
    this.loads = Promise.allSettled([this.loads, prepared]).then(() => {});
    this.queue.push(prepared);
    this.queuedTo = end;
  }

  private async load({ epoch, indices }: Draw): Promise<LoadedBatch> {
    const { dataset, collate } = this.options;
    const samples = indices.map((index) => dataset.get(index));
    return { ...collate(await Promise.all(samples)), epoch };
  }

  private discardQueue(): void {
    this.generation++;
    this.queue = [];
    this.queuedTo = this.consumed;
  }

  private refuseIfClosed(): void {
    if (this.closing !== undefined) throw closedError();
  }
}

// Preparing a batch can be pure computation. Between two of them the event loop must get a turn, or the
// batch that the caller waits for would be handed over only after all the prefetching.
function letOthersRun(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

function ignore(): void {}

function closedError(): DataError {
  return new DataError("The data loader is closed. Build a new one to go on.", { code: "data.closed" });
}
