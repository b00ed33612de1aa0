// From the numbers that a pickle gives to a tensor that is known to lie within its storage.

import { TORCH_DTYPE_BYTES, type TorchDtype } from "../dtypes.js";
import { type TorchStorage, TorchTensor, type TorchValue } from "../values.js";
import { type CallContext, describeItem, type Item } from "./items.js";

/** More dimensions than PyTorch allows. */
const MAX_RANK = 64;

export interface TensorParts {
  readonly storage: TorchStorage;
  readonly dtype: TorchDtype;
  readonly offset: Item | undefined;
  readonly size: Item | undefined;
  readonly strides: Item | undefined;
  readonly requiresGrad: Item | undefined;
}

export function makeTensor(parts: TensorParts, context: CallContext): TorchTensor {
  const { storage, dtype, requiresGrad } = parts;
  const shape = readSizes("shape", parts.size, context);
  const strides = readSizes("strides", parts.strides, context);
  const [offset] = readSizes("offset", [(parts.offset ?? null) as TorchValue], context) as [number];
  const text = `a tensor of shape [${shape.join(", ")}], strides [${strides.join(", ")}] and offset ${offset}`;
  if (shape.length !== strides.length)
    context.fail("tensor", `${text} has not as many strides as dimensions`);
  const width = TORCH_DTYPE_BYTES[dtype];
  const count = shape.reduce((product, extent) => product * extent, 1);
  if (!Number.isSafeInteger(count * width * 8))
    context.fail("limit", `${text} has more bytes than can be counted`);
  const last = shape.reduce(
    (index, extent, axis) => index + Math.max(extent - 1, 0) * strides[axis]!,
    offset,
  );
  const have = Math.floor(storage.sizeBytes / width);
  if (count > 0 && !(last < have))
    context.fail(
      "tensor",
      `${text} reaches element ${last} of storage ${storage.key}, which has ${have} elements of ${dtype}`,
    );
  return new TorchTensor(storage, dtype, shape, strides, offset, requiresGrad === true);
}

function readSizes(what: string, value: Item | undefined, context: CallContext): number[] {
  const isList = Array.isArray(value) && value.length <= MAX_RANK;
  if (!isList || !value.every((size) => Number.isSafeInteger(size) && size >= 0))
    context.fail(
      "tensor",
      `the ${what} of a tensor must be whole numbers from 0 to 2^53 - 1, at most ${MAX_RANK} of them, not ` +
        (isList ? value.map((size) => describeItem(size)).join(", ") : describeItem(value)),
    );
  return [...(value as number[])];
}
