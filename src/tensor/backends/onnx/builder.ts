// Collects ONNX nodes and constants under unique names. Knows ONNX's containers, not our operators.

import { ModelError } from "../../../util/errors.js";
import type { DType, TensorData } from "../../dtype.js";
import {
  type AttributeProto,
  attributeTypes,
  elementTypes,
  encodeModel,
  type NodeProto,
  type TensorProto,
  type ValueInfoProto,
} from "./schema.js";

/** Name of an ONNX value. */
export type OnnxName = string;

export type Attribute = number | string | readonly number[] | { float: number };

export interface EmitOptions {
  attributes?: Record<string, Attribute>;
  /** "" is ONNX's own operator set. */
  domain?: "" | "com.microsoft";
  outputs?: number;
}

const opset = 21;
const irVersion = 10;

export class OnnxBuilder {
  readonly #nodes: NodeProto[] = [];
  readonly #initializers: TensorProto[] = [];
  readonly #inputs: ValueInfoProto[] = [];
  readonly #outputs: ValueInfoProto[] = [];
  readonly #interned = new Map<string, OnnxName>();
  #next = 0;

  /** Adds a node and returns the names of its outputs. */
  emitAll(opType: string, inputs: readonly OnnxName[], options: EmitOptions = {}): OnnxName[] {
    const output = Array.from({ length: options.outputs ?? 1 }, () => this.#name());
    this.#nodes.push({
      name: `${opType}_${this.#nodes.length}`,
      opType,
      domain: options.domain ?? "",
      input: inputs,
      output,
      attribute: Object.entries(options.attributes ?? {}).map(([name, value]) =>
        encodeAttribute(name, value),
      ),
    });
    return output;
  }

  /** Adds a node with one output. */
  emit(opType: string, inputs: readonly OnnxName[], attributes: Record<string, Attribute> = {}): OnnxName {
    return this.emitAll(opType, inputs, { attributes })[0]!;
  }

  /** Adds a node of ONNX Runtime's own operator set. */
  emitMicrosoft(
    opType: string,
    inputs: readonly OnnxName[],
    attributes: Record<string, Attribute> = {},
  ): OnnxName {
    return this.emitAll(opType, inputs, { attributes, domain: "com.microsoft" })[0]!;
  }

  input(name: OnnxName, dtype: DType, shape: readonly number[]): void {
    this.#inputs.push(valueInfo(name, dtype, shape));
  }

  /** Makes `value` a result under `name`. */
  output(name: OnnxName, value: OnnxName, dtype: DType, shape: readonly number[]): void {
    this.#nodes.push({
      name: `result_${name}`,
      opType: "Identity",
      domain: "",
      input: [value],
      output: [name],
      attribute: [],
    });
    this.#outputs.push(valueInfo(name, dtype, shape));
  }

  constant(data: TensorData): OnnxName {
    const name = this.#name();
    const { buffer, byteOffset, byteLength } = data.data;
    this.#initializers.push({
      name,
      dims: data.shape,
      dataType: elementTypeOf(data.dtype),
      rawData: new Uint8Array(buffer, byteOffset, byteLength),
    });
    return name;
  }

  /** A float32 scalar; equal ones share a name. */
  float(value: number): OnnxName {
    const key = Object.is(value, -0) ? "f-0" : `f${value}`;
    return this.#intern(key, () =>
      this.constant({ dtype: "float32", shape: [], data: Float32Array.of(value) }),
    );
  }

  /** An int64 vector (axes, shapes, sizes); equal ones share a name. */
  ints(values: readonly number[]): OnnxName {
    return this.#intern(`i${values.join(",")}`, () => this.int64(values, [values.length]));
  }

  int64(values: readonly number[], dims: readonly number[]): OnnxName {
    const name = this.#name();
    const array = BigInt64Array.from(values, BigInt);
    this.#initializers.push({
      name,
      dims,
      dataType: elementTypes.int64,
      rawData: new Uint8Array(array.buffer),
    });
    return name;
  }

  build(): Uint8Array {
    return encodeModel({
      irVersion,
      producerName: "speedtronic",
      opsetImport: [
        { domain: "", version: opset },
        { domain: "com.microsoft", version: 1 },
      ],
      graph: {
        name: "graph",
        node: this.#nodes,
        initializer: this.#initializers,
        input: this.#inputs,
        output: this.#outputs,
      },
    });
  }

  #intern(key: string, make: () => OnnxName): OnnxName {
    let name = this.#interned.get(key);
    if (name === undefined) {
      name = make();
      this.#interned.set(key, name);
    }
    return name;
  }

  /** Names start with "%", which no input or output of a model may: they share one namespace. */
  #name(): OnnxName {
    return `%${this.#next++}`;
  }
}

/** ONNX's number for `dtype`. Throws ModelError for those that this backend does not compute in. */
export function elementTypeOf(dtype: DType): number {
  if (dtype === "float64" || dtype === "float16")
    throw new ModelError(
      `the onnx backend computes in float32, got a ${dtype} value: cast it, or use the reference backend`,
      {
        code: "onnx.unsupported_dtype",
        details: { dtype },
      },
    );
  return elementTypes[dtype];
}

function valueInfo(name: string, dtype: DType, shape: readonly number[]): ValueInfoProto {
  const dim = shape.map((dimValue) => ({ dimValue }));
  return { name, type: { tensorType: { elemType: elementTypeOf(dtype), shape: { dim } } } };
}

function encodeAttribute(name: string, value: Attribute): AttributeProto {
  if (typeof value === "string")
    return { name, type: attributeTypes.string, s: new TextEncoder().encode(value) };
  if (typeof value === "number") return { name, type: attributeTypes.int, i: value };
  if ("float" in value) return { name, type: attributeTypes.float, f: value.float };
  return { name, type: attributeTypes.ints, ints: value };
}
