// Advice on sizes, before training. Names and keys that Python Speedtronic 2.0 has keep their spelling.

import { type EventDocs, int, text } from "./doc.js";

export interface ShapeEvents {
  shape_warning: {
    code: string;
    field: string;
    value: number;
    suggested: number | null;
    alignment: number;
    reason: string;

    layers?: number;
  };
  shape_profile: {
    device_type: string;
    precision: string;
    alignment: number | null;
    warning_count: number;
  };
}

export const shapeEventDocs = {
  shape_warning: {
    doc: "A size that suits this machine less well than another near it. One for each distinct size.",
    keys: {
      code: text("batch_alignment, sequence_alignment, model_alignment or vocab_alignment"),
      field: text("the key that sets the size, or the first layer that has it"),
      value: int("the size"),
      suggested: int("the next size that fits all rules of the configuration, or null where there is none"),
      alignment: int("what sizes should be a multiple of"),
      reason: text("why, and how to find out whether it matters"),
      layers: int("how many layers have this size"),
    },
  },
  shape_profile: {
    doc: "What sizes were checked against.",
    keys: {
      device_type: text("device that the advice is for"),
      precision: text("precision that it is for"),
      alignment: int("what sizes should be a multiple of, or null where nothing is checked"),
      warning_count: int("number of shape_warning events"),
    },
  },
} as const satisfies EventDocs<ShapeEvents>;
