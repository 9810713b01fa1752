"""Public room: the privacy report as one HTML page that stands alone: no script, no font and nothing from the network."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from lowkey.privacy.price import Price, at_most, percent
from lowkey.report.charts import curve_chart, history_chart, share_bars, trade_off_chart
from lowkey.report.contents import AuditedReport, Post, PrivacyReport
from lowkey.report.questions import NOT_STATED

STYLE = """
:root { --ink: #1b1f24; --soft: #59626e; --paper: #fdfdfb; --card: #f2f3ef; --rule: #d8dbd3;
  --blue: #1f5fa8; --area: #1f5fa822; --warn: #a04a00; --good: #1d6b3a; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e7e9ec; --soft: #a2abb7; --paper: #14171b; --card: #1e2329; --rule: #353c45;
    --blue: #7db4f0; --area: #7db4f033; --warn: #f2a65a; --good: #7fcf9b; }
}
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1.2rem 1rem 4rem; max-width: 46rem; background: var(--paper); color: var(--ink);
  font: 1rem/1.55 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 1.5rem; line-height: 1.25; margin: .4rem 0; }
h2 { font-size: 1.15rem; margin: 2.2rem 0 .5rem; padding-top: .8rem; border-top: 1px solid var(--rule); }
p, ul { margin: .5rem 0; } li { margin: .3rem 0; }
.soft, figcaption { color: var(--soft); font-size: .9rem; }
.statement { background: var(--card); border-left: 4px solid var(--blue); border-radius: 4px;
  padding: .8rem 1rem; font-size: 1.08rem; }
.numbers { display: grid; grid-template-columns: repeat(auto-fit, minmax(9.5rem, 1fr)); gap: .6rem; margin: .9rem 0; }
.numbers div { background: var(--card); border-radius: 4px; padding: .55rem .8rem; }
.numbers b { display: block; font-size: 1.35rem; font-variant-numeric: tabular-nums; }
.verdict { border-left: 4px solid var(--good); padding: .2rem 1rem; } .verdict.warn { border-color: var(--warn); }
.verdict b { color: var(--good); } .verdict.warn b { color: var(--warn); }
figure { margin: .8rem 0; } svg { display: block; width: 100%; height: auto; font-size: 11.5px; }
.pair { display: grid; grid-template-columns: 1fr; gap: 0 1.6rem; align-items: center; }
@media (min-width: 44rem) { .pair { grid-template-columns: 3fr 2fr; } }
.shares div { display: grid; grid-template-columns: 1fr auto; margin: .7rem 0; font-variant-numeric: tabular-nums; }
.shares i { color: var(--soft); font-style: normal; font-size: .9rem; white-space: nowrap; } .shares b { font-weight: 600; }
.shares hr { grid-column: 1 / 3; grid-row: 2; width: 100%; height: .7rem; margin: .15rem 0 0; border: 0; border-radius: 3px;
  background: var(--rule); } .shares hr.part { background: var(--blue); min-width: 2px; }
svg text { fill: var(--ink); } .middle { text-anchor: middle; } .end { text-anchor: end; }
.grid { stroke: var(--rule); stroke-width: 1; } .back { fill: var(--rule); } .bar, .dot { fill: var(--blue); }
.line { fill: none; stroke: var(--blue); stroke-width: 2; } .area { fill: var(--area); }
.guess { fill: none; stroke: var(--soft); stroke-dasharray: 4 4; }
table { border-collapse: collapse; width: 100%; font-size: .93rem; }
th, td { text-align: left; vertical-align: top; padding: .35rem .6rem .35rem 0; border-bottom: 1px solid var(--rule); }
th { font-weight: 600; overflow-wrap: break-word; } td.number, th.number { text-align: right; white-space: nowrap;
  font-variant-numeric: tabular-nums; }
