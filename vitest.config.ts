import { defineConfig } from "vitest/config";
import { packageAlias } from "./vitest.shared.js";

export default defineConfig({
  resolve: { alias: packageAlias },
  test: {
    include: ["test/**/*.test.ts"],
    exclude: ["test/**/*.slow.test.ts", "node_modules/**"],
    testTimeout: 60_000,
    maxWorkers: 2,
    // Files of one worker share its modules: loading them anew for each file would take a third of the time. A test
    // puts back what it changes, and finds registries with what others put there.
    isolate: false,
  },
});
