// What holds for every rule of the table, then the numbers of cautious updates, SGD and Lion.

import { describe, expect, it } from "vitest";
import { optimizers } from "../../src/optim/index.js";
import { gap, makeBench, parameter } from "./harness.js";

const names = Object.keys(optimizers);
const shape = [3, 4] as const;
const wave = (salt: number) => Array.from({ length: 12 }, (_, i) => Math.sin(1.7 * i + salt));
const zeros = Array(12).fill(0) as number[];

describe.each(names)("%s", (name) => {
  const bench = (changes = {}) => makeBench(name, [parameter("w", shape)], { w: wave(1) }, changes);

  it("goes down along the gradient, and starts from zeros", async () => {
    const { store, step } = await bench({ cautious: { masksDecay: false, rescales: false } });
    for (const slot of store.slotsOf("w")) expect([...store.slot(slot, "w").data]).toEqual(zeros);
    await step({ w: wave(2) });
    const change = [...store.parameter("w").data].map((x, i) => x - wave(1)[i]!);
    expect(change.reduce((sum, x, i) => sum + x * wave(2)[i]!, 0)).toBeLessThan(-1e-3);
    for (const slot of store.slotsOf("w")) expect(store.slot(slot, "w").data.some((x) => x !== 0)).toBe(true);
  });

  it("only decays without a gradient", async () => {
    const { store, step } = await bench();
    await step({ w: zeros });
    expect(
      gap(
        store.parameter("w").data,
        wave(1).map((x) => x * (1 - 0.02 * 0.1)),
      ),
    ).toBeLessThan(1e-7);
  });

  it("takes gradients times gradScale: the same bits from halves and 2", async () => {
    const [whole, halved] = [await bench(), await bench()];
    for (const count of [1, 2, 3]) {
      await whole.step({ w: wave(count) }, { count });
      await halved.step({ w: wave(count).map((x) => x / 2) }, { count, gradScale: 2 });
    }
    expect(halved.store.parameter("w").data).toEqual(whole.store.parameter("w").data);
  });

  it("continues from its parameters and state to the same bits", async () => {
    const straight = await bench();
    const first = await bench();
    for (const count of [1, 2]) {
      await straight.step({ w: wave(count) }, { count });
      await first.step({ w: wave(count) }, { count });
    }
    const second = await makeBench(name, [parameter("w", shape)], {
      w: [...first.store.parameter("w").data],
    });
    for (const slot of first.store.slotsOf("w"))
      second.store.slot(slot, "w").data.set(first.store.slot(slot, "w").data);
    await straight.step({ w: wave(3) }, { count: 3 });
    await second.step({ w: wave(3) }, { count: 3 });
    expect(second.store.parameter("w").data).toEqual(straight.store.parameter("w").data);
  });

  it("when cautious, advances its state as ever, and moves no value against its gradient", async () => {
    const cautious = { masksDecay: false, rescales: false };
    const [plain, careful] = [await bench(), await bench({ cautious })];
    let heldBack = 0;
    for (const count of [1, 2, 3]) {
      // Both start each update at the same place, so that only the mask tells them apart.
      careful.store.parameter("w").data.set(plain.store.parameter("w").data);
      const base = [...plain.store.parameter("w").data].map((x) => x * (1 - 0.02 * 0.1));
      const gradient = wave(2.2 * count);
      await plain.step({ w: gradient }, { count });
      await careful.step({ w: gradient }, { count });
      const [free, kept] = [plain.store.parameter("w").data, careful.store.parameter("w").data];
      for (const [i, g] of gradient.entries()) {
        const agrees = (base[i]! - free[i]!) * g > 0;
        if (!agrees) heldBack += 1;
        expect(Math.abs(kept[i]! - (agrees ? free[i]! : base[i]!))).toBeLessThan(1e-7);
      }
    }
    expect(heldBack).toBeGreaterThan(0);
    for (const slot of plain.store.slotsOf("w"))
      expect(careful.store.slot(slot, "w").data).toEqual(plain.store.slot(slot, "w").data);
  });
});

describe("cautious AdamW", () => {
  const update = async (cautious?: { masksDecay: boolean; rescales: boolean }) => {
    const start = [0.5, -0.5, 0.001, 2];
    const { store, step } = await makeBench(
      "adamw",
      [parameter("w", [4])],
      { w: start },
      cautious ? { cautious } : {},
    );
    await step({ w: [1, -1, 0, 0.2] }, { lr: 0.1 });
    return store.parameter("w").data;
  };

  it("gives the Python system's numbers where decay is held back too", async () => {
    expect(gap(await update(), [0.395, -0.395, 0.00099, 1.88])).toBeLessThan(1e-6);
    const masked = await update({ masksDecay: true, rescales: false });
    expect(gap(masked, [0.395, -0.395, 0.001, 1.88])).toBeLessThan(1e-6);
    expect(masked[2]).toBe(Math.fround(0.001));
  });

  it("by default lets decay through", async () => {
    const found = await update({ masksDecay: false, rescales: false });
    expect(found[2]).toBeCloseTo(0.00099, 8);
  });

  it("enlarges what is left by the share that was dropped: three of four agree", async () => {
    const found = await update({ masksDecay: false, rescales: true });
    const moved = 0.1 / 0.75;
    expect(gap(found, [0.495 - moved, -0.495 + moved, 0.00099, 1.98 - moved])).toBeLessThan(1e-6);
  });
});

describe("formulas", () => {
  const run = async (name: string, changes = {}) => {
    const { store, step } = await makeBench(name, [parameter("w", [2])], { w: [1, -2] }, changes);
    await step({ w: [0.5, 0] });
    await step({ w: [-0.25, 3] }, { count: 2 });
    return store.parameter("w").data;
  };
  const kept = 1 - 0.02 * 0.1;

  it("sgd: momentum, with and without Nesterov's look ahead", async () => {
    const [m1, m2] = [0.5, 0.9 * 0.5 - 0.25];
    const ahead = kept * (kept - 0.02 * (0.5 + 0.9 * m1)) - 0.02 * (-0.25 + 0.9 * m2);
    const second = kept * kept * -2;
    expect(gap(await run("sgd"), [ahead, second - 0.02 * 1.9 * 3])).toBeLessThan(1e-6);
    const plain = kept * (kept - 0.02 * m1) - 0.02 * m2;
    expect(gap(await run("sgd", { nesterov: false }), [plain, second - 0.02 * 3])).toBeLessThan(1e-6);
  });

  it("lion: steps of one size along the sign", async () => {
    // Momentum after the first gradient is 0.05 · 0.5; the second update weighs it 0.9 against 0.1 · −0.25.
    const sign = Math.sign(0.9 * 0.025 - 0.1 * 0.25);
    expect(sign).toBe(-1);
    expect(gap(await run("lion"), [kept * (kept - 0.02) + 0.02, kept * kept * -2 - 0.02])).toBeLessThan(1e-6);
  });
});