dt { font-weight: 600; margin-top: .7rem; } dd { margin: .1rem 0 0; } dd::first-letter { text-transform: uppercase; }
dt span { color: var(--soft); font-weight: 400; display: block; font-size: .9rem; }
@media print {
  :root { --ink: #000; --soft: #444; --paper: #fff; --card: #f4f4f2; --rule: #ccc; --blue: #1f5fa8; --area: #1f5fa822; }
  @page { margin: 16mm; } html { font-size: 9.5pt; } body { max-width: none; padding: 0; line-height: 1.4; }
  h1, h2, dt { break-after: avoid; } h2 { margin-top: 1.2rem; padding-top: .6rem; } th, td { padding: .2rem .5rem .2rem 0; }
  h2 + *, dt + dd { break-before: avoid; }
  section, figure, tr, li, dt, dd, .shares div, .statement, .verdict, .numbers, .pair { break-inside: avoid; }
  p, dd { orphans: 3; widows: 3; }
  .pair { grid-template-columns: 3fr 2fr; } .bar, .area, .shares hr, .statement, .numbers div {
    print-color-adjust: exact; -webkit-print-color-adjust: exact; } svg { max-height: 52mm; }
}
code { font-size: .88em; background: var(--card); padding: .1rem .3rem; border-radius: 3px; }
"""
FACTS = {"n_items": "items in the catalogue", "positional": "items are known by their place alone"}
WORDS = {"True": "yes", "False": "no", "None": "none"}


def report_page(report: PrivacyReport) -> str:
    """The whole page."""
    attack = report.attack
    price = Price(report.epsilon, report.delta, report.mu, attack.gaussian, attack.own_delta, attack.slack)
    trade_off, shares = trade_off_chart(price.detected), share_bars(report.posts)
    curve = curve_chart(report.curve, report.epsilon, report.delta)
    parts = (
        _head(report), _people(report), _promise(report), _attacker(report, trade_off), _spending(report, shares),
        _accounting(report, curve), _audit(report), _rest(report),
    )  # fmt: skip
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        # The page may load nothing at all, whatever somebody writes into it later.
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        '<meta name="color-scheme" content="light dark">'
        f"<title>{escape(report.title)}</title><style>{STYLE}</style></head><body>\n"
        + "\n".join(map(_sections, parts))
        + "\n</body></html>\n"
    )


def _head(report: PrivacyReport) -> str:
    numbers = (
        ("protects", report.protected),
        ("best attack guesses right", f"≤ {percent(report.attack.best_success)}"),
        ("epsilon", at_most(report.epsilon, 4)),
        ("delta", f"{report.delta:g}"),
    )
    tiles = "".join(f'<div><span class="soft">{escape(name)}</span><b>{escape(value)}</b></div>' for name, value in numbers)
    worth = {"strong": "Strong", "reasonable": "Reasonable", "weak": "Weak", "none": "Next to nothing"}[
        report.verdict_level
    ]
    return (
        f'<h1>{escape(report.title)}</h1><p class="soft">Release {escape(report.reference)}. This page says what may be '
        "learnt about a person from the release, by anybody, for ever.</p>"
        f'<p class="statement">{escape(report.statement)}</p>'
        f'<p class="verdict{"" if report.verdict_good else " warn"}"><b>{worth}.</b> {escape(report.verdict)}</p>'
        f'<div class="numbers">{tiles}</div>'
    )


def _people(report: PrivacyReport) -> str:
    """What somebody asks who is in the data, before any of the words of the trade."""
    answers = [(name.replace("_", " ").capitalize(), text) for name, text in report.about.items() if name != NOT_STATED]
    left_out = report.about.get(NOT_STATED)
    quiet = f'<p class="soft">Not stated by the curator: {escape(left_out)}.</p>' if left_out else ""
    return (
        f"<h2>What was released, and by whom</h2><p>{escape(report.what_it_is)}</p>{_table(answers)}{quiet}"
        f"<h2>Erasure and access</h2><p>{escape(report.erasure)}</p>"
        f"<h2>If something is wrong</h2>{_list(report.if_wrong)}"
    )


def _promise(report: PrivacyReport) -> str:
    bounds = {post.what: [other.bound for other in report.posts if other.what == post.what] for post in report.posts}
    moved = "; ".join(f"{what} by {_in_turn(found)}" for what, found in bounds.items())
    pairs = (
        ("Unit of privacy", f"{report.protected}: {report.unit_in_words}."),
        ("Neighbouring data sets", f"{report.adjacency}: {report.adjacency_in_words}."),
        ("Trust model", f"{report.trust_model}."),
        ("Contribution bounds", f"{report.protected} moves {moved}."),
    )
    return (
        f"<h2>What is promised</h2>{_definitions(pairs)}"
        f"<h2>What is public</h2><p>Treated as known to everybody, and not protected:</p>{_list(report.public)}"
        f"<h2>What is not covered</h2>{_list(report.not_covered)}<h2>Caveats</h2>{_list(report.caveats)}"
    )


def _in_turn(bounds: list[str]) -> str:
    """The bounds of rounds that are alike, as one: at most 2, 1.5, 1 in Euclidean length."""
    different = list(dict.fromkeys(bounds))
    numbers = ", ".join(bound.split()[2] for bound in different)
    return different[0] if len(different) == 1 else different[0].replace(different[0].split()[2], numbers, 1)


def _attacker(report: PrivacyReport, chart: str) -> str:
    rows = "".join(
        f'<tr><td class="number">{100 * d.false_alarms:g} %</td><td class="number">{percent(d.detected)}</td></tr>'
        for d in report.attack.detections
    )
    return (
        f"<h2>What an attacker can at best achieve</h2><p>{escape(report.attack.in_words)}</p>"
        f'<div class="pair"><figure>{chart}<figcaption>Every attack lies in the shaded area; '
        f"computed from {escape(report.attack.trade_off)}.</figcaption></figure>"
        '<table><tr><th class="number">falsely accused</th><th class="number">found, at most</th></tr>'
        f"{rows}</table></div>"
    )


def _spending(report: PrivacyReport, bars: str) -> str:
    rows = "".join(
        f"<tr><td><b>{escape(p.what)}</b><br><code>{escape(p.name)}</code>, {p.posts} × {_size(p)} numbers</td>"
        f"<td>{escape(p.mechanism)}: {escape(p.noise)}<br><span class='soft'>{escape(p.note)}; {escape(report.protected)}: "
        f"{escape(p.bound)}</span></td></tr>"
        for p in report.posts
    )
    fits = f"<p>{escape(report.budget)}</p>{_list(report.fits)}"
    if len(report.history.values) > 1:
        fits = f'<div class="pair"><figure>{history_chart(report.history)}</figure><div>{fits}</div></div>'
    return (
        f"<h2>What was posted, and its share of the budget</h2>{bars}{fits}"
        f"<table><tr><th>noisy sums</th><th>noise</th></tr>{rows}</table>"
    )


def _size(post: Post) -> str:
    """How many numbers; of a private selection the public cap, as the true number is private."""
    return f"{'at most ' if post.mechanism == 'thresholded-gaussian' else ''}{post.numbers_each:,}"


def _accounting(report: PrivacyReport, chart: str) -> str:
    rows = "".join(
        f'<tr><td><b>{escape(a.name)}</b><br><span class="soft">{escape(a.how)}</span></td>'
        f'<td class="number">{at_most(a.epsilon, 7)}</td></tr>'
        for a in report.accountants
    )
    return (
        "<h2>Accounting</h2><p>Epsilon at the stated delta, computed from the ledger by two accountants:</p>"
        f'<div class="pair"><figure>{chart}<figcaption>All pairs on the '
        "line hold at once; the dot is the stated one.</figcaption></figure>"
        f'<table><tr><th>accountant</th><th class="number">epsilon</th></tr>{rows}</table></div>'
    )


def _audit(report: PrivacyReport) -> str:
    return f"<h2>What an audit measured</h2>{_list(report.audit)}" if isinstance(report, AuditedReport) else ""


def _rest(report: PrivacyReport) -> str:
    asked = "".join(
        f"<dt>{escape(q.topic)}<span>{escape(q.question)}</span></dt><dd>{escape(q.answer)}</dd>" for q in report.questions
    )
    known = {**report.domain, **{name: value for name, value in report.settings.items() if name not in report.domain}}
    facts = [(FACTS.get(name, name.replace("_", " ")), WORDS.get(str(value), str(value))) for name, value in known.items()]
    return (
        f"<h2>Questions of NIST SP 800-226</h2><dl>{asked}</dl>"
        f"<h2>Entry for a registry of deployments</h2>{_table(report.registry_entry.items())}"
        f"<h2>Facts and settings</h2>{_table(facts)}"
        f"<h2>Software</h2>{_table(report.software.items())}"
        f'<p class="soft">Ledger head <code>{escape(report.ledger_head)}</code>. Check this page without the data: '
        "<code>lowkey verify</code> and the name of its folder.</p>"
    )


def _sections(text: str) -> str:
    """A heading and what belongs to it as one piece, which is not torn apart on paper if it fits a page."""
    first, *rest = text.split("<h2>")
    return first + "".join(f"<section><h2>{piece}</section>" for piece in rest)


def _list(entries: Iterable[str]) -> str:
    return "<ul>" + "".join(f"<li>{escape(entry)}</li>" for entry in entries) + "</ul>"


def _definitions(pairs: Iterable[tuple[str, str]]) -> str:
    return "<dl>" + "".join(f"<dt>{escape(name)}</dt><dd>{escape(text)}</dd>" for name, text in pairs) + "</dl>"


def _table(pairs: Iterable[tuple[str, str]]) -> str:
    return "<table>" + "".join(f"<tr><th>{escape(k)}</th><td>{escape(v)}</td></tr>" for k, v in pairs) + "</table>"
