// Values of a PyTorch file as plain data, for what is no tensor: configuration, counters, schedule.

import type { JsonObject, JsonValue } from "../../checkpoint/content.js";
import type { TorchValue } from "../../formats/torch/index.js";

/** Plain data; what has no such form (tensors, bytes) becomes null. */
export function toPlain(value: TorchValue): JsonValue {
  if (value === null || typeof value === "boolean" || typeof value === "number" || typeof value === "string")
    return value;
  if (typeof value === "bigint") return String(value);
  if (Array.isArray(value)) return value.map(toPlain);
  return value instanceof Map ? toPlainObject(value) : null;
}

/** fromEntries keeps a key such as __proto__ a plain key. */
export function toPlainObject(map: ReadonlyMap<TorchValue, TorchValue>): JsonObject {
  return Object.fromEntries([...map].map(([key, member]) => [String(key), toPlain(member)]));
}
