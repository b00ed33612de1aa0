// The part of ONNX's protobuf schema that a model of ours uses: message and field names, numbers and types as
// published in onnx.proto (IR version 10). Encoding is protobufjs's work.

import protobuf from "protobufjs/light.js";

const repeated = (type: string, id: number) => ({ rule: "repeated", type, id });
const single = (type: string, id: number) => ({ type, id });
/** proto2 does not pack repeated numbers; ONNX's readers take both, we write what the schema says. */
const unpacked = (type: string, id: number) => ({ ...repeated(type, id), options: { packed: false } });

const root = protobuf.Root.fromJSON({
  nested: {
    onnx: {
      nested: {
        ModelProto: {
          fields: {
            irVersion: single("int64", 1),
            producerName: single("string", 2),
            graph: single("GraphProto", 7),
            opsetImport: repeated("OperatorSetIdProto", 8),
          },
        },
        OperatorSetIdProto: { fields: { domain: single("string", 1), version: single("int64", 2) } },
        GraphProto: {
          fields: {
            node: repeated("NodeProto", 1),
            name: single("string", 2),
            initializer: repeated("TensorProto", 5),
            input: repeated("ValueInfoProto", 11),
            output: repeated("ValueInfoProto", 12),
          },
        },
        NodeProto: {
          fields: {
            input: repeated("string", 1),
            output: repeated("string", 2),
            name: single("string", 3),
            opType: single("string", 4),
            attribute: repeated("AttributeProto", 5),
            domain: single("string", 7),
          },
        },
        AttributeProto: {
          fields: {
            name: single("string", 1),
            f: single("float", 2),
            i: single("int64", 3),
            s: single("bytes", 4),
            ints: unpacked("int64", 8),
            type: single("int32", 20),
          },
        },
        TensorProto: {
          fields: {
            dims: unpacked("int64", 1),
            dataType: single("int32", 2),
            name: single("string", 8),
            rawData: single("bytes", 9),
          },
        },
        ValueInfoProto: { fields: { name: single("string", 1), type: single("TypeProto", 2) } },
        TypeProto: { fields: { tensorType: single("TensorTypeProto", 1) } },
        TensorTypeProto: { fields: { elemType: single("int32", 1), shape: single("TensorShapeProto", 2) } },
        TensorShapeProto: { fields: { dim: repeated("DimensionProto", 1) } },
        DimensionProto: { fields: { dimValue: single("int64", 1) } },
      },
    },
  },
});

const modelProto = root.lookupType("onnx.ModelProto");

/** ONNX's numbers for element types. */
export const elementTypes = { float32: 1, int32: 6, int64: 7, bool: 9 } as const;

/** AttributeProto.AttributeType. */
export const attributeTypes = { float: 1, int: 2, string: 3, ints: 7 } as const;

export interface TensorProto {
  name: string;
  dims: readonly number[];
  dataType: number;
  rawData: Uint8Array;
}

export interface AttributeProto {
  name: string;
  type: number;
  f?: number;
  i?: number;
  s?: Uint8Array;
  ints?: readonly number[];
}

export interface NodeProto {
  name: string;
  opType: string;
  domain: string;
  input: readonly string[];
  output: readonly string[];
  attribute: readonly AttributeProto[];
}

export interface ValueInfoProto {
  name: string;
  type: { tensorType: { elemType: number; shape: { dim: { dimValue: number }[] } } };
}

export interface ModelProto {
  irVersion: number;
  producerName: string;
  opsetImport: { domain: string; version: number }[];
  graph: {
    name: string;
    node: readonly NodeProto[];
    initializer: readonly TensorProto[];
    input: readonly ValueInfoProto[];
    output: readonly ValueInfoProto[];
  };
}

/** The model as the bytes that ONNX Runtime loads. */
export function encodeModel(model: ModelProto): Uint8Array {
  return modelProto.encode(model as unknown as protobuf.Message).finish();
}
