"""How the page looks: on a telephone, on a screen, on paper."""

STYLE = """
:root{--a:#1f6feb;--b:#c2410c;--c:#6a7686;--d:#15803d;--ink:#1b2430;--soft:#5b6777;--line:#d5dbe3}
*{box-sizing:border-box}
body{font:15px/1.5 system-ui,sans-serif;margin:1.5rem auto;max-width:1160px;padding:0 1rem;
color:var(--ink);background:#fff}
h1,h2,h3{line-height:1.2}h2{margin-top:3rem;border-bottom:2px solid var(--line)}
h2,p,li,code{overflow-wrap:anywhere}a{color:#0b57d0}.wide{overflow-x:auto}
:focus-visible{outline:3px solid #0b57d0;outline-offset:2px}
table{border-collapse:collapse;margin:.5rem 0 1.5rem}td,th{padding:.25rem .9rem .25rem 0;
text-align:left;vertical-align:top}td.n,th.n{text-align:right;
font-variant-numeric:tabular-nums}td.n{white-space:nowrap}tr+tr td{border-top:1px solid #e6eaef}
.note{color:var(--soft)}code{background:#f1f4f7;padding:0 .2em;border-radius:3px}
.found{background:#fef3e2;border-left:4px solid var(--b);padding:.5rem 1rem;margin:.5rem 0}
.fine{background:#e9f7ef;border-left:4px solid var(--d);padding:.5rem 1rem}
.tag{display:inline-block;background:#fef3e2;border:1px solid #f0b37e;border-radius:1em;
padding:0 .6em;margin:0 .3em .2em 0;white-space:nowrap}.tag.ok{background:#e9f7ef;
border-color:#8fd0a8}
ul.facts{padding-left:1.2em}
.charts{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,320px),1fr));
gap:1.5rem 2rem;margin:1.5rem 0}
figure{margin:0;min-width:0;max-width:540px}figcaption{font-weight:600}
figcaption small{display:block;font-weight:400;font-size:13px;color:var(--soft)}
.legend{list-style:none;margin:.3rem 0;padding:0;font-size:13px}
.legend li{display:inline-block;margin-right:1em}.legend li::before{content:"";
display:inline-block;width:1.4em;border-top:3px solid;margin-right:.4em;vertical-align:middle}
.legend .c::before{border-top-style:dashed}
.a{color:var(--a);stroke:var(--a)}.b{color:var(--b);stroke:var(--b)}
.c{color:var(--c);stroke:var(--c)}.d{color:var(--d);stroke:var(--d)}
svg{display:block;width:100%;height:auto}svg text{font-size:11px;fill:#48566a}
.axis{fill:none;stroke:#8a97a8}.grid{stroke:#e6eaef}.mark{stroke:#8a97a8;stroke-dasharray:2 3}
polyline{fill:none;stroke-width:2}polyline.c{stroke-dasharray:5 4}
circle{fill:#fff;stroke-width:1.5}.near{fill:transparent;stroke:none}
g:hover>.near{fill:#1b243022}
.heat rect{fill:#b91c1c}.heat rect:hover{stroke:var(--ink)}.empty{fill:#f6f7f9}
.bars{width:100%;margin:.3rem 0}.bars th{font-weight:400;width:38%;overflow-wrap:anywhere}
.bars td,.bars th{border:0;padding:.15rem .5rem .15rem 0;vertical-align:middle}
.bars td:nth-child(2){width:60%}.wide td:first-child{min-width:7em}
.bar{background:var(--a);height:.9em;min-width:2px}
body{container-type:inline-size}
@container (max-width:600px){.stacked tr:first-child{display:none}
.stacked tr{display:block;padding:.5rem 0;border-top:1px solid #e6eaef}
.stacked td{display:block;border:0!important;padding:.1rem 0}
.stacked td[data-name]::before{content:attr(data-name) ": ";color:var(--soft)}}
@media print{@page{margin:14mm}body{font-size:10pt;margin:0;max-width:none;padding:0}
*{-webkit-print-color-adjust:exact;print-color-adjust:exact}
section{break-before:page}h2{margin-top:0}h2,h3{break-after:avoid}
figure,tr,.found,.fine,li{break-inside:avoid}.wide{overflow:visible}
.charts{grid-template-columns:1fr 1fr}a{color:inherit;text-decoration:none}}
"""
