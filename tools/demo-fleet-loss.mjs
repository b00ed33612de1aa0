// Prints the loss, in nats per byte, of given weights over the held-out tail of the book. One process, so that the
// memory of an engine is given back. Arguments: safetensors file or checkpoint folder, configuration as JSON.

import { buildRuntime } from "../dist/index.js";
import { evaluateDataset } from "../dist/train/evaluation.js";
import { ProgramCache } from "../dist/train/programs.js";
import { traceEvaluation } from "../dist/train/trace-model.js";

const [path, config] = process.argv.slice(2);
const runtime = await buildRuntime(JSON.parse(config), { initialWeights: { path } });
const programs = new ProgramCache(runtime.engine, (types) => traceEvaluation(runtime.model, types));
const { loss, tokens } = await evaluateDataset(runtime.engine, programs, runtime.data.validation, {
  batchSize: 16,
  maxBatches: null,
});
console.log(JSON.stringify({ loss, tokens }));
await runtime.close();
