// The unmodified Python client, three versions of it, against the hub server: with hf_xet installed and no variable
// set but HF_ENDPOINT. 2.x is the peer's; 1.33 (the last 1.x) and 1.19 (which still negotiates Xet) are installed
// beside it once. The JavaScript client is in javascript-client.interop.test.ts.

import { execFile, execFileSync } from "node:child_process";
import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createHubServer, type HubServerOptions, type RequestLogEntry } from "../src/hub-server/index.js";
import { cuttingRelay } from "./cutting-relay.js";

const python = process.env.SPEEDTRONIC_PYTHON ?? "";
const script = fileURLToPath(new URL("./hub_clients.py", import.meta.url));
const ALICE = `hf_${"a".repeat(30)}`;
const BOB = `hf_${"b".repeat(30)}`;
const run = promisify(execFile);

let folder = "";
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "speedtronic-hub-clients-"));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** Where a second version of the client lives; undefined where it is missing and may not be installed. */
function installBeside(version: string): string | undefined {
  const target = join(dirname(dirname(dirname(python))), `huggingface_hub-${version}`);
  if (existsSync(join(target, ".complete"))) return target;
  if (process.env.SPEEDTRONIC_INTEROP_NO_INSTALL === "1") return undefined;
  const options = ["--no-cache-dir", "--disable-pip-version-check", "--no-input", "--quiet"];
  try {
    rmSync(target, { recursive: true, force: true });
    execFileSync(
      python,
      ["-m", "pip", "install", ...options, "--target", target, `huggingface_hub==${version}`],
      {
        stdio: "pipe",
      },
    );
  } catch {
    return undefined;
  }
  writeFileSync(join(target, ".complete"), "");
  return target;
}

interface Report {
  readonly version: string;
  readonly xet: boolean;
  readonly variables: readonly string[];
  readonly log: readonly RequestLogEntry[];
}

async function runScenario(
  scenario: string,
  packages: string | undefined,
  options: Partial<HubServerOptions> = {},
  environment: Record<string, string> = {},
  reach: (endpoint: string) => Promise<string> = async (endpoint) => endpoint,
): Promise<Report> {
  const place = mkdtempSync(join(folder, `${scenario}-`));
  const tokenFile = join(place, "tokens");
  writeFileSync(tokenFile, `alice write ${ALICE} lab/*\nbob write ${BOB} bob/*\n`, { mode: 0o600 });
  const log: RequestLogEntry[] = [];
  const server = await createHubServer({
    root: join(place, "hub"),
    tokenFile,
    onRequest: (entry) => log.push(entry),
    ...options,
  });
  try {
    const endpoint = await reach(await server.listen());
    const env: Record<string, string> = {
      PATH: process.env.PATH ?? "",
      HOME: place,
      HF_ENDPOINT: endpoint,
      ...environment,
    };
    if (packages !== undefined) env.PYTHONPATH = packages;
    const { stdout } = await run(python, [script, scenario, ALICE, BOB], { env, maxBuffer: 2 ** 26 });
    const report = JSON.parse(stdout.trim().split("\n").at(-1)!) as Omit<Report, "log">;
    expect(log.filter(({ status }) => status >= 500)).toEqual([]);
    return { ...report, log };
  } finally {
    await server.close({ graceMs: 1000 });
  }
}

describe.runIf(existsSync(python)).each([
  ["2.x", undefined],
  ["1.33.0", "1.33.0"],
  ["1.19.0", "1.19.0"],
])("huggingface_hub %s", (label, version) => {
  let packages: string | undefined;
  beforeAll(() => {
    if (version !== undefined) packages = installBeside(version);
  });
  const scenario = (
    name: string,
    title: string,
    check: (
      runIt: (
        ...more: [
          Partial<HubServerOptions>?,
          Record<string, string>?,
          ((endpoint: string) => Promise<string>)?,
        ]
      ) => Promise<Report>,
    ) => Promise<void>,
  ) =>
    it(title, async (context) => {
      if (version !== undefined && packages === undefined)
        context.skip(`huggingface_hub ${version} is not installed`);
      await check((...more) => runScenario(name, packages, ...more));
    });

  scenario("everyday", "creates, uploads small and large files, lists, downloads", async (runIt) => {
    const { version: found, xet, variables } = await runIt();
    expect(found).toMatch(label === "2.x" ? /^2\./ : version!);
    expect({ xet, variables }).toEqual({ xet: true, variables: ["HF_ENDPOINT"] });
  });

  scenario("compare_and_swap", "is told 412 when the head has moved", async (runIt) => {
    const { log } = await runIt();
    expect(log.filter(({ status }) => status === 412)).toHaveLength(2);
  });

  scenario("folders", "uploads folders, deletes, copies, branches, data sets", async (runIt) => {
    await runIt();
  });

  scenario("strangers", "finds no private repository with another token or none", async (runIt) => {
    await runIt();
  });

  scenario("bad_token", "refuses a token that nobody has", async (runIt) => {
    await runIt();
  });

  scenario("ranges", "sends parts of a file", async (runIt) => {
    const { log } = await runIt();
    expect(log.filter(({ path, status }) => path.endsWith("/large.bin") && status === 206)).toHaveLength(3);
  });

  // 1.19 gives up at once when a connection is cut.
  const resumes = version !== "1.19.0";
  if (resumes)
    scenario("resume", "continues a download that was cut", async (runIt) => {
      let relay: { close(): void } | undefined;
      const { log } = await runIt({}, {}, async (endpoint) => {
        const made = await cuttingRelay(endpoint, 22 * 2 ** 20);
        relay = made;
        return made.endpoint;
      });
      relay?.close();
      const statuses = log
        .filter(({ path, method }) => method === "GET" && path.endsWith("/large.bin"))
        .map(({ status }) => status);
      expect(statuses).toEqual([200, 206]);
    });

  scenario(
    "lfs",
    "sends what is too large for a commit by LFS, with Xet off where it is not negotiated",
    async (runIt) => {
      const limits = { maxInlineFileBytes: 2 ** 20, lfsThresholdBytes: 2 ** 20 };
      const isNegotiated = version === "1.19.0";
      const { log } = await runIt({ limits }, isNegotiated ? {} : { HF_HUB_DISABLE_XET: "1" });
      expect(log.filter(({ method, status }) => method === "PUT" && status === 200)).toHaveLength(1);
      expect(log.filter(({ path, status }) => path.endsWith("/verify") && status === 200)).toHaveLength(1);
    },
  );
});
