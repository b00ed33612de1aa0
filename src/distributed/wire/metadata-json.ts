// Header values that are JSON texts themselves, decoded together or not at all.

/**
 * Every value of a header decoded as JSON; when one of them is no JSON, all come back as the texts that they are.
 * Strict JSON: `NaN` and `Infinity`, which Python's decoder takes, count as texts.
 */
export function metadataJson(
  metadata: ReadonlyMap<string, string> | Readonly<Record<string, string>>,
): Record<string, unknown> {
  const pairs: [string, string][] =
    Symbol.iterator in metadata
      ? [...(metadata as ReadonlyMap<string, string>)]
      : Object.entries(metadata as Readonly<Record<string, string>>);
  try {
    return Object.fromEntries(pairs.map(([key, text]) => [key, JSON.parse(text) as unknown]));
  } catch {
    return Object.fromEntries(pairs);
  }
}
