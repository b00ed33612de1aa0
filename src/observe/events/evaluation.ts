// Events of the periodic looks at the model: loss on held-out data, and sampled text.
import { type EventDocs, flag, float, int, text } from "./doc.js";

export interface EvaluationEvents {
  evaluation: {
    step: number;
    loss: number;
    perplexity: number;
    bits_per_byte?: number;
    tokens: number;
    elapsed_s: number;
    best?: boolean;
  };
  sample: {
    step: number;
    text: string;
    prompt?: string;
    sample_s?: number;
  };
}

export const evaluationEventDocs = {
  evaluation: {
    doc: "The model was measured on held-out data.",
    keys: {
      step: int("step of the weights measured"),
      loss: float("mean loss over the held-out target tokens, in nats per token"),
      perplexity: float("exp(loss)"),
      bits_per_byte: float("loss in bits per byte of text; only for byte-level models"),
      tokens: int("target tokens measured"),
      elapsed_s: float("seconds the evaluation took"),
      best: flag("whether this is the lowest loss of the run so far"),
    },
  },
  sample: {
    doc: "Text sampled from the model.",
    keys: {
      step: int("step of the weights used"),
      text: text("the text, prompt not included"),
      prompt: text("text the sample continues"),
      sample_s: float("seconds that writing it took"),
    },
  },
} as const satisfies EventDocs<EvaluationEvents>;
