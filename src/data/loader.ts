// The endless stream of training batches. Which samples make up a batch is a pure function of (seed, epoch,
// position); prefetching only moves the work to an earlier moment and can be thrown away at any time.
// A batch never mixes epochs: the last one of an epoch is short, or left out with `dropLast`.

import { DataError } from "../util/errors.js";
import { type Order, sequentialOrder, shuffledOrder } from "./order.js";
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
  private readonly options: Required<Omit<DataLoaderOptions<S>, "onClose">>;
  private readonly onClose: (() => Promise<void>) | undefined;
  private consumed: DataPosition = { epoch: 0, position: 0 };

  /** Batches under way, in order, and the position after the last of them. */
  private queue: Promise<Prepared>[] = [];
  private queuedTo: DataPosition = this.consumed;
  /** Settles when all started loads have. */
  private loads: Promise<void> = Promise.resolve();
  /** Goes up whenever the queue is thrown away, so that loads not yet started can be skipped. */
  private generation = 0;

  private calls: Promise<void> = Promise.resolve();
  private pendingCalls = 0;
  private closing: Promise<void> | undefined;
  private order: { epoch: number; indexAt: Order } | undefined;

  constructor({ onClose, ...options }: DataLoaderOptions<S>) {
    this.options = { shuffle: false, dropLast: true, seed: 0, prefetchBatches: 0, ...options };
    this.onClose = onClose;
    const { dataset, batchSize, dropLast } = this.options;
    const batches = dataset.length / batchSize;
    this.batchesPerEpoch = dropLast ? Math.floor(batches) : Math.ceil(batches);
    if (this.batchesPerEpoch < 1) throw emptyEpochError(dataset.length, batchSize);
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
    const { length } = this.options.dataset;
    if (!isCount(position.epoch) || !isCount(position.position) || position.position > length) {
      throw new DataError(
        `Cannot continue at epoch ${position.epoch}, sample ${position.position}: an epoch of this data has ` +
          `${length} samples. The data or the block size changed since the position was saved; start a new run.`,
        { code: "data.position_out_of_range", details: { ...position, samples: length } },
      );
    }
    this.consumed = this.skipEmptyRest(position);
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
    const start = this.queuedTo;
    const count = Math.min(this.options.batchSize, this.options.dataset.length - start.position);
    const end = this.skipEmptyRest({ epoch: start.epoch, position: start.position + count });
    const generation = this.generation;
    const load = async (): Promise<Prepared> => {
      if (generation !== this.generation) throw closedError();
      return { loaded: await this.load(start, count), end };
    };
    const prepared = when === "now" ? load() : this.loads.then(letOthersRun).then(load);
    // A failure belongs to the next() that asks for this batch; until then it is no unhandled rejection.
    // Settling to nothing matters: a chain of results would keep every batch alive.
    this.loads = Promise.allSettled([this.loads, prepared]).then(() => {});
    this.queue.push(prepared);
    this.queuedTo = end;
  }

  private async load(start: DataPosition, count: number): Promise<LoadedBatch> {
    const { dataset, collate } = this.options;
    const indexAt = this.orderOf(start.epoch);
    const samples: (S | Promise<S>)[] = [];
    for (let i = 0; i < count; i++) samples.push(dataset.get(indexAt(start.position + i)));
    return { ...collate(await Promise.all(samples)), epoch: start.epoch };
  }

  private orderOf(epoch: number): Order {
    if (this.order?.epoch !== epoch) {
      const { shuffle, dataset, seed } = this.options;
      const indexAt = shuffle ? shuffledOrder(dataset.length, seed, epoch) : sequentialOrder();
      this.order = { epoch, indexAt };
    }
    return this.order.indexAt;
  }

  private skipEmptyRest(place: DataPosition): DataPosition {
    const rest = this.options.dataset.length - place.position;
    const isOver = rest < (this.options.dropLast ? this.options.batchSize : 1);
    return isOver
      ? { epoch: place.epoch + 1, position: 0 }
      : { epoch: place.epoch, position: place.position };
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

function isCount(value: number): boolean {
  return Number.isSafeInteger(value) && value >= 0;
}

function closedError(): DataError {
  return new DataError("The data loader is closed. Build a new one to go on.", { code: "data.closed" });
}

function emptyEpochError(samples: number, batchSize: number): DataError {
  if (samples === 0) {
    return new DataError("The dataset has no samples. Give it some data, or name another source.", {
      code: "data.empty_epoch",
      details: { samples, batchSize },
    });
  }
  return new DataError(
    `An epoch has no full batch: ${samples} samples for data.micro_batch_size ${batchSize} with ` +
      `data.drop_last true. Set data.micro_batch_size to at most ${samples}, or data.drop_last to false.`,
    { code: "data.empty_epoch", details: { samples, batchSize } },
  );
}
