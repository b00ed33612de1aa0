// What both forms of a PyTorch file come to: a tree of values, and the place of each storage's bytes.

import { TORCH_DTYPE_BYTES } from "../dtypes.js";
import type { TorchErrorFields, TorchProblem } from "../errors.js";
import { quote } from "../errors.js";
import { describeItem, type Item, PickleClass } from "../pickle/items.js";
import { TorchStorage, type TorchValue } from "../values.js";

export interface TorchContents {
  readonly format: "zip" | "legacy";
  readonly root: TorchValue;
  /** Where the first byte of a storage stands in the file. */
  locate(storage: TorchStorage): Promise<number>;
}

type Fail = (problem: TorchProblem, message: string, details?: TorchErrorFields["details"]) => never;

/**
 * The storages that a pickle refers to, each made once. A persistent id is the tuple ("storage", class, key,
 * location, number of elements), and in the legacy form the description of a view, which must be None.
 */
export class StorageTable {
  readonly storages = new Map<string, TorchStorage>();

  constructor(private readonly hasViews: boolean) {}

  resolve(id: readonly Item[], fail: Fail): TorchStorage {
    const [kind, type, key, location, count, view = null] = id;
    if (kind !== "storage")
      fail("storage", `the persistent id is of ${describeItem(kind)}, but must be that of a storage`);
    if (!(type instanceof PickleClass) || type.storage === undefined)
      fail("storage", `a storage has the class ${describeItem(type)}, which is no class of storages`);
    if (typeof key !== "string" || typeof location !== "string" || id.length !== (this.hasViews ? 6 : 5))
      fail("storage", "the persistent id of a storage does not have the form that PyTorch writes");
    if (!Number.isSafeInteger(count) || (count as number) < 0)
      fail("storage", `storage ${quote(key)} has ${describeItem(count)} as its number of elements`);
    if (view !== null)
      fail("unsupported", `storage ${quote(key)} is a view, as PyTorch before 0.4 wrote them`);
    const { dtype } = type.storage;
    const sizeBytes = (count as number) * (dtype === undefined ? 1 : TORCH_DTYPE_BYTES[dtype]);
    if (!Number.isSafeInteger(sizeBytes)) fail("limit", `storage ${quote(key)} claims ${count} elements`);
    const known = this.storages.get(key);
    if (known === undefined) {
      const storage = new TorchStorage(key, dtype, sizeBytes, location);
      this.storages.set(key, storage);
      return storage;
    }
    if (known.dtype !== dtype || known.sizeBytes !== sizeBytes)
      fail(
        "storage",
        `storage ${quote(key)} is described twice, as ${known.sizeBytes} and as ${sizeBytes} bytes`,
      );
    return known;
  }
}
