import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { MersenneTwister, seedWords, threefry2x32 } from "../../src/util/rng.js";

describe("MersenneTwister", () => {
  it("gives the reference outputs of MT19937 for its usual seed", () => {
    const generator = new MersenneTwister(5489);
    const outputs = Array.from({ length: 10_000 }, () => generator.nextUint32());
    expect(outputs.slice(0, 3)).toEqual([3499211612, 581869302, 3890346734]);
    // The C++ standard fixes the 10,000th output of mt19937.
    expect(outputs[9_999]).toBe(4123659995);
  });

  it("looks at the low 32 bits of the seed, also of a negative one", () => {
    const first = (seed: number) => new MersenneTwister(seed).nextUint32();
    expect(first(2 ** 32 + 7)).toBe(first(7));
    expect(first(-1)).toBe(first(2 ** 32 - 1));
  });

  it("starts over when it is seeded again", () => {
    const generator = new MersenneTwister(1);
    const draw = () => Array.from({ length: 700 }, () => generator.nextUint32());
    const before = draw();
    generator.reseed(1);
    expect(draw()).toEqual(before);
  });
});

describe("threefry2x32", () => {
  // Known answers published with the authors' Random123 library, 20 rounds.
  it.each([
    [
      [0, 0],
      [0, 0],
      [0x6b200159, 0x99ba4efe],
    ],
    [
      [0xffffffff, 0xffffffff],
      [0xffffffff, 0xffffffff],
      [0x1cb996fc, 0xbb002be7],
    ],
    [
      [0x13198a2e, 0x03707344],
      [0x243f6a88, 0x85a308d3],
      [0xc4923a9c, 0x483df7a0],
    ],
  ] as const)("key %j, counter %j", (key, counter, expected) => {
    expect(threefry2x32(key, counter[0], counter[1])).toEqual(expected);
  });
});

describe("seedWords", () => {
  it("keeps different safe integers apart", () => {
    const integer = fc.maxSafeInteger();
    fc.assert(
      fc.property(integer, integer, (a, b) => {
        const [lowA, highA] = seedWords(a);
        const [lowB, highB] = seedWords(b);
        expect(lowA === lowB && highA === highB).toBe(a === b);
      }),
      {
        seed: 1,
        examples: [
          [-1, 2 ** 32 - 1],
          [5, 2 ** 32 + 5],
          [0, -(2 ** 32)],
        ],
      },
    );
  });
});
