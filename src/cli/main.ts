#!/usr/bin/env node
// The executable: connects the command line to this process. It sets the exit code and lets the process end by
// itself, so that output is never cut off.

import { processContext } from "./context.js";
import { runCli } from "./run.js";

const context = processContext();
process.exitCode = await runCli(process.argv.slice(2), context);
