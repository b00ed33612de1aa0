// Fewer points for a curve that has more than a screen has columns: of each stretch its lowest and its highest, so
// that no spike disappears.

import type { Point } from "./run-data.js";

export function thinOut(points: readonly Point[], limit = 600): Point[] {
  if (points.length <= limit) return [...points];
  const stretches = Math.floor(limit / 2);
  const first = points[0]!.step;
  const width = (points.at(-1)!.step - first) / stretches || 1;
  const kept: Point[] = [];
  let stretch: Point[] = [];
  let index = 0;
  const end = (): void => {
    const chosen = extremes(stretch);
    kept.push(...chosen);
    stretch = [];
  };
  for (const point of points) {
    const own = Math.min(stretches - 1, Math.floor((point.step - first) / width));
    if (own !== index) {
      end();
      index = own;
    }
    stretch.push(point);
  }
  end();
  return kept;
}

/** In the order of steps. A gap stays one. */
function extremes(points: readonly Point[]): Point[] {
  const finite = points.filter(({ value }) => Number.isFinite(value));
  const gap = points.find(({ value }) => !Number.isFinite(value));
  if (finite.length === 0) return gap === undefined ? [] : [gap];
  const low = finite.reduce((a, b) => (b.value < a.value ? b : a));
  const high = finite.reduce((a, b) => (b.value > a.value ? b : a));
  const chosen = new Set([low, high, ...(gap === undefined ? [] : [gap])]);
  return [...chosen].sort((a, b) => a.step - b.step);
}
