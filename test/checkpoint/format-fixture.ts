// Writes the committed checkpoint of the present format version, which later releases must go on reading:
//   node --import tsx test/checkpoint/format-fixture.ts test/fixtures/checkpoint-formats/v<version>

import { CheckpointStore } from "../../src/checkpoint/index.js";
import { richStateAt } from "./state.js";

const [directory = ""] = process.argv.slice(2);
const clock = () => new Date("2030-01-02T03:04:05.678Z");
const store = new CheckpointStore({ directory, keepLast: null, runId: "fixture", clock });
await store.save(richStateAt(7, 8));
