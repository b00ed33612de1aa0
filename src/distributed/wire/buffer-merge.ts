// What becomes of a model's buffers (running statistics, counters) in a round: they are no weights, so that neither the
// outer learning rate nor momentum applies to them. Names without a policy are stepped like weights, as Python does.

import { parseDeltaHeader } from "./delta-header.js";
import { WireError } from "./errors.js";
import type { OuterKernels } from "./outer-kernels.js";

/**
 * `average`: the weighted mean of what the nodes have. `max`: the largest of what the nodes and the global state have.
 * `copy`: the global state's value stays, and nodes take it over. `local`: it stays, and each node keeps its own.
 */
export const BUFFER_POLICIES = ["average", "copy", "max", "local"] as const;
export type BufferPolicy = (typeof BUFFER_POLICIES)[number];

/** By name in the state dict. */
export type BufferPolicies = Readonly<Record<string, BufferPolicy>>;

export interface BufferRules {
  readonly policies: BufferPolicies;
  /**
   * By delta, whether it starts from the state that the round starts from: only then state minus delta is what its node
   * has. Of the others buffers are left out, else a variance could come out below 0.
   */
  readonly isFresh: readonly boolean[];
}

/** The rules of the round that follows version `parent`, for deltas with this header metadata. */
export function bufferRules(
  policies: BufferPolicies | undefined,
  parent: number,
  deltas: readonly { readonly metadata: ReadonlyMap<string, string> }[],
): BufferRules | undefined {
  if (policies === undefined) return undefined;
  const isFresh = deltas.map(({ metadata }) => parseDeltaHeader(metadata).baseOuterStep === parent);
  return { policies, isFresh };
}

export function policyOf(policies: BufferPolicies | undefined, name: string): BufferPolicy | undefined {
  return policies !== undefined && Object.hasOwn(policies, name) ? policies[name] : undefined;
}

/** Weights for `average`; `weights` undefined stands for the plain mean. */
export function freshWeights(isFresh: readonly boolean[], weights: Float32Array | undefined): Float32Array {
  return Float32Array.from(isFresh, (fresh, i) => (fresh ? (weights?.[i] ?? 1 / isFresh.length) : 0));
}

/** One piece: `out` becomes what is to be subtracted from the global state. `values`: one array per delta. */
export function mergeBuffer(
  kernels: OuterKernels,
  out: Float32Array,
  values: readonly Float32Array[],
  { policy, isFresh, weights }: { policy: BufferPolicy; isFresh: readonly boolean[]; weights: Float32Array },
): void {
  if (policy === "average") {
    kernels.addWeighted(out, values, weights);
    return;
  }
  out.fill(0);
  if (policy !== "max") return;
  for (const [index, delta] of values.entries()) {
    if (!isFresh[index]) continue;
    for (let i = 0; i < out.length; i++) out[i] = Math.min(out[i]!, delta[i]!);
  }
}

/** The policies in a document. @throws WireError `wire.invalid_record`. */
export function parseBufferPolicies(value: unknown, file: string): BufferPolicies {
  const isObject = typeof value === "object" && value !== null && !Array.isArray(value);
  const known: ReadonlySet<unknown> = new Set(BUFFER_POLICIES);
  if (isObject && Object.values(value).every((policy) => known.has(policy))) return value as BufferPolicies;
  const message = `buffer_policies is ${JSON.stringify(value).slice(0, 120)}, not names with one of ${BUFFER_POLICIES.join(", ")} each`;
  throw new WireError("invalid_record", message, { file });
}
