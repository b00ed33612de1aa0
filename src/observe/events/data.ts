// Events of the data pipeline.
import { type EventDocs, int } from "./doc.js";

export interface DataEvents {
  data_epoch: {
    epoch: number;
    step: number;
    samples?: number;
  };
}

export const dataEventDocs = {
  data_epoch: {
    doc: "The training data was seen once more from end to end.",
    keys: {
      epoch: int("epoch that begins, counted from 0"),
      step: int("step during which it begins"),
      samples: int("samples per epoch"),
    },
  },
} as const satisfies EventDocs<DataEvents>;
