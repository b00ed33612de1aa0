// Texts that a hub sends, read to a limit: what it says must not fill our memory.

/** The whole text, or undefined if it has more than `maxBytes`; the rest is left in the line. */
export async function readText(response: Response, maxBytes: number): Promise<string | undefined> {
  const reader = response.body?.getReader();
  if (reader === undefined) return "";
  const decoder = new TextDecoder();
  let text = "";
  let sizeBytes = 0;
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return text + decoder.decode();
      sizeBytes += value.byteLength;
      if (sizeBytes > maxBytes) return undefined;
      text += decoder.decode(value, { stream: true });
    }
  } finally {
    await reader.cancel().catch(() => undefined);
  }
}

/** What servers and libraries say, without what opens doors: tokens, passwords and signatures in addresses. */
export function withoutSecrets(text: string): string {
  return text
    .replaceAll(/hf_\w+/g, "hf_…")
    .replaceAll(/\b(bearer|basic)\s+[\w.~+/=-]+/gi, "$1 …")
    .replaceAll(/\b(https?:\/\/)[^\s/?#@]+@/gi, "$1…@")
    .replaceAll(/(\bhttps?:\/\/[^\s?#"'<>]*)[?#][^\s"'<>]*/gi, "$1?…");
}
