// Sets of shards as short texts: "0-3,7". One set has one text.

/** Ascending numbers, each once. */
export function encodeRanges(shards: readonly number[]): string {
  const parts: string[] = [];
  for (let i = 0; i < shards.length; ) {
    let end = i;
    while (shards[end + 1] === shards[end]! + 1) end++;
    parts.push(end === i ? String(shards[i]) : `${shards[i]}-${shards[end]}`);
    i = end + 1;
  }
  return parts.join(",");
}

/** Undefined for anything that `encodeRanges` does not write, and for numbers from `count` on. */
export function parseRanges(text: string, count: number): number[] | undefined {
  const shards: number[] = [];
  if (text === "") return shards;
  for (const part of text.split(",")) {
    const match = /^(0|[1-9][0-9]{0,8})(?:-([1-9][0-9]{0,8}))?$/.exec(part);
    if (match === null) return undefined;
    const first = Number(match[1]);
    const last = match[2] === undefined ? first : Number(match[2]);
    // Before anything is added: overlapping parts would make a short text a long list.
    if (last >= count || last < first || first <= (shards.at(-1) ?? -1)) return undefined;
    for (let shard = first; shard <= last; shard++) shards.push(shard);
  }
  return encodeRanges(shards) === text ? shards : undefined;
}
