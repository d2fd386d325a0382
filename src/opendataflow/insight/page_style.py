"""The style of a page: it follows the reader's light or dark, and fits a phone."""

STYLE = """\
:root { color-scheme: light dark; --back: #ffffff; --card: #f5f7f9; --ink: #1b2026; --soft: #5a6572; --edge: #dfe4ea;
  --good: #1a7f4b; --bad: #c0292b; --warn: #8f5b00; --other: #8a94a0; --draw: #2563a8; }
@media (prefers-color-scheme: dark) { :root { --back: #14181d; --card: #1d232a; --ink: #e6eaee; --soft: #9aa6b2; --edge: #313a44;
  --good: #4cc38a; --bad: #ff7b74; --warn: #e0a63a; --other: #76828f; --draw: #6cb0f5; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--back); color: var(--ink);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
main { max-width: 70rem; margin: 0 auto; padding: 1.5rem 1.25rem 3rem; }
h1 { font-size: 1.7rem; line-height: 1.2; margin: 0; overflow-wrap: anywhere; }
h2 { font-size: 1.1rem; margin: 2.25rem 0 .6rem; }
h3 { font-size: .9rem; margin: 0 0 .25rem; overflow-wrap: anywhere; }
p { margin: .3rem 0; }
header p { overflow-wrap: anywhere; }
.soft { color: var(--soft); } .good { color: var(--good); } .bad { color: var(--bad); } .warn { color: var(--warn); }
.none { color: var(--soft); }
small { display: block; color: var(--soft); font-size: .8rem; font-weight: normal; overflow-wrap: anywhere; }
ul { list-style: none; margin: 0; padding: 0; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(7.5rem, 1fr)); gap: .75rem; margin-top: 1.25rem; }
.tiles li { background: var(--card); border: 1px solid var(--edge); border-radius: .5rem; padding: .7rem .85rem;
  color: var(--ink); }
.tiles strong { display: block; font-size: 1.55rem; line-height: 1.2; font-variant-numeric: tabular-nums; }
.tiles .good strong { color: var(--good); } .tiles .bad strong { color: var(--bad); } .tiles .warn strong { color: var(--warn); }
.tiles small { min-height: 1.2em; }
svg { display: block; }
svg.columns { width: 100%; height: 7.5rem; border-bottom: 1px solid var(--edge); }
rect.good { fill: var(--good); } rect.bad { fill: var(--bad); } rect.other { fill: var(--other); }
.marks { display: flex; justify-content: space-between; color: var(--soft); font-size: .8rem; margin-top: .25rem; }
.legend { color: var(--soft); font-size: .85rem; }
.key { display: inline-block; width: .7em; height: .7em; border-radius: .15em; margin: 0 .35em 0 .8em; background: var(--other); }
.key:first-child { margin-left: 0; } .key.good { background: var(--good); } .key.bad { background: var(--bad); }
svg.line { width: 100%; height: auto; }
svg.line polyline { fill: none; stroke: var(--draw); stroke-width: 1.6; stroke-linejoin: round; }
svg.line .area { fill: var(--draw); opacity: .13; } svg.line circle { fill: var(--draw); }
.scroll { overflow-x: auto; } .narrow { display: none; }
table { border-collapse: collapse; width: 100%; }
th { text-align: left; font-weight: 600; font-size: .8rem; color: var(--soft); white-space: nowrap; }
th, td { padding: .4rem 1.25rem .4rem 0; border-bottom: 1px solid var(--edge); vertical-align: top; }
th:last-child, td:last-child { padding-right: 0; }
td.main, td.who { overflow-wrap: anywhere; } td.main { min-width: 11rem; } td { overflow-wrap: break-word; }
.n { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; }
.when, .what { white-space: nowrap; }
.drawn { width: 8rem; } td.drawn { padding-top: .55rem; }
details { margin-top: 1.5rem; } summary { cursor: pointer; color: var(--soft); padding: .25rem 0; }
.plots { display: grid; grid-template-columns: repeat(auto-fill, minmax(13rem, 1fr)); gap: .75rem; }
.plots li { background: var(--card); border: 1px solid var(--edge); border-radius: .5rem; padding: .7rem .85rem; }
footer { margin-top: 2.5rem; border-top: 1px solid var(--edge); padding-top: .75rem; font-size: .85rem; }
@media (max-width: 42rem) {
  main { padding: 1rem .9rem 2rem; } h1 { font-size: 1.4rem; }
  .wide { display: none; } .narrow { display: block; } td.main, td.who { min-width: 0; }
  .tiles { grid-template-columns: repeat(auto-fit, minmax(6rem, 1fr)); gap: .5rem; } .tiles strong { font-size: 1.3rem; }
  th { white-space: normal; } th, td { padding-right: .75rem; }
  .plots { grid-template-columns: repeat(auto-fill, minmax(10rem, 1fr)); gap: .5rem; }
}
@media print { main { max-width: none; padding: 0; } .scroll { overflow: visible; } section { break-inside: avoid; } }
"""
