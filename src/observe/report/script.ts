// The page's own script: the values under the pointer. Everything else of the page stands without it.

/** Reads the element `chart-data`; adds text only, never markup. */
export const script = `
(() => {
  const charts = JSON.parse(document.getElementById("chart-data").textContent);
  for (const svg of document.querySelectorAll("svg[data-chart]")) {
    const chart = charts[svg.dataset.chart];
    const figure = svg.parentElement;
    const cursor = svg.querySelector(".cursor");
    const tip = document.createElement("div");
    tip.className = "tip";
    tip.hidden = true;
    figure.append(tip);
    const nearest = (points, x) => {
      let low = 0, high = points.length - 1;
      while (low < high) {
        const middle = (low + high) >> 1;
        if (points[middle][2] < x) low = middle + 1; else high = middle;
      }
      return low > 0 && x - points[low - 1][2] < points[low][2] - x ? points[low - 1] : points[low];
    };
    svg.addEventListener("pointermove", (event) => {
      const box = svg.getBoundingClientRect();
      const x = (event.clientX - box.left) * (svg.viewBox.baseVal.width / box.width);
      const found = chart.curves.map((curve) => ({ curve, point: nearest(curve.points, x) }));
      const first = found.reduce((a, b) => Math.abs(b.point[2] - x) < Math.abs(a.point[2] - x) ? b : a);
      cursor.setAttribute("x1", first.point[2]);
      cursor.setAttribute("x2", first.point[2]);
      cursor.setAttribute("visibility", "visible");
      tip.replaceChildren(...found.map(({ curve, point }) => {
        const line = document.createElement("div");
        const key = document.createElement("span");
        key.className = "key c" + curve.color;
        line.append(key, curve.label + "  step " + point[0] + ":  " + point[1] + " " + chart.unit);
        return line;
      }));
      tip.hidden = false;
      const frame = figure.getBoundingClientRect();
      const left = event.clientX - frame.left + 14;
      tip.style.left = Math.max(0, Math.min(left, frame.width - tip.offsetWidth - 8)) + "px";
      tip.style.top = event.clientY - frame.top + 14 + "px";
    });
    svg.addEventListener("pointerleave", () => {
      tip.hidden = true;
      cursor.setAttribute("visibility", "hidden");
    });
  }
})();
`;
