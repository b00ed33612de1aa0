// From tensors of a PyTorch file to tensors of this library. Names that share one view become one object, so that
// they are tied again.

import { tensorView, toFloat32 } from "../../formats/safetensors/index.js";
import type { SafetensorsTensor } from "../../formats/safetensors/reader.js";
import type { TorchTensorReader } from "../../formats/torch/index.js";
import type { TensorData } from "../../tensor/dtype.js";
import { refuse } from "./failure.js";

/** Every tensor of `reader`, one after the other. Integers must fit into 32 bits; bfloat16 becomes float32. */
export async function readAllTensors(reader: TorchTensorReader): Promise<Map<string, TensorData>> {
  const tensors = new Map<string, TensorData>();
  for (const name of reader.entries.keys()) {
    const first = reader.aliases.get(name);
    tensors.set(
      name,
      first === undefined ? toTensorData(await reader.read(name), name, reader.file) : tensors.get(first)!,
    );
  }
  return tensors;
}

function toTensorData(tensor: SafetensorsTensor, name: string, file: string | undefined): TensorData {
  const { dtype, shape } = tensor;
  switch (dtype) {
    case "F32":
    case "BF16":
      return { dtype: "float32", shape, data: toFloat32(tensor) };
    case "F16":
      return { dtype: "float16", shape, data: toFloat32(tensor) };
    case "F64":
      return { dtype: "float64", shape, data: tensorView({ ...tensor, dtype }) };
    case "BOOL":
      return { dtype: "bool", shape, data: tensorView({ ...tensor, dtype }) };
    case "I32":
      return { dtype: "int32", shape, data: tensorView({ ...tensor, dtype }) };
    case "I64":
    case "I16":
    case "I8":
    case "U8":
      return { dtype: "int32", shape, data: toInt32(tensorView({ ...tensor, dtype }), name, file) };
    default:
      throw refuse("dtype", file, `tensor "${name}" is of type ${dtype}, which cannot be trained here`, {
        tensor: name,
      });
  }
}

function toInt32(
  values: BigInt64Array | Int16Array | Int8Array | Uint8Array,
  name: string,
  file: string | undefined,
): Int32Array {
  const out = new Int32Array(values.length);
  for (let i = 0; i < out.length; i++) {
    out[i] = Number(values[i]!);
    if (out[i] !== Number(values[i]!))
      throw refuse(
        "dtype",
        file,
        `tensor "${name}" has the value ${values[i]}, which does not fit into 32 bits`,
        {
          tensor: name,
        },
      );
  }
  return out;
}
