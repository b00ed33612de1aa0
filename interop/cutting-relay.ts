// A connection that breaks in the middle, for clients that should go on where they were.

import { connect, createServer } from "node:net";

/** A relay that cuts the first connection over which more than `limit` bytes have come back. */
export async function cuttingRelay(
  endpoint: string,
  limit: number,
): Promise<{ endpoint: string; close(): void }> {
  const { hostname, port } = new URL(endpoint);
  let hasCut = false;
  const relay = createServer((client) => {
    const upstream = connect(Number(port), hostname);
    let bytes = 0;
    client.on("error", () => upstream.destroy());
    upstream.on("error", () => client.destroy());
    client.pipe(upstream);
    upstream.on("data", (chunk: Buffer) => {
      bytes += chunk.byteLength;
      if (!hasCut && bytes > limit) {
        hasCut = true;
        client.destroy();
        upstream.destroy();
      } else if (!client.write(chunk)) {
        upstream.pause();
        client.once("drain", () => upstream.resume());
      }
    });
    upstream.on("end", () => client.end());
  });
  await new Promise<void>((resolve) => relay.listen(0, "127.0.0.1", resolve));
  const { port: relayPort } = relay.address() as { port: number };
  return { endpoint: `http://127.0.0.1:${relayPort}`, close: () => relay.close() };
}
