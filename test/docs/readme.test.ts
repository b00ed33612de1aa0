// Every code block of the pages runs, every configuration loads, every link leads somewhere, and the generated
// pages are what their tables say. Blocks marked `text` are for reading only.

import { existsSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { parseConfigText } from "speedtronic";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { configurationPath, renderConfiguration } from "../../tools/generate-configuration.js";
import { eventsPath, renderEvents } from "../../tools/generate-events.js";
import { linksOf, pages, root, type Snippet, snippetsOf, Workplace, words } from "./snippets.js";

const snippets = pages().flatMap(snippetsOf);
const ofLanguage = (language: string) => snippets.filter((snippet) => snippet.language === language);
const programName = ({ place }: Snippet) => `${place.replace(/\W+/g, "-")}.ts`;
const { scripts, dependencies } = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as {
  scripts: Record<string, string>;
  dependencies: Record<string, string>;
};

let workplace: Workplace;
beforeAll(() => {
  workplace = new Workplace();
});
afterAll(() => workplace.close());

describe("configurations", () => {
  it.each(ofLanguage("yaml"))("$place loads", ({ text }) => {
    expect(() => parseConfigText(text)).not.toThrow();
    const title = /^# (\S+\.yaml)\n/.exec(text)?.[1];
    if (title) workplace.write(title, text);
  });
});

describe("programs", () => {
  it.each(ofLanguage("ts"))("$place runs", async (snippet) => {
    const program = workplace.write(programName(snippet), snippet.text);
    const { code, out, err } = await workplace.run(program);
    expect({ code, err }).toEqual({ code: 0, err: "" });
    expect(out).not.toBe("");
  });

  it("have the right types", async () => {
    for (const snippet of ofLanguage("ts"))
      workplace.write(programName(snippet), `${snippet.text}export {};\n`);
    const { out } = await workplace.typecheck();
    // The sources that they import are checked elsewhere.
    expect(out.split("\n").filter((line) => !/^(?:\.\.|\s|$)/.test(line))).toEqual([]);
  });
});

describe("commands", () => {
  const lines = ofLanguage("sh").flatMap(({ place, text }) =>
    text
      .trim()
      .split("\n")
      .map((line) => ({ place, line })),
  );

  it.each(lines)("$place: $line", async ({ line }) => {
    for (const command of line.split("&&").map((part) => words(part.replace(/\s#.*$/, "")))) {
      const [program, first, ...rest] = command;
      if (program === "npx" && first === "speedtronic") {
        const { code, out, err } = await workplace.speedtronic(rest);
        expect({ code, err }).toEqual({ code: 0, err: "" });
        expect(out).toMatch(
          rest[0] === "train" ? /\ncompleted steps=\d+ samples=\d+ tokens=\d+ loss=\d/ : /\S/,
        );
      } else if (program === "npx" && first === "tsx") expect(existsSync(join(root, rest[0]!))).toBe(true);
      else if (program === "npx" && first === "vitest") expect(rest[0]).toBe("run");
      else if (program === "npm" && first === "ci")
        expect(existsSync(join(root, "package-lock.json"))).toBe(true);
      else if (program === "npm") expect(scripts).toHaveProperty([first === "run" ? rest[0]! : first!]);
      else if (program?.startsWith(".")) expect(existsSync(join(root, program))).toBe(true);
      else expect.fail(`no test knows how to try "${line}"`);
    }
  });

  it("begin with the two that set the project up", () => {
    expect(lines.slice(0, 2).map(({ line }) => line)).toEqual([
      "npm ci && npm run demo",
      "npm ci && npm test",
    ]);
  });
});

describe("pages", () => {
  it.each(pages())("%s: links lead somewhere", (page) => {
    const missing = linksOf(page).filter((target) => !existsSync(join(root, dirname(page), target)));
    expect(missing).toEqual([]);
  });

  it("use only languages that are tried here, or text", () => {
    const known = ["yaml", "ts", "sh", "text"];
    expect(snippets.filter(({ language }) => !known.includes(language)).map(({ place }) => place)).toEqual(
      [],
    );
  });

  it("CONTRIBUTING.md says of every runtime dependency what we would otherwise write", () => {
    const rows = readFileSync(join(root, "CONTRIBUTING.md"), "utf8").split("## Runtime dependencies")[1]!;
    const explained = [...rows.matchAll(/^\| `([^`]+)`\s+\| \S/gm)].map((match) => match[1]);
    expect(explained.sort()).toEqual(Object.keys(dependencies).sort());
  });

  it("docs/configuration.md is what the schema says (run `npx tsx tools/generate-configuration.ts`)", () => {
    expect(readFileSync(configurationPath, "utf8")).toBe(renderConfiguration());
  });

  it("docs/events.md is what the catalogue says (run `npx tsx tools/generate-events.ts`)", () => {
    expect(readFileSync(eventsPath, "utf8")).toBe(renderEvents());
  });
});
