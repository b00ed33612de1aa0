// The style of the report: light and dark as the reader's system is, black on white on paper.

export const style = `
:root { color-scheme: light dark; --back: #ffffff; --fore: #1c2024; --soft: #5c6670; --edge: #d5dae0; --panel: #f6f8fa;
  --c0: #0969da; --c1: #cf4a1d; --c2: #1a7f4b; --c3: #8250df; --c4: #a87100; --c5: #0e8a93; --c6: #bf3989; --c7: #57606a; }
@media (prefers-color-scheme: dark) { :root { --back: #14171b; --fore: #e4e8ec; --soft: #9aa5b1; --edge: #353c45; --panel: #1d2228;
  --c0: #58a6ff; --c1: #ff8a5c; --c2: #4bc27e; --c3: #b78aff; --c4: #dba642; --c5: #48c4ce; --c6: #f07cc0; --c7: #aab4bf; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 1360px; padding: 24px; background: var(--back); color: var(--fore);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
h1 { font-size: 24px; margin: 0 0 4px; overflow-wrap: anywhere; } h2 { font-size: 18px; margin: 32px 0 10px; } h3 { font-size: 15px; margin: 18px 0 6px; overflow-wrap: anywhere; }
p { margin: 4px 0 12px; } .soft { color: var(--soft); }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 440px), 1fr)); gap: 16px; }
figure { margin: 0; padding: 12px; border: 1px solid var(--edge); border-radius: 8px; break-inside: avoid; position: relative; }
figcaption { font-weight: 600; margin-bottom: 4px; }
svg { display: block; width: 100%; height: auto; }
svg text { fill: var(--soft); font: 12px system-ui, sans-serif; }
.grid { stroke: var(--edge); stroke-width: 1; } .axis { stroke: var(--soft); stroke-width: 1; }
.cursor { stroke: var(--soft); stroke-width: 1; stroke-dasharray: 3 3; }
.line { fill: none; stroke-width: 1.6; stroke-linejoin: round; } .dashed { stroke-dasharray: 6 3; }
${Array.from({ length: 8 }, (_, i) => `.line.c${i} { stroke: var(--c${i}); } .dot.c${i} { fill: var(--c${i}); } .key.c${i} { background: var(--c${i}); }`).join("\n")}
.key { display: inline-block; width: 12px; height: 12px; border-radius: 3px; margin-right: 6px; vertical-align: -1px; print-color-adjust: exact; -webkit-print-color-adjust: exact; }
.tip { position: absolute; pointer-events: none; z-index: 1; padding: 6px 9px; border: 1px solid var(--edge); border-radius: 6px;
  background: var(--panel); font-size: 13px; white-space: pre; max-width: 90%; overflow: hidden; }
.wide { overflow-x: auto; } table { border-collapse: collapse; font-size: 14px; }
th, td { text-align: left; padding: 4px 14px 4px 0; border-bottom: 1px solid var(--edge); vertical-align: top; }
th { font-weight: 600; color: var(--soft); } td { font-variant-numeric: tabular-nums; overflow-wrap: anywhere; }
.bar { display: flex; height: 18px; border-radius: 4px; overflow: hidden; margin: 4px 0 8px; } .bar .key { height: 100%; width: auto; margin: 0; border-radius: 0; }
pre { margin: 4px 0 12px; padding: 10px 12px; background: var(--panel); border: 1px solid var(--edge); border-radius: 8px;
  white-space: pre-wrap; overflow-wrap: anywhere; font: 13px/1.45 ui-monospace, "SF Mono", Consolas, monospace; }
.prompt { color: var(--soft); } summary { cursor: pointer; font-weight: 600; margin: 8px 0; }
@media print { :root { --back: #fff; --fore: #000; --soft: #444; --edge: #bbb; --panel: #fff; } body { padding: 0; max-width: none; } }
`;
