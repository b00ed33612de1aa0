// The Range header (RFC 9110, section 14): one range of bytes. Several ranges and other units are ignored, which the
// standard allows.

export type RangeAnswer =
  | { readonly kind: "whole" }
  /** `end` is exclusive. */
  | { readonly kind: "part"; readonly start: number; readonly end: number }
  | { readonly kind: "unsatisfiable" };

export function parseRange(header: string | undefined, sizeBytes: number): RangeAnswer {
  const match = /^bytes=\s*([0-9]*)-([0-9]*)\s*$/i.exec(header ?? "");
  if (match === null || (match[1] === "" && match[2] === "")) return { kind: "whole" };
  const [first, last] = [match[1]!, match[2]!];
  if (first === "") {
    const length = Math.min(Number(last), sizeBytes);
    return length === 0
      ? { kind: "unsatisfiable" }
      : { kind: "part", start: sizeBytes - length, end: sizeBytes };
  }
  const start = Number(first);
  if (last !== "" && Number(last) < start) return { kind: "whole" };
  if (start >= sizeBytes) return { kind: "unsatisfiable" };
  return { kind: "part", start, end: last === "" ? sizeBytes : Math.min(Number(last) + 1, sizeBytes) };
}

/** Whether an `If-None-Match` or `If-Range` list names `etag` (weak comparison). */
export function namesEtag(header: string | undefined, etag: string): boolean {
  if (header === undefined) return false;
  return header.split(",").some((item) => {
    const name = item.trim();
    return name === "*" || name.replace(/^W\//, "") === etag;
  });
}
