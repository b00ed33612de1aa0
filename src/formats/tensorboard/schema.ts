// The part of TensorFlow's protobuf schema that our event files use: message and field names, numbers and types as
// published in event.proto, summary.proto and tensor.proto. Encoding is protobufjs's work.

import protobuf from "protobufjs/light.js";

const repeated = (type: string, id: number) => ({ rule: "repeated", type, id });
const single = (type: string, id: number) => ({ type, id });
/** proto3 packs repeated numbers, and the schema says so as well. */
const packed = (type: string, id: number) => ({ ...repeated(type, id), options: { packed: true } });

const root = protobuf.Root.fromJSON({
  nested: {
    Event: {
      oneofs: { what: { oneof: ["fileVersion", "summary", "sessionLog"] } },
      fields: {
        wallTime: single("double", 1),
        step: single("int64", 2),
        fileVersion: single("string", 3),
        summary: single("Summary", 5),
        sessionLog: single("SessionLog", 7),
      },
    },
    SessionLog: { fields: { status: single("int32", 1) } },
    Summary: { fields: { value: repeated("Value", 1) } },
    Value: {
      fields: {
        tag: single("string", 1),
        simpleValue: single("float", 2),
        histo: single("Histogram", 5),
        tensor: single("Tensor", 8),
        metadata: single("Metadata", 9),
      },
      oneofs: { value: { oneof: ["simpleValue", "histo", "tensor"] } },
    },
    Metadata: { fields: { pluginData: single("PluginData", 1) } },
    PluginData: { fields: { pluginName: single("string", 1) } },
    Histogram: {
      fields: {
        min: single("double", 1),
        max: single("double", 2),
        num: single("double", 3),
        sum: single("double", 4),
        sumSquares: single("double", 5),
        bucketLimit: packed("double", 6),
        bucket: packed("double", 7),
      },
    },
    Tensor: {
      fields: {
        dtype: single("int32", 1),
        tensorShape: single("TensorShape", 2),
        stringVal: repeated("bytes", 8),
      },
    },
    TensorShape: { fields: { dim: repeated("Dim", 2) } },
    Dim: { fields: { size: single("int64", 1) } },
  },
});

const eventType = root.lookupType("Event");

export interface HistogramMessage {
  readonly min: number;
  readonly max: number;
  readonly num: number;
  readonly sum: number;
  readonly sumSquares: number;
  /** Upper ends of the buckets, rising. */
  readonly bucketLimit: readonly number[];
  readonly bucket: readonly number[];
}

/** One named value of a summary; one of the three kinds. */
export interface SummaryValue {
  readonly tag: string;
  readonly simpleValue?: number;
  readonly histo?: HistogramMessage;
  readonly tensor?: {
    readonly dtype: number;
    readonly tensorShape: { readonly dim: readonly { readonly size: number }[] };
    readonly stringVal: readonly Uint8Array[];
  };
  readonly metadata?: { readonly pluginData: { readonly pluginName: string } };
}

export interface EventMessage {
  /** Seconds since 1970. */
  readonly wallTime: number;
  readonly step?: number;
  readonly fileVersion?: string;
  readonly summary?: { readonly value: readonly SummaryValue[] };
  readonly sessionLog?: { readonly status: number };
}

export function encodeMessage(event: EventMessage): Uint8Array {
  return eventType.encode(event as unknown as protobuf.Message).finish();
}
