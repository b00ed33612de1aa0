// The program of a child process: makes commits in a folder repository, each with a file of its own and a line in a
// file that all share, and reads again after every conflict. It may kill itself right before its n-th change on disk.
//
// Arguments: root, name, commits, n (0: never), "wait" to halt between the first head and the first commit until a
// byte comes on standard input.

import { writeSync } from "node:fs";
import promises, { type FileHandle } from "node:fs/promises";
import { syncBuiltinESMExports } from "node:module";
import { TransportError } from "../../../src/distributed/transports/errors.js";
import { FolderTransport } from "../../../src/distributed/transports/folder.node.js";
import { put } from "./content.js";

const [root = "", name = "", commits = "0", killAt = "0", mode = ""] = process.argv.slice(2);
const say = (line: string) => writeSync(1, `${line}\n`);
const done: string[] = [];

function count(what: string): void {
  done.push(what);
  if (done.length === Number(killAt)) {
    say(`killed ${what}`);
    process.kill(process.pid, "SIGKILL");
  }
}

/** Every change on disk from here on is counted before it is made. */
async function countChanges(): Promise<void> {
  const names = ["open", "link", "rename", "rm"] as const;
  for (const one of names) {
    const original = promises[one] as (...values: unknown[]) => Promise<unknown>;
    const counted = (...values: unknown[]) => {
      if (one !== "open" || values[1] === "wx") count(one);
      return original(...values);
    };
    Object.assign(promises, { [one]: counted });
  }
  syncBuiltinESMExports();
  const handle = await promises.open(process.execPath, "r");
  const shape = Object.getPrototypeOf(handle) as FileHandle;
  await handle.close();
  for (const one of ["write", "sync"] as const) {
    const original = shape[one] as (...values: unknown[]) => Promise<unknown>;
    const counted = function (this: FileHandle, ...values: unknown[]) {
      count(one);
      return original.apply(this, values);
    };
    Object.assign(shape, { [one]: counted });
  }
}

const transport = new FolderTransport({ root });
await countChanges();
let conflicts = 0;
for (let i = 0; i < Number(commits); ) {
  const parent = await transport.head();
  if (mode === "wait" && i === 0 && conflicts === 0) {
    say(`head ${parent}`);
    await new Promise((resolve) => process.stdin.once("data", resolve));
    process.stdin.destroy();
  }
  const shared = new TextDecoder().decode(await transport.read(parent, "shared.txt", 1 << 20));
  const operations = [put(`${name}/${i}.txt`, `${name} ${i}`), put("shared.txt", `${shared}${name} ${i}\n`)];
  try {
    const revision = await transport.commit({ parent, message: `${name} ${i}`, operations });
    say(`made ${i} ${revision}`);
    i++;
  } catch (error) {
    if (!(error instanceof TransportError) || error.problem !== "conflict") throw error;
    conflicts++;
  }
}
await transport.close();
say(`conflicts ${conflicts}`);
say(`changes ${done.join(" ")}`);
