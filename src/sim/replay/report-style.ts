/** The report page's own style; light and dark as the browser asks. */
export const REPORT_STYLE = `
:root { color-scheme: light dark; --back: #fbfbfa; --card: #fff; --text: #1d1f23; --soft: #5d636d; --grid: #e6e7ea;
  --line-0: #2f6fdb; --line-1: #d9641f; --line-2: #1d9a6c; --line-3: #b03fb5; --line-4: #8a7a12; --line-5: #c2334d; --line-6: #168fa6; --line-7: #6a6f7a;
  --overhead: #9aa0aa; --queue: #d9641f; --fetch: #b03fb5; --prefill: #2f6fdb; --transfer: #8a7a12; --decode: #1d9a6c; }
@media (prefers-color-scheme: dark) { :root { --back: #14161a; --card: #1c1f25; --text: #e7e9ed; --soft: #a2a9b5; --grid: #31363f;
  --line-0: #6ea2ff; --line-1: #ff9757; --line-2: #4fd1a0; --line-3: #e08ae4; --line-4: #d8c24a; --line-5: #ff7a90; --line-6: #5bd0e6; --line-7: #a9afba;
  --overhead: #747b87; --queue: #ff9757; --fetch: #e08ae4; --prefill: #6ea2ff; --transfer: #d8c24a; --decode: #4fd1a0; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--back); color: var(--text); font: 15px/1.5 system-ui, sans-serif; }
main { max-width: 1180px; margin: 0 auto; padding: 28px 20px 60px; }
h1 { font-size: 24px; margin: 0 0 4px; } h2 { font-size: 16px; margin: 0 0 2px; } h3 { font-size: 14px; margin: 12px 0 2px; }
p { margin: 0 0 10px; color: var(--soft); } .grid { display: grid; gap: 16px; grid-template-columns: repeat(auto-fit, minmax(min(480px, 100%), 1fr)); margin-top: 16px; }
section { background: var(--card); border: 1px solid var(--grid); border-radius: 10px; padding: 16px; min-width: 0; } .wide { grid-column: 1 / -1; }
.scroll { overflow-x: auto; } table { border-collapse: collapse; width: 100%; font-size: 14px; font-variant-numeric: tabular-nums; } th, td { text-align: right; padding: 5px 8px; border-bottom: 1px solid var(--grid); white-space: nowrap; }
th { color: var(--soft); font-weight: 500; font-size: 13px; } th:first-child, td:first-child { text-align: left; padding-left: 0; } td:first-child { font-weight: 600; } tr:last-child td { border-bottom: 0; }
.dot { display: inline-block; width: 10px; height: 10px; border-radius: 3px; margin-right: 6px; }
.bar { display: grid; grid-template-columns: 120px 1fr 80px; gap: 10px; align-items: center; margin: 6px 0; } .bar b { overflow: hidden; text-overflow: ellipsis; }
.bar .parts { display: flex; height: 22px; border-radius: 4px; overflow: hidden; } .bar span:last-child { text-align: right; font-variant-numeric: tabular-nums; }
.key { color: var(--soft); font-size: 13px; display: flex; gap: 14px; flex-wrap: wrap; margin-top: 8px; }
.plot { min-height: 300px; } .u-legend { color: var(--text); font-size: 13px; text-align: left; } .u-legend th { font-size: 13px; } .u-legend .u-series > * { padding: 2px 4px; border: 0; }
.u-legend .u-series th { color: var(--text); } .u-select { background: color-mix(in srgb, var(--text) 10%, transparent); }
`;
