"""How the page looks: as the console, on a telephone, on a screen, on paper."""

from headgate.charts import charts

STYLE = f"""
{charts.style()}
*{{box-sizing:border-box}}
body{{font:15px/1.5 system-ui,sans-serif;margin:0 auto;max-width:75rem;padding:.5rem 1rem 2rem;
color:var(--ink);background:var(--paper)}}
h1{{font-size:1.5rem}}h2{{font-size:1.25rem;margin-top:3rem;border-bottom:2px solid var(--line)}}
h3{{font-size:1.1rem;margin:1.4rem 0 .5rem}}h1,h2,h3{{line-height:1.2}}
h2,p,li,code{{overflow-wrap:anywhere}}a{{color:var(--link)}}.wide{{overflow-x:auto}}
:focus-visible{{outline:3px solid var(--c1);outline-offset:2px}}
table{{border-collapse:collapse;margin:.5rem 0 1.5rem;font-variant-numeric:tabular-nums}}
td,th{{padding:.28rem .9rem .28rem 0;text-align:left;vertical-align:top;
border-bottom:1px solid var(--line)}}td.n,th.n{{text-align:right}}td.n{{white-space:nowrap}}
.note{{color:var(--quiet)}}
code{{font:.9em var(--mono);background:var(--raised);padding:0 .2em;border-radius:3px}}
.found,.fine{{padding:.35rem .8rem;border-radius:4px;margin:.3rem 0}}
.found{{background:var(--warn-paper)}}.fine{{background:var(--good-paper)}}
.tag{{display:inline-block;font-weight:600;color:var(--warn);margin-right:.7em;white-space:nowrap}}
.tag::before{{content:"▲ "}}.tag.ok{{color:var(--good)}}.tag.ok::before{{content:"✓ "}}
ul.facts{{padding-left:1.2em}}.wide td:first-child{{min-width:7em}}
body{{container-type:inline-size}}
@container (max-width:600px){{.stacked tr:first-child{{display:none}}
.stacked tr{{display:block;padding:.5rem 0;border-top:1px solid var(--line)}}
.stacked td{{display:block;border:0!important;padding:.1rem 0}}
.stacked td[data-name]::before{{content:attr(data-name) ": ";color:var(--quiet)}}}}
@media print{{@page{{margin:14mm}}body{{font-size:10pt;margin:0;max-width:none;padding:0}}
section{{break-before:page}}h2{{margin-top:0}}h2,h3{{break-after:avoid}}
tr,.found,.fine,li{{break-inside:avoid}}.wide{{overflow:visible}}
.found,.fine{{-webkit-print-color-adjust:exact;print-color-adjust:exact}}
a{{color:inherit;text-decoration:none}}}}
"""
