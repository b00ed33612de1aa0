// Many kills at random moments.

import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { killAgainAndAgain } from "./crash.js";
import { scratch } from "./harness.js";

describe("a server that is killed 50 times", () => {
  it("leaves every branch at a complete commit and loses nothing that it acknowledged", async () => {
    expect(await killAgainAndAgain(join(scratch(), "hub"), 50, 2)).toBeGreaterThan(100);
  });
});
