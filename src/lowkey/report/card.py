"""Public room: the model card, in Markdown."""

from __future__ import annotations

from lowkey.errors import printable
from lowkey.privacy.price import at_most
from lowkey.report.contents import AuditedReport, PrivacyReport


def plain(text: object) -> str:
    """Words of a folder or a plan as words: no link, no tag, no picture, no code can be made of them."""
    marked = "".join(f"\\{c}" if c in "\\`<>[]!|" else c for c in str(text))
    return printable(marked).replace("://", ":\\//")


def quality(report: PrivacyReport) -> tuple[str, ...]:
    """What the posts say of the lists, free of charge; nothing where the method says nothing."""
    told = {name: plain(value) for name, value in report.settings.items()}
    if not {"items_clear_of_noise", "personal_share", "expected_gain_kept"} <= set(told):
        return ()
    behind = " They may be behind most-popular." if report.settings.get("may_be_behind") else ""
    return (
        f"{told['items_clear_of_noise']} of {report.domain['n_items']:,} items stand clear of the noise.",
        f"Of the personal weights {told['personal_share']} is used, by how well they foretold people left out; the rest is "
        "popularity.",
        f"Of what lists gain over most-popular without noise {told['expected_gain_kept']} is expected to be kept.{behind}",
    )


def model_card(report: PrivacyReport) -> str:
    """What the model is, what it is for, how to use it, and what it promises."""
    domain = report.domain
    scale = "binary feedback" if domain["feedback"] == "binary" else f"ratings in {domain['rating_range']}"
    lines = [
        f"# {plain(report.title.partition(': ')[2])}",
        "",
        f"{plain(report.what_it_is)} Written on {plain(report.created)} with lowkey {plain(report.software['lowkey'])}.",
        "",
        "## Use",
        "```python",
        "import lowkey as lk",
        'model = lk.load("this folder")',
        'model.recommend({"an item id": 4.0}, n=10)'
        if scale != "binary feedback"
        else 'model.recommend(["an item id"], n=10)',
        "```",
        f"It knows {domain['n_items']:,} items and expects {plain(scale)}. "
        "A history stays where this runs: nothing is stored.",
        "",
        "## Privacy",
        f"epsilon = {at_most(report.epsilon)}, delta = {report.delta:g}; "
        f"{plain(report.protected)}, {plain(report.adjacency)}. {plain(report.statement)} {plain(report.verdict)}",
        "",
        *(f"- {plain(caveat)}" for caveat in report.caveats),
        "",
        plain(report.erasure),
        "",
        "`privacy_report.html` has the details; `lowkey verify` on this folder checks them, without the data.",
        "",
        *(("## Audit", *(f"- {plain(line)}" for line in report.audit), "") if isinstance(report, AuditedReport) else ()),
        "## Training data",
        f"The users' ratings are not in this folder: {plain(report.withheld)}. Public facts:",
        "",
        *(f"- {plain(fact)}" for fact in report.public),
        "",
        *(("## Lists", *(f"- {line}" for line in quality(report)), "") if quality(report) else ()),
        "## From the curator",
        *(f"- {plain(name.replace('_', ' '))}: {plain(answer)}" for name, answer in report.about.items()),
        "",
        "## Limits",
        "- Items with few ratings have uncertain scores: the noise is largest where the data are fewest.",
        "- Quality was not measured on the private data: such a measurement would be a release of its own.",
        "- A user's own recommendations are made from that user's history; they are not covered by the guarantee.",
        "",
    ]
    return "\n".join(lines)
