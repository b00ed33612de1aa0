// How tensors are spread over the files of a sharded set, and the index that says where each one is. The layout that
// readers elsewhere know: `model-00001-of-00003.safetensors` and `model.safetensors.index.json`.

import { DTYPE_BITS, type TensorStream } from "../../formats/safetensors/index.js";

export interface PlannedShard {
  readonly name: string;
  readonly tensors: readonly TensorStream[];
}

/**
 * Fills shards in the given order up to `maxShardBytes` of tensor data each; a tensor above that has a shard of its
 * own. No tensors give one empty shard.
 */
export function planShards(streams: readonly TensorStream[], maxShardBytes: number): PlannedShard[] {
  const groups: TensorStream[][] = [[]];
  let filled = 0;
  for (const stream of streams) {
    const sizeBytes = dataBytes(stream);
    if (filled > 0 && filled + sizeBytes > maxShardBytes) {
      groups.push([]);
      filled = 0;
    }
    groups.at(-1)!.push(stream);
    filled += sizeBytes;
  }
  const digits = (value: number) => String(value).padStart(5, "0");
  return groups.map((tensors, i) => ({
    name: `model-${digits(i + 1)}-of-${digits(groups.length)}.safetensors`,
    tensors,
  }));
}

export function shardIndexText(shards: readonly PlannedShard[]): string {
  const places = shards.flatMap(({ name, tensors }) => tensors.map((tensor) => [tensor.name, name] as const));
  places.sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0));
  const totalSize = shards
    .flatMap(({ tensors }) => tensors.map(dataBytes))
    .reduce((sum, size) => sum + size, 0);
  const index = { metadata: { total_size: totalSize }, weight_map: Object.fromEntries(places) };
  return `${JSON.stringify(index, null, 2)}\n`;
}

function dataBytes({ dtype, shape }: TensorStream): number {
  return (shape.reduce((product, size) => product * size, 1) * DTYPE_BITS[dtype]) / 8;
}
