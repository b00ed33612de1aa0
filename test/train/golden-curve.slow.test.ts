// The whole of PyTorch's loss curve at the demo's size: a hundred updates, each loss within 1e-4.

import { expect, it } from "vitest";
import { followGoldenCurve } from "./golden-curve.js";

it("follows PyTorch for a hundred updates", async () => {
  const { loss, gradNorm } = await followGoldenCurve();
  expect(loss).toBeLessThan(1e-4);
  expect(gradNorm).toBeLessThan(1e-2);
});
