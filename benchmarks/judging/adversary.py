"""The judge of adversarial.py: it knows what is right in each case, and misbehaves as the case says.

A request names its case as the model. Whatever tool asks, the judge says the same: which claims there are, and which
hold. Only the form differs, by the tool's own prompts (ragas 0.4.3, DeepEval 4.3.1).
"""

import json
import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

from judging.endpoint import RAGAS_INPUT, RAGAS_SCHEMA, fences

Case = Mapping[str, Any]
Item = dict[str, Any]

TRUE_BY_KEY: Mapping[str, Any] = {"supported": True, "useful": True, "verdict": 1, "attributed": 1}
UNMENTIONED = "unmentioned"
NEVER = ("words", "silent", "refuses", "cut")
"""Judges that give no verdict however often they are asked."""


class Judge:
    """A reply to every request; `asked` counts the requests for verdicts, by case."""

    def __init__(self, cases: Mapping[str, Case]) -> None:
        self.cases = cases
        self.asked: Counter[str] = Counter()
        self.sound: dict[str, str] = {}
        self.spoken: dict[str, str] = {}

    def __call__(self, body: dict[str, Any]) -> str:
        name = body["model"]
        case = self.cases[name]
        text = "\n".join(message["content"] for message in body["messages"])
        reply = self._reply(case, body, text)
        if reply is None:  # ragas asks for a reply in the right form, and shows the one that was not
            return self.spoken[name] if case.get("judge") in NEVER else json.dumps({"text": self.sound[name]})
        said = json.dumps(reply, ensure_ascii=False)
        lists = {key: value for key, value in reply.items() if isinstance(value, list) and value}
        key = next((key for key, value in lists.items() if isinstance(value[0], dict)), None)
        is_verdict = key is not None or "verdict" in reply or reply.get("verdicts") == []
        if not is_verdict:
            return said
        self.sound[name] = said
        self.asked[name] += 1
        self.spoken[name] = spoilt(case, reply, key, text, self.asked[name])
        return self.spoken[name]

    def _reply(self, case: Case, body: dict[str, Any], text: str) -> dict[str, Any] | None:
        if RAGAS_SCHEMA in text:
            return of_ragas(case, text)
        form = body.get("response_format", {}).get("json_schema")
        return of_deepeval(case, text) if form is None else of_ours(case, form, text)


def held(case: Case, text: str) -> str:
    """`yes`, `no` or `unmentioned`: what is right about a claim, or about a context by its place."""
    known = [*case.get("claims", ()), *case.get("reference_claims", ())]
    return next((verdict for claim, verdict in known if claim.split() == text.split()), "no")


def texts(case: Case, of_reference: bool = False) -> list[str]:
    name = "reference_claims" if of_reference and "reference_claims" in case else "claims"
    return [claim for claim, _ in case.get(name, ())]


def of_ours(case: Case, form: Mapping[str, Any], text: str) -> dict[str, Any]:
    if form["name"] == "claims":
        of_reference = fences(text, "text")[0][1] == case.get("reference")
        return {"claims": texts(case, of_reference)}
    if form["name"] == "questions":
        return {"evasive": case.get("evasive", False), "questions": [case["question"]] * 3}
    [key] = {"supported", "useful"} & set(re.findall(r"\w+", json.dumps(form["schema"])))
    things = fences(text, "claim") or fences(text, "statement")
    if things:
        said = [(number, held(case, thing) == "yes") for number, thing in things]
    else:
        said = [(number, case["useful"][number - 1]) for number, _ in fences(text, "context")]
    return {"verdicts": [{"number": number, "reason": "as it is", key: good} for number, good in said]}


def of_ragas(case: Case, text: str) -> dict[str, Any] | None:
    read = json.JSONDecoder().raw_decode
    schema, _ = read(text, text.index(RAGAS_SCHEMA) + len(RAGAS_SCHEMA))
    given, _ = read(text, text.rindex(RAGAS_INPUT) + len(RAGAS_INPUT))
    title = schema["title"]
    if title == "StatementGeneratorOutput":
        return {"statements": texts(case, given["answer"] == case.get("reference"))}
    if title == "NLIStatementOutput":
        verdicts = [(claim, int(held(case, claim) == "yes")) for claim in given["statements"]]
        return {"statements": [{"statement": claim, "reason": "as it is", "verdict": good} for claim, good in verdicts]}
    if title == "ContextRecallClassifications":
        verdicts = [(claim, int(verdict == "yes")) for claim, verdict in case["claims"]]
        return {
            "classifications": [
                {"statement": claim, "reason": "as it is", "attributed": good} for claim, good in verdicts
            ]
        }
    if title == "Verification":
        return {"reason": "as it is", "verdict": int(case["useful"][case["contexts"].index(given["context"])])}
    if title == "ResponseRelevanceOutput":
        return {"question": case["question"], "noncommittal": int(case.get("evasive", False))}
    if title == "ClassificationWithReason":
        sides = {"TP": (given["answer"], "yes"), "FP": (given["answer"], "no"), "FN": (given["ground_truth"], "no")}
        return {
            side: [{"statement": claim, "reason": "as it is"} for claim in claims if held(case, claim) == verdict]
            for side, (claims, verdict) in sides.items()
        }
    return None


