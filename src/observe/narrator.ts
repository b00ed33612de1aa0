// Events in words for people: one short line each, used for piped output and above the live status line.
// No styling and no terminal codes in it; text from outside (samples, paths, messages) is made harmless.
import { distributedSentences, isSilent } from "./distributed-lines.js";
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
  /** The run was at its target from the start: that has been said then. */
  #isIdle = false;

  /** Lines for an event, none for those that say nothing to people. */
  describe(event: string, payload: Payload): string[] {
    if (event === "train_start") {
      this.#targetStep = numberAt(payload, "target_step");
      this.#isIdle = payload.start_step === payload.target_step;
    }
    if (event === "train_step") return [this.#describeStep(payload)];
    if (event === "sample") return describeSample(payload);
    if (event === "resume") return describeResume(payload);
    if (event === "weights_loaded") return describeWeights(payload);
    if ((event === "train_end" && this.#isIdle) || isForFiles(event) || isSilent(event, payload)) return [];
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

/** Too long to be read in passing. */
const isForFiles = (event: string): boolean => event === "run_info" || event === "layer_norms";

const sentences: Readonly<Record<string, (payload: Payload) => string>> = {
  train_start: (p) =>
    p.start_step === p.target_step
      ? `nothing to train: step ${safe(p.target_step)} is reached already`
      : [
          `training steps ${safe(p.start_step)} to ${safe(p.target_step)} on ${safe(p.device)} (${safe(p.precision)})`,
          ...part(p, "parameters", (n) => `${formatCount(n)} parameters`),
          ...part(p, "threads", (n) => `${n} ${n === 1 ? "thread" : "threads"}`),
        ].join(", "),
  train_end: (p) =>
    [
      `${describeEnd(p)}${part(p, "elapsed_s", (s) => ` after ${formatDuration(s)}`).join("")}`,
      ...part(p, "loss", (loss) => `loss ${formatLoss(loss)}`),
      ...part(p, "validation_loss", (loss) => `validation loss ${formatLoss(loss)}`),
    ].join(", "),
  shape_warning: (p) =>
    [
      `shape warning: ${safe(p.field)}=${safe(p.value)} is not a multiple of ${safe(p.alignment)}; `,
      p.suggested === null ? "" : `consider ${safe(p.suggested)} `,
      `(${safe(p.reason)})`,
    ].join(""),
  shape_profile: (p) =>
    p.warning_count === 0
      ? `sizes are multiples of ${safe(p.alignment)}`
      : `${safe(p.warning_count)} shape warnings`,
  optimizer_step_skipped: (p) => `step ${safe(p.step)} skipped: ${safe(p.reason)}`,
  checkpoint: (p) =>
    `step ${safe(p.step)}  checkpoint ${safe(p.path)}${part(p, "save_s", (s) => ` (${formatDuration(s)})`).join("")}`,
  checkpoint_failed: (p) =>
    `warning: checkpoint of step ${safe(p.step)} failed: ${safe(p.error)}${typeof p.kept === "string" ? `; kept ${safe(p.kept)}` : ""}`,
  evaluation: (p) =>
    [
      `step ${safe(p.step)}`,
      ...part(p, "loss", (loss) => `validation loss ${formatLoss(loss)}`),
      ...part(p, "perplexity", (value) => `perplexity ${formatGeneral(value, 4)}`),
      ...part(p, "bits_per_byte", (value) => `bits/byte ${formatGeneral(value, 4)}`),
      ...part(p, "elapsed_s", (s) => `in ${formatDuration(s)}`),
    ].join("  "),
  ...distributedSentences,
  data_epoch: (p) => `epoch ${safe(p.epoch)} begins in step ${safe(p.step)}`,
  warning: (p) => `warning: ${safe(p.message)}`,
  log: (p) => (p.level === "ERROR" ? `error: ${safe(p.message)}` : safe(p.message)),
};

function describeEnd({ steps, reason }: Payload): string {
  const step = `step ${safe(steps)}`;
  if (reason === undefined) return `ended at ${step}`;
  if (reason === "target") return `reached ${step}`;
  return reason === "error" ? `failed at ${step}` : `stopped by ${safe(reason)} at ${step}`;
}

/** Where it goes on, then whatever makes this start differ from the run before. */
function describeWeights(payload: Payload): string[] {
  const differences = Array.isArray(payload.differences) ? payload.differences : [];
  return [
    `initial weights from ${safe(payload.path)}`,
    ...String(payload.report)
      .split("\n")
      .map((line) => `  ${safe(line)}`),
    ...differences.map((difference) => `  their model differs: ${safe(difference)}`),
  ];
}

function describeResume(payload: Payload): string[] {
  const { notes } = payload;
  return [
    `resumed after step ${safe(payload.step)} from ${safe(payload.path)}`,
    ...(Array.isArray(notes) ? notes : []).map((note) => `note: ${safe(note)}`),
  ];
}

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
