// The hub of the outer benchmark as a process of its own, so that its memory and its work are not those of a side.
// Prints its endpoint, then one JSON line per request. Ends with its standard input. Argument: the folder of the store.

import { importBuilt } from "./dist.mjs";

const { createHubServer } = await importBuilt("hub-server/index.js");

const line = (value) => process.stdout.write(`${JSON.stringify(value)}\n`);

const server = await createHubServer({
  root: process.argv[2],
  onRequest: ({ method, path, status }) => line({ method, path, status }),
});
line({ endpoint: await server.listen() });
process.stdin.resume().on("end", async () => {
  await server.close({ graceMs: 0 });
  process.exit();
});
