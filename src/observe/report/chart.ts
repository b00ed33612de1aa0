// One chart as inline SVG: readable without scripts, so in print and in mail. What the pointer shows over it is in
// script.ts, from the data that the chart gives along.

import { formatGeneral } from "../number-text.js";
import { escapeHtml } from "./html.js";
import type { Point } from "./run-data.js";
import { formatTick, makeScale, type Scale } from "./scale.js";
import { thinOut } from "./thin.js";

export interface ChartSpec {
  readonly title: string;
  /** Unit of the values, as the axis shows it. */
  readonly unit: string;
  readonly isLog?: boolean;
  /** Factor from the values to `unit`. Default 1. */
  readonly factor?: number;
}

export interface Curve {
  readonly label: string;
  /** Which of the colours; by run, or by curve where one run has several. */
  readonly color: number;
  readonly points: readonly Point[];
}

export interface Chart {
  readonly html: string;
  /** For the script: where each point lies, and what it says. */
  readonly data: {
    readonly unit: string;
    readonly curves: readonly {
      readonly label: string;
      readonly color: number;
      /** Step, value as text, x and y in the chart's own units. */
      readonly points: readonly (readonly [number, string, number, number])[];
    }[];
  };
}

export const colorCount = 8;
const size = { width: 640, height: 300, left: 62, right: 14, top: 12, bottom: 44 } as const;
const inner = {
  width: size.width - size.left - size.right,
  height: size.height - size.top - size.bottom,
} as const;

const round = (value: number): number => Math.round(value * 10) / 10;

/** Undefined when no curve has a point. */
export function drawChart(id: string, spec: ChartSpec, curves: readonly Curve[]): Chart | undefined {
  const { title, unit, isLog = false, factor = 1 } = spec;
  const drawn = curves
    .map((curve) => ({
      ...curve,
      points: thinOut(curve.points).map(({ step, value }) => ({ step, value: value * factor })),
    }))
    .filter(({ points }) => points.length > 0);
  if (drawn.length === 0) return undefined;
  const all = drawn.flatMap(({ points }) => points);
  const x = makeScale(
    all.map(({ step }) => step),
    false,
    0,
  );
  const y = makeScale(
    all.map(({ value }) => value),
    isLog,
  );
  const placeX = (step: number): number => round(size.left + x.place(step) * inner.width);
  const placeY = (value: number): number => round(size.top + (1 - y.place(value)) * inner.height);
  const place = ({ step, value }: Point): readonly [number, number] => [placeX(step), placeY(value)];
  const summary = drawn
    .map(({ label, points }) => `${label} ends at ${formatGeneral(points.at(-1)!.value, 4)}`)
    .join("; ");
  const html = `<figure id="${escapeHtml(id)}"><figcaption>${escapeHtml(title)}</figcaption>
<svg viewBox="0 0 ${size.width} ${size.height}" role="img" aria-label="${escapeHtml(`${title} in ${unit} over steps: ${summary}`)}" data-chart="${escapeHtml(id)}">
${axes(x, y, placeX, placeY, `${unit}${y.isLog ? ", logarithmic" : ""}`)}
${drawn.map(({ points, color }) => drawCurve(points, color, place)).join("\n")}
<line class="cursor" x1="0" x2="0" y1="${size.top}" y2="${size.top + inner.height}" visibility="hidden"/>
</svg></figure>`;
  const data = {
    unit,
    curves: drawn.map(({ label, color, points }) => ({
      label,
      color: color % colorCount,
      points: points.map(
        (point) => [point.step, formatGeneral(point.value, 5), ...finitePlace(place(point))] as const,
      ),
    })),
  };
  return { html, data };
}

/** JSON has no NaN; a value that cannot be drawn stands at the bottom for the pointer. */
function finitePlace([left, top]: readonly [number, number]): readonly [number, number] {
  return [left, Number.isFinite(top) ? top : size.top + inner.height];
}

function drawCurve(
  points: readonly Point[],
  color: number,
  place: (point: Point) => readonly [number, number],
): string {
  const className = `c${color % colorCount}${color >= colorCount ? " dashed" : ""}`;
  const stretches: (readonly [number, number])[][] = [[]];
  for (const point of points) {
    const at = place(point);
    if (at.every(Number.isFinite)) stretches.at(-1)!.push(at);
    else stretches.push([]);
  }
  return stretches
    .filter((stretch) => stretch.length > 0)
    .map((stretch) =>
      stretch.length === 1
        ? `<circle class="dot ${className}" cx="${stretch[0]![0]}" cy="${stretch[0]![1]}" r="3"/>`
        : `<path class="line ${className}" d="M${stretch.map(([left, top]) => `${left} ${top}`).join("L")}"/>`,
    )
    .join("");
}

function axes(
  x: Scale,
  y: Scale,
  placeX: (step: number) => number,
  placeY: (value: number) => number,
  unit: string,
): string {
  const [left, right] = [size.left, size.left + inner.width];
  const [top, bottom] = [size.top, size.top + inner.height];
  const middle = (top + bottom) / 2;
  const parts = y.ticks.map((tick) => {
    const at = placeY(tick);
    return `<line class="grid" x1="${left}" x2="${right}" y1="${at}" y2="${at}"/><text class="tick" x="${left - 6}" y="${at}" text-anchor="end" dominant-baseline="middle">${escapeHtml(formatTick(tick))}</text>`;
  });
  // Steps are whole: no label between two of them.
  for (const tick of x.ticks.filter((value) => Number.isInteger(value))) {
    const at = placeX(tick);
    parts.push(
      `<line class="grid" x1="${at}" x2="${at}" y1="${bottom}" y2="${bottom + 4}"/><text class="tick" x="${at}" y="${bottom + 17}" text-anchor="middle">${escapeHtml(formatTick(tick))}</text>`,
    );
  }
  parts.push(
    `<line class="axis" x1="${left}" x2="${right}" y1="${bottom}" y2="${bottom}"/>`,
    `<text class="unit" x="${(left + right) / 2}" y="${size.height - 6}" text-anchor="middle">step</text>`,
    `<text class="unit" transform="translate(13 ${middle}) rotate(-90)" text-anchor="middle">${escapeHtml(unit)}</text>`,
  );
  return parts.join("\n");
}
