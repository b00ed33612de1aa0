import { defineConfig } from "vitest/config";
import { packageAlias } from "./vitest.shared.js";

export default defineConfig({
  resolve: { alias: packageAlias },
  test: {
    include: ["test/**/*.slow.test.ts"],
    testTimeout: 3_600_000,
    hookTimeout: 3_600_000,
    fileParallelism: false,
  },
});
