// What the live status line says, as plain data and text: state gathered from events, then a line that fits a
// given width. Knows no terminal: no colours, no cursor, no clock.
import { FleetStatus } from "./distributed-lines.js";
import { formatLoss, shownRate } from "./narrator.js";
import { formatCount, formatDuration, formatGeneral } from "./number-text.js";

type Payload = Readonly<Record<string, unknown>>;

export type SegmentStyle = "plain" | "bar" | "rest" | "label" | "value" | "good";

/** A run of characters, each one column wide, in one style. */
export interface Segment {
  readonly text: string;
  readonly style: SegmentStyle;
}

export class StatusState {
  step: number | undefined;
  startStep = 0;
  targetStep: number | undefined;
  loss: number | undefined;
  validationLoss: number | undefined;
  lr: number | undefined;
  tokensPerSec: number | undefined;
  etaS: number | undefined;
  readonly fleet: FleetStatus = new FleetStatus();

  /** Takes in an event; true if the line changed. */
  update(event: string, payload: Payload): boolean {
    const number = (key: string): number | undefined =>
      typeof payload[key] === "number" ? payload[key] : undefined;
    switch (event) {
      case "train_start":
        this.startStep = number("start_step") ?? 0;
        this.step = this.startStep;
        this.targetStep = number("target_step");
        return true;
      case "train_step":
        this.step = number("step");
        this.loss = number("loss");
        this.lr = number("lr");
        this.tokensPerSec = shownRate(payload);
        this.etaS = number("eta_s");
        return true;
      case "evaluation":
        this.validationLoss = number("loss");
        return true;
      default:
        return this.fleet.update(event, payload);
    }
  }
}

interface Field {
  readonly segments: readonly Segment[];
  /** Order in which fields are given room; the line keeps its own order. */
  readonly rank: number;
}

const field = (rank: number, label: string, value: string, style: SegmentStyle = "value"): Field => ({
  rank,
  segments: [
    ...(label === "" ? [] : [{ text: `${label} `, style: "label" as const }]),
    { text: value, style },
  ],
});

const widthOf = (segments: readonly Segment[]): number =>
  segments.reduce((sum, { text }) => sum + [...text].length, 0);

const gap: Segment = { text: "  ", style: "plain" };

const narrowestBar = 8;
const widestBar = 30;
const barRank = 5;

function renderBar(share: number, width: number, isUnicode: boolean): Segment[] {
  const full = Math.max(0, Math.min(width, Math.floor(share * width + 1e-9)));
  const [done, rest] = isUnicode ? ["━", "─"] : ["#", "-"];
  return [
    { text: done.repeat(full), style: "bar" },
    { text: rest.repeat(width - full), style: "rest" },
  ];
}

function cut(segments: readonly Segment[], width: number): Segment[] {
  const kept: Segment[] = [];
  let room = width;
  for (const { text, style } of segments) {
    const part = [...text].slice(0, room).join("");
    if (part !== "") kept.push({ text: part, style });
    room -= [...part].length;
  }
  return kept;
}

function shareDone({ step, targetStep }: StatusState): number | undefined {
  return step === undefined || !targetStep ? undefined : Math.min(1, step / targetStep);
}

/** All fields in the order of the line; the bar, second, is still at its narrowest. */
function makeFields(state: StatusState, share: number | undefined, isUnicode: boolean): Field[] {
  const target = state.targetStep === undefined ? "" : String(state.targetStep);
  // As wide as the target from the start, so that the fields behind it do not wander.
  const step = String(state.step ?? "?").padStart(target.length);
  const fields = [field(0, "step", target === "" ? step : `${step}/${target}`)];
  if (share !== undefined) {
    fields.push({ rank: barRank, segments: renderBar(share, narrowestBar, isUnicode) });
    fields.push(field(7, "", `${Math.floor(100 * share)}%`.padStart(3)));
  }
  if (state.loss !== undefined) fields.push(field(1, "loss", formatLoss(state.loss)));
  if (state.validationLoss !== undefined)
    fields.push(field(2, "val", formatLoss(state.validationLoss), "good"));
  const fleet = state.fleet.text();
  if (fleet !== undefined) fields.push(field(3, "", fleet));
  if (state.lr !== undefined) fields.push(field(8, "lr", formatGeneral(state.lr, 3)));
  if (state.tokensPerSec !== undefined) fields.push(field(6, "", `${formatCount(state.tokensPerSec)} tok/s`));
  if (state.etaS) fields.push(field(4, "eta", formatDuration(state.etaS)));
  return fields;
}

/** The line in at most `width` columns: fields get room by rank, and the bar grows into what is left. */
export function renderStatus(state: StatusState, width: number, isUnicode: boolean): Segment[] {
  const share = shareDone(state);
  const fields = makeFields(state, share, isUnicode);
  const kept = new Set<Field>();
  let used = -gap.text.length;
  for (const candidate of [...fields].sort((a, b) => a.rank - b.rank)) {
    const needed = gap.text.length + widthOf(candidate.segments);
    if (kept.size > 0 && used + needed > width) continue;
    kept.add(candidate);
    used += needed;
  }
  const parts = fields
    .filter((candidate) => kept.has(candidate))
    .map(({ rank, segments }) => {
      if (rank !== barRank || share === undefined) return segments;
      const barWidth = Math.min(
        widestBar,
        narrowestBar + width - used,
        Math.max(narrowestBar, Math.floor(width / 5)),
      );
      return renderBar(share, barWidth, isUnicode);
    });
  return cut(
    parts.flatMap((segments, index) => (index === 0 ? segments : [gap, ...segments])),
    width,
  );
}
