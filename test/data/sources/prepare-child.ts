// Tokenises a file in a process of its own and prints the peak of its memory, in megabytes. Arguments: the file, the
// folder for the ids, workers.

import { prepareCorpus } from "../../../src/data/prepared/prepare-corpus.js";
import { openDocuments } from "../../../src/data/sources/open-documents.js";
import { byteEncoder, specOf } from "./corpus.js";

const [path, directory, workers] = process.argv.slice(2) as [string, string, string];
const source = await openDocuments({ specs: [specOf({ paths: [path] }) as never], badRecordLimit: 0 });
const { manifest } = await prepareCorpus({
  source,
  encoder: byteEncoder,
  directory,
  workers: Number(workers),
});
// Units of getrusage on Linux and, through libuv, elsewhere: kilobytes.
console.log(JSON.stringify({ tokens: manifest.tokens, peakMb: process.resourceUsage().maxRSS / 1024 }));
