"""The first screen: a model in a few sentences and tiles, made from the figures of the sections."""

from __future__ import annotations

from typing import Any

from kpp.reports.sections.bounds import quantity_words
from kpp.tables.numbers import count, figure, number, percent

N_DRIVERS = 5


def make(sections: dict[str, Any], cautions: list[str]) -> dict[str, Any]:
    """Answer the four questions that a reader comes with.

    Parameters
    ----------
    sections : dict
        The other sections, as plain data. What was not made, or is None, is not spoken of.
    cautions : list of str
        Headline scores that do not keep clear of the constant's.

    Returns
    -------
    summary : dict
        "answers": for each question its sentences; "tiles"; "cautions".
    """
    asked = {
        "Is it good?": good(sections),
        "What drives it?": drivers(sections),
        "How sure is it?": sure(sections),
        "What to worry about?": worries(sections, cautions),
    }
    return {
        "cautions": cautions,
        "answers": [
            {"question": question, "sentences": found} for question, found in asked.items() if found
        ],
        "tiles": tiles(sections),
    }


def _made(sections: dict[str, Any], name: str) -> dict[str, Any] | None:
    found = sections.get(name)
    return found if found is not None and found["made"] else None


def _and(names: list[str]) -> str:
    """Several names as people list them."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _write(line: dict[str, Any], value: Any) -> str:
    return percent(value) if line["share"] else figure(value)


# Is it good?


def good(sections: dict[str, Any]) -> list[str]:
    """The leading score beside that of a constant, and the verdicts on other models."""
    quality = _made(sections, "quality")
    found = []
    if quality is not None and quality["tables"]:
        rare = quality.get("imbalance")
        if rare is not None:
            suited = "average precision" if rare["n_classes"] == 2 else "balanced accuracy"
            found.append(
                f"Only {percent(rare['share'])} of the rows of the fit are of class "
                f"{rare['class']}, so the accuracy tells little; the {suited} tells more."
            )
        for table in quality["tables"][:1]:
            found += [leading(line, quality, table) for line in table["lines"][:1]]
        if len(quality["tables"]) > 1:
            found.append(f"It has {len(quality['tables'])} targets; this is the first.")
    found = [text for text in found if text]
    comparison = _made(sections, "comparison")
    if comparison is not None:
        found += beside(comparison)
    elif quality is not None:
        found.append("It was not compared with other models.")
    return found


def leading(line: dict[str, Any], quality: dict[str, Any], table: dict[str, Any]) -> str:
    """The first score of a table in a sentence; nothing where the rows do not define it."""
    if line["test"] is None:
        return ""
    name = line["short"] if line["short"][:2].isupper() else line["short"].lower()
    text = f"On the {quality['called']}s its {name} is {_write(line, line['test'])}"
    if line["low"] is not None:
        text += (
            f" ({_write(line, line['low'])} to {_write(line, line['high'])} with "
            f"{percent(quality['confidence'], 0)} confidence)"
        )
    if line["baseline"] is not None:
        text += f", and that of a constant {_write(line, line['baseline'])}"
    better = "higher" if line["higher_is_better"] else "lower"
    text += f"; {better} is better."
    share = next((one for one in table["lines"] if one["short"] == "R²"), None)
    if share is not None and share["test"] is not None and line is not share:
        if share["test"] > 0:
            text += f" It explains {percent(share['test'])} of the variance."
        else:
            text += " It explains none of the variance."
    return text


def beside(comparison: dict[str, Any]) -> list[str]:
    """How many of the others are worse, better, or not told apart."""
    others = comparison["models"][1:]
    if not others:
        return ["No other model could be fitted to compare with."]
    verdicts = {
        word: [one["name"] for one in others if one["verdict"] == word]
        for word in ("worse", "better", "no difference seen")
    }
    parts = []
    if verdicts["worse"]:
        parts.append(f"it beats {_named(verdicts['worse'], others)}")
    if verdicts["better"]:
        parts.append(f"it loses to {_named(verdicts['better'], others)}")
    if verdicts["no difference seen"]:
        parts.append(f"shows no difference to {_named(verdicts['no difference seen'], others)}")
        if len(parts) == 1:
            parts[0] = f"it {parts[0]}"
    return [f"By the {comparison['loss']} on the same rows {_and(parts)}."]


ARTICLED = ("constant", "linear model", "small tree", "random forest")


def _named(names: list[str], others: list[dict[str, Any]]) -> str:
    if len(names) == len(others) > 3:
        return f"all {len(names)} other models"
    return _and([f"the {name}" if name in ARTICLED else name for name in names])


# What drives it?


def drivers(sections: dict[str, Any]) -> list[str]:
    """The columns that move the score most, and their share of all that moves it."""
    variables = _made(sections, "variables")
    if variables is None:
        return []
    sizes = [(one["name"], sum(one["mean_abs"])) for one in variables["variables"]]
    total = sum(size for _, size in sizes) + sum(variables["others_mean_abs"])
    moving = [(name, size) for name, size in sizes if size > 0]
    if not moving or not total > 0:
        return ["No column moves the prediction: it is a constant."]
    n_columns = len(sizes) + variables["n_others"]
    top = moving[:N_DRIVERS]
    names = _and([name for name, _ in top])
    share = percent(sum(size for _, size in top) / total, 0)
    if len(top) == 1:
        text = f"Of its {count(n_columns, 'column')} {names} moves the score most, by {share} of "
    else:
        text = f"Of its {count(n_columns, 'column')} {names} move the score most, by {share} of "
    if len(top) == len(moving):
        order = "alone" if len(top) == 1 else "in this order"
        return [f"{names} {'moves' if len(top) == 1 else 'move'} the score, {order}."]
    return [f"{text}all contributions. That is what the model uses, not what causes the target."]


# How sure is it?


def sure(sections: dict[str, Any]) -> list[str]:
    """Coverage and its guarantee, calibration, and the best bound that says something."""
    found = []
    intervals = _made(sections, "intervals")
    if intervals is not None and intervals["outputs"]:
        own = intervals["outputs"][0]["overall"]
        kind = "sets of classes" if intervals["is_sets"] else "prediction intervals"
        size = (
            f"hold {figure(own['size'])} classes"
            if intervals["is_sets"]
            else f"are {figure(own['size'])} wide"
        )
        found.append(
            f"Its {percent(intervals['level'], 0)} {kind} cover {percent(own['share'])} of the "
            f"{intervals['called']}s and {size} on average."
        )
    quality = _made(sections, "quality")
    if quality is not None and "calibration" in quality:
        found += calibrated(quality["calibration"]["bins"])
    bounds = _made(sections, "bounds")
    best = None if bounds is None else best_bound(bounds)
    if intervals is not None:
        found.append(promised(intervals))
    if best is not None:
        quantity = quantity_words(best["quantity"])
        quantity += "," if "," in quantity else ""
        found.append(
            f"With probability {percent(1 - best['delta'], 0)} over the draw of the rows its "
            f"{quantity} is at most {number(best['total'])}, on conditions that are listed below."
        )
    return found


def promised(intervals: dict[str, Any]) -> str:
    """What coverage is guaranteed, or why none is."""
    if intervals["outputs"] and intervals["is_guarantee"]:
        return (
            f"At least {percent(intervals['proven'])} coverage is guaranteed on average, on "
            "conditions that are listed below."
        )
    return str(intervals["sentence"])


def calibrated(bins: list[dict[str, Any]]) -> list[str]:
    """In how many bins predicted probabilities and observed shares agree."""
    if not bins:
        return []
    agree = sum(one["low"] <= one["predicted"] <= one["high"] for one in bins)
    if agree == len(bins):
        where = "the only bin" if agree == 1 else f"all {agree} bins"
    else:
        where = f"{agree} of {count(len(bins), 'bin')}"
    return [f"Predicted probabilities agree with observed shares, within their error, in {where}."]


def best_bound(bounds: dict[str, Any]) -> dict[str, Any] | None:
    """The first bound on a risk that is guaranteed and says something."""
    for one in (bound for sample in bounds["samples"] for bound in sample["bounds"]):
        says = one["is_guarantee"] and not one["is_trivial"] and one["total"] is not None
        if says and one["quantity"] != "Rademacher complexity":
            return dict(one)
    return None


# What to worry about?


def worries(sections: dict[str, Any], cautions: list[str]) -> list[str]:
    """What stands out: rows of the fit, cautions, findings, segments, and an audit that fails."""
    found = []
    quality = _made(sections, "quality")
    if quality is not None and quality["seen"]:
        found.append("Rows of the fit are among these rows: the scores are too good.")
    elif quality is not None and not quality["unseen"]:
        found.append("Whether the fit has used some of these rows is not known.")
    if cautions:
        found.append("It is not known to be better than a constant (see above).")
    findings = _made(sections, "findings")
    if findings is not None and not findings["audit_holds"]:
        found.append("The audit fails: do not rely on the other sections.")
    titles = [
        one["title"]
        for section in (_made(sections, "data"), findings)
        for one in (section["findings"] if section is not None else [])
        if one["severity"] == "warning"
    ]
    if titles:
        found.append(f"{count(len(titles), 'warning')}: {'; '.join(dict.fromkeys(titles))}.")
    segments = _made(sections, "segments")
    if segments is not None and segments["n_worse"]:
        worst = segments["segments"][0]
        n_more = segments["n_worse"] - 1
        more = f", and so {'is' if n_more == 1 else 'are'} {count(n_more, 'other segment')}"
        found.append(
            f"It is worse where {worst['name']} ({segments['score']} {figure(worst['score'])}, "
            f"other rows {figure(worst['rest'])}){more if n_more else ''}."
        )
    if found:
        return found
    looked = ["no figure of the diagnostics"] if findings is not None else []
    if segments is not None and segments["n_tested"]:
        looked.append(f"none of {count(segments['n_tested'], 'segment')} of the rows")
    if not looked:
        return []
    return [f"Nothing stands out: {' and '.join(looked)}."]


# Tiles.


def tiles(sections: dict[str, Any]) -> list[dict[str, str]]:
    """The key figures at the top, from the sections that could be made."""
    found = []
    quality = _made(sections, "quality")
    if quality is not None and quality["tables"]:
        for line in quality["tables"][0]["lines"][:2]:
            known = line["low"] is not None
            note = f"{_write(line, line['low'])} to {_write(line, line['high'])}" if known else ""
            value = _write(line, line["test"])
            found.append({"label": line["short"], "value": value, "note": note})
            if line["baseline"] is not None:
                constant = f"a constant: {_write(line, line['baseline'])}"
                found[-1]["note"] = "; ".join(filter(None, [note, constant]))
    intervals = _made(sections, "intervals")
    if intervals is not None and intervals["outputs"]:
        own = intervals["outputs"][0]["overall"]
        promise = percent(intervals["proven"]) if intervals["is_guarantee"] else "nothing"
        found.append(
            {
                "label": "Covered",
                "value": percent(own["share"]),
                "note": f"{percent(intervals['level'], 0)} asked for, {promise} guaranteed",
            }
        )
    fitted = _made(sections, "fitted")
    if fitted is not None:
        found.append(
            {
                "label": "Regime",
                "value": fitted["regime"],
                "note": f"{fitted['regime_code']}, {count(fitted['n_fit_rows'], 'row')} fitted",
            }
        )
        found.append(
            {
                "label": f"{fitted['called'].capitalize()}s",
                "value": f"{fitted['n_test_rows']:,}",
                "note": count(fitted["n_columns"], "column") + _caution(fitted),
            }
        )
    findings = _made(sections, "findings")
    if findings is not None:
        warnings = sum(f["severity"] == "warning" for f in findings["findings"])
        found.append(
            {
                "label": "Findings",
                "value": str(len(findings["findings"])),
                "note": f"{count(warnings, 'warning')}; audit "
                + ("holds" if findings["audit_holds"] else "FAILS"),
            }
        )
    return found


def _caution(fitted: dict[str, Any]) -> str:
    if fitted["called"] == "test row":
        return ""
    known = fitted["seen"] is not None
    return "; rows of the fit are among them" if known else "; perhaps rows of the fit"
