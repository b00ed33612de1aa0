// `npm run bench -- <name> [options]`: the source of every published number. Build first (`npm run build`).

import { parseArgs } from "node:util";
import { benchCheckpoint, formatCheckpoint } from "./checkpoint.js";
import { benchData, formatData } from "./data.js";
import { benchOuter } from "./outer.js";
import { formatOuter } from "./outer-result.js";
import { benchSafetensors, formatSafetensors } from "./safetensors.js";
import { benchStartup, formatStartup } from "./startup.js";
import { benchStep, formatStep } from "./step.js";

const usage = `npm run bench -- step [--sizes S,M] [--rounds 3] [--steps 20] [--threads 2] [--probe DIR] [--json]
npm run bench -- startup [--rounds 5] [--json]
npm run bench -- safetensors [--rounds 3] [--size-mb 1000] [--threads 2] [--folder DIR] [--json]
npm run bench -- checkpoint [--sizes M] [--rounds 3] [--threads 2] [--folder DIR] [--json]
npm run bench -- data [--rounds 3] [--steps 20] [--threads 2] [--size-mb 100] [--tokenizer FILE] [--folder DIR] [--json]
npm run bench -- outer [--rounds 3] [--threads 2] [--folder DIR] [--quick] [--json]
`;

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    sizes: { type: "string", default: "S,M" },
    rounds: { type: "string", default: "3" },
    steps: { type: "string", default: "20" },
    threads: { type: "string", default: "2" },
    probe: { type: "string" },
    "size-mb": { type: "string", default: "1000" },
    folder: { type: "string" },
    tokenizer: { type: "string" },
    quick: { type: "boolean", default: false },
    json: { type: "boolean", default: false },
  },
});
const log = (text: string) => process.stderr.write(text);

switch (positionals[0]) {
  case "step": {
    const result = benchStep({
      sizeNames: values.sizes.split(","),
      rounds: Number(values.rounds),
      steps: Number(values.steps),
      threads: Number(values.threads),
      probe: values.probe,
      log,
    });
    console.log(values.json ? JSON.stringify(result, null, 2) : formatStep(result));
    break;
  }
  case "startup": {
    const result = benchStartup({ rounds: Number(values.rounds), log });
    console.log(values.json ? JSON.stringify(result, null, 2) : formatStartup(result));
    break;
  }
  case "safetensors": {
    const result = await benchSafetensors({
      rounds: Number(values.rounds),
      sizeMb: Number(values["size-mb"]),
      threads: Number(values.threads),
      folder: values.folder,
      log,
    });
    console.log(values.json ? JSON.stringify(result, null, 2) : formatSafetensors(result));
    break;
  }
  case "checkpoint": {
    const result = benchCheckpoint({
      sizeNames: values.sizes.split(","),
      rounds: Number(values.rounds),
      threads: Number(values.threads),
      folder: values.folder,
      log,
    });
    console.log(values.json ? JSON.stringify(result, null, 2) : formatCheckpoint(result));
    break;
  }
  case "data": {
    const result = benchData({
      rounds: Number(values.rounds),
      steps: Number(values.steps),
      threads: Number(values.threads),
      tokenizer: values.tokenizer,
      // The default is that of another benchmark.
      sizeMb: process.argv.some((argument) => argument.startsWith("--size-mb"))
        ? Number(values["size-mb"])
        : 100,
      folder: values.folder,
      log,
    });
    console.log(values.json ? JSON.stringify(result, null, 2) : formatData(result));
    break;
  }
  case "outer": {
    const rounds = Number(values.rounds);
    const result = await benchOuter({
      computeRounds: Math.max(rounds, values.quick ? 1 : 5),
      wholeRounds: rounds,
      threads: Number(values.threads),
      quick: values.quick,
      folder: values.folder,
      log,
    });
    console.log(values.json ? JSON.stringify(result, null, 2) : formatOuter(result));
    break;
  }
  default:
    process.stderr.write(usage);
    process.exitCode = 2;
}
