// Events in words for people: one short line each, used for piped output and above the live status line.
// No styling and no terminal codes in it; text from outside (samples, paths, messages) is made harmless.
import { escapeControls, formatCount, formatDuration, formatGeneral } from "./number-text.js";

type Payload = Readonly<Record<string, unknown>>;

export function formatLoss(loss: number): string {
  return Number.isFinite(loss) && Math.abs(loss) < 1000 ? loss.toFixed(4) : formatGeneral(loss, 4);
}

const numberAt = (payload: Payload, key: string): number | undefined =>
  typeof payload[key] === "number" ? payload[key] : undefined;

/** `label value` if the payload has the number. */
function part(payload: Payload, key: string, render: (value: number) => string): string[] {
  const value = numberAt(payload, key);
  return value === undefined ? [] : [render(value)];
}

const safe = (value: unknown): string => escapeControls(String(value));

/** Tokens per second to show: of training alone where known, else of wall time. */
export function shownRate(payload: Payload): number | undefined {
  return numberAt(payload, "tokens_per_sec_train") ?? numberAt(payload, "tokens_per_sec");
}

export class Narrator {
  #targetStep: number | undefined;

  /** Lines for an event, none for those that say nothing to people. */
  describe(event: string, payload: Payload): string[] {
    if (event === "train_start") this.#targetStep = numberAt(payload, "target_step");
    if (event === "train_step") return [this.#describeStep(payload)];
    if (event === "sample") return describeSample(payload);
    const describe = Object.hasOwn(sentences, event) ? sentences[event] : undefined;
    return [describe === undefined ? describeOther(event, payload) : describe(payload)];
  }

  #describeStep(payload: Payload): string {
    const target = this.#targetStep === undefined ? "" : `/${this.#targetStep}`;
    const rate = shownRate(payload);
    return [
      `step ${safe(payload.step)}${target}`,
      ...part(payload, "loss", (loss) => `loss ${formatLoss(loss)}`),
      ...part(payload, "lr", (lr) => `lr ${formatGeneral(lr, 3)}`),
      ...part(payload, "grad_norm", (norm) => `grad ${formatGeneral(norm, 3)}`),
      ...(rate === undefined ? [] : [`${formatCount(rate)} tok/s`]),
      ...part(payload, "mfu", (mfu) => `mfu ${(100 * mfu).toFixed(0)}%`),
      ...(payload.eta_s === 0 ? [] : part(payload, "eta_s", (eta) => `eta ${formatDuration(eta)}`)),
    ].join("  ");
  }
}

const sentences: Readonly<Record<string, (payload: Payload) => string>> = {
  train_start: (p) =>
    [
      `training steps ${safe(p.start_step)} to ${safe(p.target_step)} on ${safe(p.device)} (${safe(p.precision)})`,
      ...part(p, "parameters", (n) => `${formatCount(n)} parameters`),
      ...part(p, "threads", (n) => `${n} threads`),
    ].join(", "),
  train_end: (p) =>
    [
      `ended at step ${safe(p.steps)}${p.reason === undefined ? "" : ` (${safe(p.reason)})`}`,
      ...part(p, "elapsed_s", (s) => `after ${formatDuration(s)}`),
      ...part(p, "loss", (loss) => `loss ${formatLoss(loss)}`),
      ...part(p, "validation_loss", (loss) => `validation loss ${formatLoss(loss)}`),
    ].join(", "),
  optimizer_step_skipped: (p) => `step ${safe(p.step)} skipped: ${safe(p.reason)}`,
  checkpoint: (p) =>
    `step ${safe(p.step)}  checkpoint ${safe(p.path)}${part(p, "save_s", (s) => ` (${formatDuration(s)})`).join("")}`,
  checkpoint_failed: (p) =>
    `warning: checkpoint of step ${safe(p.step)} failed: ${safe(p.error)}${typeof p.kept === "string" ? `; kept ${safe(p.kept)}` : ""}`,
  resume: (p) => `resumed after step ${safe(p.step)} from ${safe(p.path)}`,
  evaluation: (p) =>
    [
      `step ${safe(p.step)}`,
      ...part(p, "loss", (loss) => `validation loss ${formatLoss(loss)}`),
      ...part(p, "perplexity", (value) => `perplexity ${formatGeneral(value, 4)}`),
      ...part(p, "bits_per_byte", (value) => `bits/byte ${formatGeneral(value, 4)}`),
      ...part(p, "elapsed_s", (s) => `in ${formatDuration(s)}`),
    ].join("  "),
  data_epoch: (p) => `epoch ${safe(p.epoch)} begins in step ${safe(p.step)}`,
  warning: (p) => `warning: ${safe(p.message)}`,
  log: (p) => (p.level === "ERROR" ? `error: ${safe(p.message)}` : safe(p.message)),
};

function describeSample(payload: Payload): string[] {
  const text = escapeControls(`${payload.prompt ?? ""}${payload.text ?? ""}`, "\n\t").split("\n");
  return [`step ${safe(payload.step)}  sample`, ...text.map((line) => `  | ${line}`.trimEnd())];
}

const addedKeys: ReadonlySet<string> = new Set(["time", "run_id", "elapsed_s"]);

function describeOther(event: string, payload: Payload): string {
  const rows = Object.entries(payload).filter(([key]) => !addedKeys.has(key));
  const shown = rows.map(([key, value]) => {
    if (typeof value === "number")
      return `${key}=${Number.isSafeInteger(value) ? value : formatGeneral(value)}`;
    return `${key}=${safe(typeof value === "object" ? JSON.stringify(value) : value)}`;
  });
  return [event, ...shown].join(" ");
}
