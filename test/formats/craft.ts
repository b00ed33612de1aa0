// Hand-made safetensors files for tests: any header over any data, so that broken ones can be made too.

/** Header text (or bytes) and data into a file; `lengthField` replaces the true header length. */
export function craft(
  header: string | Uint8Array,
  data: Uint8Array | number = 0,
  lengthField?: bigint,
): Uint8Array {
  const head = typeof header === "string" ? new TextEncoder().encode(header) : header;
  const body = typeof data === "number" ? new Uint8Array(data) : data;
  const file = new Uint8Array(8 + head.byteLength + body.byteLength);
  new DataView(file.buffer).setBigUint64(0, lengthField ?? BigInt(head.byteLength), true);
  file.set(head, 8);
  file.set(body, 8 + head.byteLength);
  return file;
}

/** One entry as it stands in a header, without the outer braces. */
export function entry(
  name: string,
  dtype: string,
  shape: string,
  begin: number | string,
  end: number | string,
) {
  return `${JSON.stringify(name)}:{"dtype":"${dtype}","shape":${shape},"data_offsets":[${begin},${end}]}`;
}

export function hex(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString("hex");
}
