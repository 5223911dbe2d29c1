/** The report's looks, light and dark. Colours after Okabe and Ito; every colour has a word and a sign beside it. */
export const STYLE = `
:root { color-scheme: light dark;
  --page: #fbfbfa; --card: #ffffff; --ink: #1d2530; --soft: #5c6875; --rule: #e5e7ea; --focus: #0072b2;
  --safe: #00664b; --safe-bg: #dcf1e9; --unsafe: #a8201a; --unsafe-bg: #fbe0dd; --hangs: #7a4d00; --hangs-bg: #fdeecb;
  --none: #6b7580; --none-bg: transparent; --broke: #d62f2f; --borne: #8a94a0; --shade: rgb(20 26 34 / 45%);
  --o0: #0072b2; --o1: #c77700; --o2: #009e73; --o3: #b8558d; --o4: #3d9bd1; --o5: #8a6d00; --o6: #6a51a3; --o7: #2f8f80; }
@media (prefers-color-scheme: dark) { :root {
  --page: #14181d; --card: #1b2127; --ink: #e7ebef; --soft: #9aa6b2; --rule: #2d353d; --focus: #56b4e9;
  --safe: #6fd6b4; --safe-bg: #12352a; --unsafe: #ff9a90; --unsafe-bg: #451a18; --hangs: #f3c76b; --hangs-bg: #3d2e0c;
  --none: #7f8b96; --broke: #ff5d52; --borne: #7c8894; --shade: rgb(0 0 0 / 65%);
  --o0: #3b97d3; --o1: #d98c1f; --o2: #1fae86; --o3: #cc79a7; --o4: #56b4e9; --o5: #b8952a; --o6: #9a86d0; --o7: #4fb3a3; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink); font: 15px/1.5 system-ui, 'Segoe UI', Inter, 'Helvetica Neue', Arial, 'DejaVu Sans', sans-serif; }
main { max-width: 1480px; margin: 0 auto; padding: 40px 28px 80px; }
h1 { font-size: 30px; line-height: 1.2; margin: 0 0 8px; letter-spacing: -0.01em; }
h2 { font-size: 20px; margin: 48px 0 12px; }
p { margin: 0 0 12px; max-width: 78ch; }
.soft { color: var(--soft); }
.legend { display: flex; flex-wrap: wrap; gap: 8px 22px; margin: 20px 0 18px; padding: 0; list-style: none; font-size: 14px; color: var(--soft); }
.badge { display: inline-flex; gap: 6px; align-items: center; font-weight: 600; padding: 1px 9px; border-radius: 6px; white-space: nowrap; }
.safe { color: var(--safe); background: var(--safe-bg); }
.unsafe { color: var(--unsafe); background: var(--unsafe-bg); }
.hangs { color: var(--hangs); background: var(--hangs-bg); }
.none { color: var(--none); background: var(--none-bg); }
.matrix { overflow-x: auto; background: var(--card); border: 1px solid var(--rule); border-radius: 12px; }
table { border-collapse: separate; border-spacing: 0; width: 100%; }
thead th { vertical-align: bottom; font-size: 12.5px; line-height: 1.25; font-weight: 600; text-align: center; padding: 14px 6px 10px; min-width: 84px; border-bottom: 1px solid var(--rule); }
tbody th { text-align: left; font-weight: 500; font-size: 14px; padding: 5px 12px 5px 16px; min-width: 290px; position: sticky; left: 0; background: var(--card); z-index: 1; }
thead th:first-child { position: sticky; left: 0; background: var(--card); z-index: 1; text-align: left; padding-left: 16px; }
tbody th a { color: inherit; text-decoration: none; }
tbody th a:hover { text-decoration: underline; }
tr.group th { padding-top: 16px; font-size: 12px; font-weight: 700; letter-spacing: 0.06em; text-transform: uppercase; color: var(--soft); }
td { padding: 2px 3px; }
td:last-child { padding-right: 12px; }
tbody tr:last-child td, tbody tr:last-child th { padding-bottom: 12px; }
td a { display: block; text-align: center; text-decoration: none; border-radius: 6px; padding: 4px 2px; font-size: 13px; font-weight: 600; white-space: nowrap; }
td a.none { font-weight: 400; font-size: 12px; }
td a:hover, td a:focus-visible { outline: 2px solid var(--focus); outline-offset: -1px; }
td a.odd { box-shadow: inset 0 0 0 2px var(--focus); }
.sheet { display: none; }
.sheet:target { display: block; position: fixed; inset: 0; overflow: auto; z-index: 10; padding: 4vh 20px; background: var(--shade); }
.sheet > div { position: relative; z-index: 1; max-width: 1120px; margin: 0 auto; background: var(--card); border-radius: 14px; padding: 26px 32px 30px; box-shadow: 0 20px 60px rgb(0 0 0 / 30%); }
.sheet .away { position: fixed; inset: 0; cursor: default; }
.sheet h3 { margin: 0 120px 4px 0; font-size: 21px; line-height: 1.3; }
.sheet nav { position: absolute; top: 24px; right: 28px; display: flex; gap: 6px; }
.sheet nav a { color: var(--soft); text-decoration: none; border: 1px solid var(--rule); border-radius: 8px; width: 32px; height: 32px; display: grid; place-items: center; }
.sheet nav a:focus-visible, tbody th a:focus-visible { outline: 2px solid var(--focus); outline-offset: 1px; }
.sheet h3:focus { outline: none; }
.sheet nav a:hover { color: var(--ink); border-color: var(--soft); }
.verdict { font-size: 17px; margin: 14px 0 6px; }
.verdict .badge { font-size: 17px; margin-right: 8px; }
pre { background: var(--page); border: 1px solid var(--rule); border-radius: 8px; padding: 12px 14px; overflow-x: auto; font: 12.5px/1.6 ui-monospace, 'SF Mono', Menlo, Consolas, 'DejaVu Sans Mono', monospace; margin: 8px 0 0; }
h4 { margin: 20px 0 4px; font-size: 13px; color: var(--soft); font-weight: 600; }
dl { display: grid; grid-template-columns: minmax(220px, 300px) 1fr; gap: 8px 20px; margin: 0; }
dt { font-weight: 600; } dd { margin: 0; color: var(--soft); max-width: 90ch; }
.picture { overflow-x: auto; }
.timeline { width: 100%; min-width: 720px; height: auto; display: block; margin: 16px 0 4px; font-family: inherit; }
.timeline text { fill: var(--ink); }
.timeline .faint { fill: var(--soft); } .timeline .owner { fill: var(--ink); font-weight: 600; }
.timeline .rule { stroke: var(--rule); } .timeline .asks { stroke: var(--soft); }
.timeline .gave-up { fill: var(--hangs); }
.timeline .answer { fill: var(--card); stroke: var(--soft); stroke-width: 1.5; }
.timeline .on, .timeline .on-hatch { fill: #fff; font-weight: 600; }
.timeline .on-hatch { fill: var(--ink); paint-order: stroke; stroke: var(--card); stroke-width: 4px; stroke-linejoin: round; }
.timeline .hatch { stroke: var(--soft); stroke-width: 1; }
.hatch-line { stroke: var(--soft); stroke-width: 1.6; opacity: 0.55; } .hatch-back { fill: var(--card); opacity: 0.35; }
.timeline .clash.broke { fill: var(--broke); fill-opacity: 0.2; stroke: var(--broke); stroke-width: 1.5; }
.timeline .clash.borne { fill: var(--borne); fill-opacity: 0.12; stroke: var(--borne); stroke-dasharray: 4 3; }
.timeline .wrote { fill: #fff; stroke: var(--ink); stroke-width: 1; }
.timeline .clobbered circle { fill: var(--broke); } .timeline .clobbered text { fill: #fff; font-weight: 700; }
.timeline .refused circle { fill: var(--card); stroke: var(--safe); stroke-width: 1.5; } .timeline .refused text { fill: var(--safe); font-weight: 700; }
.timeline .mark line { stroke: var(--soft); stroke-dasharray: 3 3; } .timeline .mark .dot { fill: var(--soft); }
.timeline .mark text { fill: var(--soft); font-weight: 600; }
.timeline .fault line { stroke: var(--unsafe); } .timeline .fault .dot { fill: var(--unsafe); } .timeline .fault text { fill: var(--unsafe); }
${Array.from({ length: 8 }, (_, index) => `.timeline .o${index} { fill: var(--o${index}); }`).join('\n')}
.key { display: flex; flex-wrap: wrap; gap: 4px 20px; font-size: 12.5px; color: var(--soft); margin: 4px 0 0; padding: 0; list-style: none; }
@media (max-width: 700px) { tbody th { min-width: 150px; font-size: 12.5px; } main { padding: 24px 14px 60px; } dl { grid-template-columns: 1fr; } .sheet:target { padding: 0; } .sheet > div { padding: 16px 16px 32px; min-height: 100vh; border-radius: 0; }
  .sheet nav { position: sticky; top: 0; z-index: 2; justify-content: flex-end; margin: -16px -16px 4px; padding: 10px 16px; background: var(--card); }
  .sheet nav a { width: 40px; height: 40px; } .sheet h3 { margin-right: 0; font-size: 18px; } .verdict, .verdict .badge { font-size: 15px; } h1 { font-size: 25px; } }
@media print { .sheet, .sheet:target { display: block; position: static; padding: 0; background: none; break-inside: avoid; } .sheet nav { display: none; } }
`
