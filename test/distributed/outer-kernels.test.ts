// The kernels in WebAssembly against the portable loops: the same bits for every kind of value, length and place.

import { describe, expect, test } from "vitest";
import { describeDelta, type OuterKernels, portableKernels } from "../../src/distributed/wire/index.js";
import {
  createWasmKernels,
  loadOuterKernels,
  writeOuterStep,
} from "../../src/distributed/wire/index.node.js";
import { loadKernels } from "../../src/tensor/kernels/load.node.js";
import { f32, MemorySink, memory, opened } from "./states.js";

const wasm = createWasmKernels(await loadKernels());
const SPECIAL = [0, -0, 1.4e-45, -1.1754942e-38, 3.4028235e38, -3.4028235e38, 1, -1 / 3];
const LENGTHS = [...Array.from({ length: 41 }, (_, i) => i), 20_011];

/** Bit patterns of a small generator, so that all exponents occur; NaN and infinity only if asked for. */
function values(length: number, seed: number, kind: "any" | "finite" | "usual"): Float32Array {
  let state = seed * 2_654_435_761 + 1;
  const next = () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) | 0;
    return state ^ (state >>> 15);
  };
  const bits = new Int32Array(1);
  const value = new Float32Array(bits.buffer);
  return Float32Array.from({ length }, (_, i) => {
    bits[0] = next();
    if (kind === "usual") return bits[0] / 2 ** 31;
    if (i % 5 === 0) return SPECIAL[(bits[0] >>> 8) % SPECIAL.length]!;
    return kind === "any" || Number.isFinite(value[0]!) ? value[0]! : 1;
  });
}

/** Bits, with one pattern for every NaN: which one comes out is up to the processor. */
const bitsOf = (array: Float32Array | Float64Array) => {
  const plain = array.map((x) => (Number.isNaN(x) ? Number.NaN : x));
  return Buffer.from(plain.buffer, plain.byteOffset, plain.byteLength).toString("hex");
};

type Run = (kernels: OuterKernels, place: (array: Float32Array) => Float32Array) => unknown[];

/** Runs on the portable kernels, then on WebAssembly with arrays elsewhere and arrays in its memory. */
function expectSame(run: Run): void {
  const here = (array: Float32Array) => array.slice();
  const loans: Uint8Array<ArrayBuffer>[] = [];
  const near = (array: Float32Array) => {
    const loan = wasm.take!(array.byteLength)!;
    loans.push(loan);
    const placed = new Float32Array(loan.buffer, loan.byteOffset, array.length);
    placed.set(array);
    return placed;
  };
  const wanted = run(portableKernels, here);
  expect(run(wasm, here)).toEqual(wanted);
  expect(run(wasm, near)).toEqual(wanted);
  for (const loan of loans) wasm.give!(loan);
}

describe.each(["any", "finite", "usual"] as const)("%s values", (kind) => {
  test.each([1, 3, 8, 37])("mean and weighted sum of %i", (count) => {
    const weights = values(count, 99, "usual");
    for (const n of LENGTHS) {
      const deltas = Array.from({ length: count }, (_, d) => values(n, d + n, kind));
      expectSame((kernels, place) => {
        const [mean, sum] = [place(new Float32Array(n).fill(7)), place(new Float32Array(n).fill(7))];
        const placed = deltas.map(place);
        kernels.average(mean, placed);
        kernels.addWeighted(sum, placed, weights);
        return [bitsOf(mean), bitsOf(sum)];
      });
    }
  });

  test("momentum, update and squares", () => {
    for (const n of LENGTHS) {
      const [g, previous, state] = [values(n, 1, kind), values(n, 2, kind), values(n, 3, kind)];
      for (const old of [previous, undefined]) {
        expectSame((kernels, place) => {
          const [buffer, eff, out] = [place(new Float32Array(n)), place(g), place(new Float32Array(n))];
          const isMomentum = kernels.advance(buffer, eff, old && place(old), Math.fround(0.9));
          const inPlace = place(state);
          const isState = kernels.subtractScaled(out, place(state), eff, Math.fround(0.7));
          kernels.subtractScaled(inPlace, inPlace, eff, Math.fround(0.7));
          const lanes = new Float64Array(8).fill(0.1);
          kernels.addSquares(lanes, place(state), n % 8);
          return [isMomentum, isState, ...[buffer, eff, out, inPlace, lanes].map(bitsOf)];
        });
      }
    }
  });
});

test("one element that is not finite is found wherever it is", () => {
  for (const fault of [Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY]) {
    for (let at = 0; at < 11; at++) {
      const [zeros, bad] = [new Float32Array(11), new Float32Array(11)];
      bad[at] = fault;
      expect(wasm.advance(new Float32Array(11), zeros.slice(), bad, 0.5)).toBe(false);
      expect(wasm.subtractScaled(new Float32Array(11), bad, zeros, 0.5)).toBe(false);
      expect(wasm.subtractScaled(new Float32Array(11), zeros, zeros, 0.5)).toBe(true);
    }
  }
});

test("whole steps and norms agree, from files and from memory", async () => {
  const kernels = await loadOuterKernels();
  const n = 300_001;
  const tensors = (seed: number) => [
    f32("a", ...values(13, seed, "usual")),
    { name: "b", dtype: "F32" as const, shape: [n], data: values(n, seed, "usual") },
    f32("c"),
  ];
  const files = async (using: OuterKernels | undefined, open: typeof opened | typeof memory) => {
    const sides = [new MemorySink(), new MemorySink()] as const;
    const deltas = [await open(...tensors(3)), await open(...tensors(4)), await open(...tensors(5))];
    const inputs = { state: await open(...tensors(1)), momentum: await open(...tensors(2)), deltas };
    await writeOuterStep(
      { ...inputs, lr: 0.7, mu: 0.9, kernels: using },
      { state: sides[0], momentum: sides[1] },
    );
    const { norm } = await describeDelta(deltas[0]!, { kernels: using });
    return [norm, ...sides.map(({ bytes }) => Buffer.from(bytes).toString("base64"))];
  };
  const wanted = await files(undefined, memory);
  for (const open of [memory, opened] as const)
    for (const using of [kernels, undefined])
      expect((await files(using, open)).every((value, i) => value === wanted[i])).toBe(true);
});

test("memory is given back: what was free stays free", async () => {
  const kernels = createWasmKernels(await loadKernels());
  const half = 2 ** 26;
  for (let i = 0; i < 5; i++) {
    const memory = kernels.take!(half);
    expect(memory?.byteLength).toBe(half);
    expect(kernels.take!(half)).toBeUndefined();
    kernels.give!(memory!);
  }
});
