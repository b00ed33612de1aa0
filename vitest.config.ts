import { defineConfig } from "vitest/config";
import { packageAlias } from "./vitest.shared.js";

export default defineConfig({
  resolve: { alias: packageAlias },
  test: {
    include: ["test/**/*.test.ts"],
    exclude: ["test/**/*.slow.test.ts", "node_modules/**"],
    testTimeout: 60_000,
    maxWorkers: 2,
  },
});
