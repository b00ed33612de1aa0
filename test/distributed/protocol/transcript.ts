// Scripted stories: a text file whose lines after "> " go in, with what must come out under each of them. Lines with
// "#" and empty ones stay. UPDATE_TRANSCRIPTS=1 writes the files anew; read the diff.

import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { basename } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";

/** One test per file of the folder that starts with `prefix`, named after its first line. */
export function testTranscripts(prefix: string, createRunner: () => (line: string) => string[]): void {
  const folder = fileURLToPath(new URL("transcripts/", import.meta.url));
  const files = readdirSync(folder).filter((file) => file.startsWith(prefix) && file.endsWith(".txt"));
  if (files.length === 0) throw new Error(`no transcripts named ${prefix}*.txt in ${folder}`);
  for (const file of files.sort()) {
    const text = readFileSync(folder + file, "utf8");
    const title = text.split("\n", 1)[0]!.replace(/^# /, "");
    test(`${title} (${basename(file, ".txt")})`, () => {
      const actual = transcribe(text, createRunner());
      if (process.env.UPDATE_TRANSCRIPTS === "1") writeFileSync(folder + file, actual);
      else expect(actual).toBe(text);
    });
  }
}

function transcribe(text: string, run: (line: string) => string[]): string {
  const out: string[] = [];
  for (const line of text.trimEnd().split("\n")) {
    if (line === "" || line.startsWith("#")) out.push(line);
    if (!line.startsWith("> ")) continue;
    out.push(line);
    for (const effect of run(line.slice(2))) out.push(`  ${effect}`);
  }
  return `${out.join("\n")}\n`;
}

/** `name=value` words as an object. */
export function options(words: readonly string[]): Record<string, string> {
  return Object.fromEntries(
    words.filter((word) => word.includes("=")).map((word) => word.split("=", 2) as [string, string]),
  );
}

export function shaOf(text: string): string {
  return Buffer.from(text).toString("hex").padEnd(64, "0").slice(0, 64);
}
