// `speedtronic hub`: serve a repository folder to other machines, make tokens for it, check it. What it serves is
// done by src/hub-server/.

import { readFile } from "node:fs/promises";
import { createSecureContext } from "node:tls";
import { Argument, type Command, InvalidArgumentError, Option } from "commander";
import { ConfigError } from "../../util/errors.js";
import { onStopSignals } from "../../util/signals.node.js";
import { type CliCommand, collect, requireOptions } from "../command.js";
import type { CliContext } from "../context.js";
import { ExitCode } from "../exit-codes.js";

interface HubOptions {
  readonly root: string;
  readonly port: number;
  readonly host: string;
  readonly tokenFile?: string;
  readonly tlsCert?: string;
  readonly tlsKey?: string;
  readonly publicUrl?: string;
  readonly allowOrigin?: readonly string[];
  readonly quiet?: boolean;
  readonly name: string;
  readonly role: "read" | "write";
  readonly repos?: readonly string[];
}

function portNumber(text: string): number {
  const port = Number(text);
  if (!/^[0-9]+$/.test(text) || port > 65_535)
    throw new InvalidArgumentError("Expected a port from 0 to 65535.");
  return port;
}

export const hub: CliCommand = {
  configure(command: Command): void {
    command
      .usage("<serve|token|check> [options]")
      .addArgument(
        new Argument("<action>", "serve a folder, make a token, or check a folder").choices([
          "serve",
          "token",
          "check",
        ]),
      )
      .option("--root <folder>", "serve, check: where the repositories are; made if needed")
      .option("--port <n>", "serve: port; 0 takes any free one", portNumber, 8123)
      .option(
        "--host <address>",
        "serve: address to bind; other than this machine's own needs a token file",
        "127.0.0.1",
      )
      .option("--token-file <file>", "serve, token: who may do what")
      .option("--tls-cert <file>", "serve: certificate (PEM), for https")
      .option("--tls-key <file>", "serve: its private key (PEM)")
      .option("--public-url <url>", "serve: address that clients use, if a proxy stands before this one")
      .option("--allow-origin <origin>", "serve: web pages that may use the hub; may be repeated", collect)
      .option("--quiet", "serve: no line per request")
      .option("--name <name>", "token: whose it is")
      .addOption(
        new Option("--role <role>", "token: what it allows").choices(["read", "write"]).default("write"),
      )
      .option(
        "--repos <pattern>",
        "token: repositories it is good for, such as 'lab/*'; may be repeated",
        collect,
      )
      .description(
        "Serve repositories to the nodes of a run, with the API of the Hugging Face Hub. Clients set HF_ENDPOINT to the " +
          "address that is printed; requests are logged on stderr.",
      )
      .addHelpText(
        "after",
        `
Examples:
  speedtronic hub serve --root hub
  speedtronic hub token --token-file tokens.txt --name alice --repos 'lab/*'
  speedtronic hub serve --root hub --host 0.0.0.0 --token-file tokens.txt --tls-cert hub.crt --tls-key hub.key
  speedtronic hub check --root hub
`,
      );
  },

  async run(command, context): Promise<number> {
    const options = command.opts<HubOptions>();
    if (command.args[0] === "token") return makeToken(command, options, context);
    if (command.args[0] === "check") return check(command, options, context);
    return serve(command, options, context);
  },
};

async function serve(command: Command, options: HubOptions, context: CliContext): Promise<number> {
  requireOptions(command, ["root"]);
  const tls = await readTls(options);
  const { createHubServer, formatLogEntry } = await import("../../hub-server/index.js");
  const { root, port, host, tokenFile, publicUrl, allowOrigin } = options;
  const server = await createHubServer({
    root,
    port,
    host,
    ...(tokenFile === undefined ? {} : { tokenFile }),
    ...(tls === undefined ? {} : { tls }),
    ...(publicUrl === undefined ? {} : { publicUrl }),
    ...(allowOrigin === undefined ? {} : { allowedOrigins: allowOrigin }),
    ...(options.quiet === true ? {} : { onRequest: (entry) => context.err(formatLogEntry(entry)) }),
  });
  // A server that is asked to stop has done what it should: the exit code is 0.
  const stop = new Promise<void>((resolve) => {
    onStopSignals(() => resolve());
  });
  context.onOutputClosed = () => undefined;
  const endpoint = await server.listen();
  context.out(`speedtronic hub serves ${root} at ${publicUrl ?? endpoint}\n`);
  context.out(`clients: export HF_ENDPOINT=${publicUrl ?? endpoint}\n`);
  if (tokenFile !== undefined && tls === undefined && !isOwnMachine(host)) {
    context.err(
      "speedtronic: warning: without --tls-cert tokens travel in clear; use a trusted network or a proxy\n",
    );
  }
  await stop;
  context.err("speedtronic: stopping: finishing what is under way (once more stops at once)\n");
  await server.close();
  return ExitCode.ok;
}

async function readTls({ tlsCert, tlsKey }: HubOptions): Promise<{ cert: Buffer; key: Buffer } | undefined> {
  if (tlsCert === undefined && tlsKey === undefined) return undefined;
  if (tlsCert === undefined || tlsKey === undefined) {
    throw new ConfigError("--tls-cert and --tls-key belong together; one of them is missing", {
      code: "hub.tls",
    });
  }
  const read = (path: string) =>
    readFile(path).catch((error: unknown) => {
      throw new ConfigError(`${path}: cannot be read (${(error as Error).message})`, {
        code: "hub.tls",
        cause: error,
      });
    });
  const pair = { cert: await read(tlsCert), key: await read(tlsKey) };
  try {
    createSecureContext(pair);
  } catch (cause) {
    throw new ConfigError(
      `${tlsCert} and ${tlsKey} are no certificate and key that belong together, both in PEM (${(cause as Error).message})`,
      { code: "hub.tls", cause },
    );
  }
  return pair;
}

async function makeToken(command: Command, options: HubOptions, context: CliContext): Promise<number> {
  requireOptions(command, ["tokenFile", "name"]);
  const { addToken } = await import("../../hub-server/index.js");
  const token = await addToken(options.tokenFile!, options.name, options.role, options.repos ?? ["*"]);
  context.err(
    `speedtronic: this token is shown once; the file keeps its hash. Restart the hub to make it valid.\n`,
  );
  context.out(`${token}\n`);
  return ExitCode.ok;
}

async function check(command: Command, options: HubOptions, context: CliContext): Promise<number> {
  requireOptions(command, ["root"]);
  const { checkHubStore } = await import("../../hub-server/index.js");
  const { repositories, branches, commits, blobs, problems } = await checkHubStore(options.root);
  for (const problem of problems) context.out(`${problem}\n`);
  context.out(
    `${repositories} repositories, ${branches} branches, ${commits} commits, ${blobs} contents: ` +
      `${problems.length === 0 ? "sound" : `${problems.length} problem(s)`}\n`,
  );
  return problems.length === 0 ? ExitCode.ok : ExitCode.failure;
}

function isOwnMachine(host: string): boolean {
  return host === "localhost" || host === "::1" || host.startsWith("127.");
}
