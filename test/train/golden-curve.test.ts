// The beginning of PyTorch's loss curve at the demo's size: while differences have not grown yet, they must be tiny.

import { expect, it } from "vitest";
import { followGoldenCurve } from "./golden-curve.js";

it("follows PyTorch for twelve updates to float32 rounding", async () => {
  const { loss, gradNorm } = await followGoldenCurve(12);
  expect(loss).toBeLessThan(1e-6);
  expect(gradNorm).toBeLessThan(1e-5);
}, 300_000);
