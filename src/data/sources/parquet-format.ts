// Node only. Parquet: a row is a record, a column a field. Of a file only the columns that are wanted are read, row group
// by row group. The one place that knows the library.

import type { AsyncBuffer, FileMetaData } from "hyparquet";
import { DataError, SpeedtronicError } from "../../util/errors.js";
import type { SourceFormat } from "./format.js";
import type { OpenFile, SourceFile } from "./source-file.js";

export const parquetFormat: SourceFormat = {
  unit: "row",

  async *read(file, skip, { fields }) {
    const { parquetMetadataAsync, parquetReadObjects } = await import("hyparquet");
    const { compressors } = await import("hyparquet-compressors");
    const open = await file.open();
    try {
      const buffer = asyncBuffer(open);
      const metadata = await parsed(file, () => parquetMetadataAsync(buffer));
      const columns = fields === null ? undefined : wantedColumns(file, metadata, fields);
      let start = 0;
      for (const group of metadata.row_groups) {
        const end = start + Number(group.num_rows);
        if (end > skip) {
          const rowStart = Math.max(start, skip);
          const rows = await parsed(file, () =>
            parquetReadObjects({
              file: buffer,
              metadata,
              compressors,
              rowStart,
              rowEnd: end,
              ...(columns === undefined ? {} : { columns }),
            }),
          );
          for (const row of rows) yield { kind: "fields", fields: row as Record<string, unknown> };
        }
        start = end;
      }
      return start;
    } finally {
      await open.close();
    }
  },
};

function asyncBuffer(open: OpenFile): AsyncBuffer {
  return {
    byteLength: open.sizeBytes,
    async slice(start, end = open.sizeBytes) {
      const from = start < 0 ? open.sizeBytes + start : start;
      const bytes = await open.read(from, Math.min(end, open.sizeBytes));
      return bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength) as ArrayBuffer;
    },
  };
}

/** Columns by their names at the top: a field within a struct comes with the struct. */
function wantedColumns(file: SourceFile, metadata: FileMetaData, fields: readonly string[]): string[] {
  const there = new Set(
    metadata.row_groups.flatMap(({ columns }) =>
      columns.flatMap(({ meta_data }) => meta_data?.path_in_schema[0] ?? []),
    ),
  );
  const wanted = [...new Set(fields.map((field) => (there.has(field) ? field : field.split(".")[0]!)))];
  const missing = wanted.find((name) => !there.has(name));
  if (missing === undefined || metadata.row_groups.length === 0) return wanted;
  throw new DataError(
    `${file.name} has no column "${missing}"; it has ${[...there].map((name) => `"${name}"`).join(", ")}. ` +
      "Name one with data.text_field, or several in data.template.",
    { code: "data.no_such_column", details: { file: file.name, column: missing, columns: [...there] } },
  );
}

async function parsed<T>(file: SourceFile, read: () => Promise<T>): Promise<T> {
  try {
    return await read();
  } catch (cause) {
    if (cause instanceof SpeedtronicError) throw cause;
    const message = cause instanceof Error ? cause.message : String(cause);
    throw new DataError(`${file.name} cannot be read as Parquet: ${message}. Is it a whole Parquet file?`, {
      code: "data.damaged",
      details: { file: file.name },
      cause,
    });
  }
}