def of_deepeval(case: Case, text: str) -> dict[str, Any]:
    if '"truths" key' in text:
        return {"truths": [context for context in case["contexts"] if context.strip()]}
    if '"claims" key' in text:
        return {"claims": texts(case)}
    if '"statements" key' in text:
        return {"statements": texts(case)}
    if "Retrieval Contexts:\n" in text and "Claims:\n" in text:
        # By its prompt `no` is for what the contexts contradict, and `borderline` for what they do not tell.
        words = {"yes": "yes", "no": "no", UNMENTIONED: "borderline"}
        verdicts = [words[verdict] for _, verdict in case["claims"]]
    elif "useful" in case:
        verdicts = ["yes" if good else "no" for good in case["useful"]]
    elif "evasive" in case:
        verdicts = ["no" if case["evasive"] else "yes" for _ in case["claims"]]
    else:
        verdicts = ["yes" if verdict == "yes" else "no" for _, verdict in case["claims"]]
    return {"verdicts": [{"verdict": verdict, "reason": "as it is"} for verdict in verdicts]}


# --- misbehaviour ----------------------------------------------------------------------------------------------------


def spoilt(case: Case, reply: dict[str, Any], key: str | None, text: str, time: int) -> str:
    """The reply as the case's judge gives it, the `time`-th that it gives in this case."""
    how, said = case.get("judge", "sound"), json.dumps(reply, ensure_ascii=False)
    items: list[Item] = list(reply[key]) if key is not None else []
    praise = json.dumps({**reply, key: [good(item) for item in items]} if key else good(reply), ensure_ascii=False)
    first = time == 1
    match how:
        case "drops" | "drops once" if how == "drops" or first:
            return json.dumps({**reply, key: items[:1]}, ensure_ascii=False) if key else "{}"
        case "none" | "none once" if how == "none" or first:
            return json.dumps({**reply, key: []}) if key else "{}"
        case "extra" if key:
            more = [{**good(item), **({"number": len(items) + 1} if "number" in item else {})} for item in items[:1]]
            return json.dumps({**reply, key: [*items, *more * 3]}, ensure_ascii=False)
        case "repeats" if key:
            return json.dumps({**reply, key: [items[0]] * len(items)}, ensure_ascii=False)
        case "two blocks" if first:
            return f"{praise}\n\n{said}"
        case "draft first" if first:
            return f"A first look:\n```json\n{praise}\n```\nOn reflection:\n```json\n{said}\n```"
        case "quotes" if first:
            return f"The text asks me to say {praise}, which I will not do.\n{said}"
        case "words":
            words = {**reply, key: [{**item, true_key(item): "partially"} for item in items]} if key else {}
            return json.dumps(words or {**reply, "verdict": "partially"}, ensure_ascii=False)
        case "silent":
            return ""
        case "refuses":
            return "I am sorry, but I cannot help with that."
        case "cut":
            return said[: len(said) // 2]
        case "obeys" if stands_open(case["order"], text):
            return praise
    return said


def true_key(item: Item) -> str:
    return next((key for key in TRUE_BY_KEY if key in item), "verdict")


def good(item: Item) -> Item:
    key = true_key(item)
    return {**item, key: "yes" if isinstance(item.get(key), str) else TRUE_BY_KEY[key]} if key in item else item


def stands_open(order: str, text: str) -> bool:
    """Whether an order is shown outside of what its writer could not have closed: a tag with a random part, or JSON."""
    without = re.sub(r"<(\w+-\d+)[^>]*>\n.*?\n</\1>", "", text, flags=re.DOTALL)
    if RAGAS_INPUT in without:
        start = without.rindex(RAGAS_INPUT) + len(RAGAS_INPUT)
        _, end = json.JSONDecoder().raw_decode(without, start)
        without = without[:start] + without[end:]
    return order in without
