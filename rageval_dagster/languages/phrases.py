"""What a question or a sentence is by its wording: asking for a list, being polite, reporting a failure."""

import re

from rageval_dagster.languages.declining import is_decline, plain

LONGEST = 300
"""Characters of a question, and of a sentence, that are looked at: nobody asks for a list, or is polite, at length."""


def asks_for_list(question: str) -> bool:
    """Whether a question asks for several things: "List all ...", "What are the ...", "Welche ... gibt es?".

    A heuristic over the wording, in English, German, French, Spanish, Italian, Dutch, Portuguese, Polish, Russian,
    Chinese, Japanese and Korean; a question in another language never asks for a list.
    """
    return _LIST_QUESTION.search(plain(question[:LONGEST])) is not None


def is_pleasantry(sentence: str) -> bool:
    """Whether a sentence says nothing about any subject: "Sure!", "I hope this helps.", "Here is what I found"."""
    if len(sentence) > LONGEST:
        return False
    return _PLEASANTRY.fullmatch(plain(sentence).strip(_EDGES)) is not None


def is_fallback(text: str) -> bool:
    """Whether an answer is what a system says in place of one: a decline in any known language, or its own failure.

    A failure is told by how the answer begins ("Unable to generate ...", "An error occurred"), after an apology or not.
    """
    opening = _APOLOGY.sub("", plain(text[:LONGEST]).lstrip(_EDGES), count=1)
    return _FAILURE.match(opening) is not None or is_decline(text)


def _any_of(patterns: str) -> str:
    """One pattern of those that stand line by line."""
    return "|".join(f"(?:{line.strip()})" for line in patterns.strip().splitlines())


_EDGES = " \t.,;:!?…。！？，、*_~#>\"'“”«»()-–—"

_PLURAL = r"(?:(?!of\b)\w+ ){0,3}\w+[^sui\W]s\b(?!')"
_SEVERAL = "all|every|each|both|any|some|at least|\\d+|two|three|four|five|six|seven|eight|nine|ten"

_LIST_QUESTION = re.compile(
    _any_of(
        rf"""
    ^(?:please )?(?:(?:can|could|would) you (?:please )?)?(?:list|enumerate|itemi[sz]e)\b
    \b(?:name|list|mention|give|identify|state|tell) (?:me )?(?:{_SEVERAL}) (?:of )?\w
    \b(?:name|list|mention|give|identify|state|tell) (?:me )?the {_PLURAL}
    \benumerate\b
    \ba list of\b
    ^what (?:are|were) (?:all|the|some|its|their|your|our|my|his|her|{_SEVERAL})\b
    \bwhich\b.{{1,80}}\b(?:are|were)\b
    ^who (?:are|were)\b(?! you)
    ^(?:what|which) (?:\w+ )?(?:types|kinds|steps|reasons|requirements|options|ways|items|documents|countries|members)\b
    ^(?:what|which) (?:\w+ )?(?:examples|conditions|benefits|factors|methods|categories|parts|products|services)\b
    \bnenn(?:e|en sie|t)\b
    \bzähl(?:e|en sie|t)?\b.*\bauf\b
    ^(?:bitte )?listen? sie\b|\bliste (?:aller|alle)\b
    ^(?:was|welche)\b.*\bsind\b
    ^welche\b.*\bgibt es\b
    ^(?:énumére[zr]|énumère|listez|lister|citez|citer|nommez|nommer)\b
    \bquel(?:le)?s (?:sont|étaient)\b
    ^(?:enumer[ae]r?|list[ae]r?|nombr[ae]|mencion[ae])\b
    \b(?:cuáles|quiénes) (?:son|fueron|eran)\b
    ^(?:elenca|elencare|elencate|nomina|enumera)\b
    \bquali (?:sono|erano)\b
    ^noem\b|^som\b.*\bop\b
    ^(?:wat|welke)\b.*\bzijn\b
    ^(?:liste|enumere|cite|nomeie)\b
    \bquais (?:são|foram|eram)\b
    ^(?:wymień|wylicz)\b|\bjakie są\b
    ^(?:перечислите|перечисли|назовите)\b|^какие\b|\bкаковы\b
    列出|列举|列舉|哪些
    列挙|挙げて|一覧
    나열|열거|목록
    """
    )
)

_PLEASANTRY = re.compile(
    _any_of(r"""
    (?:yes,? )?(?:sure|certainly|of course|absolutely|gladly|okay|ok)(?: thing)?(?:,? here (?:you go|it is))?
    (?:(?:that's|that is|what) )?(?:an? )?(?:great|good|excellent|interesting) question
    (?:hello|hi|hey)(?: there)?|good (?:morning|afternoon|evening)
    (?:many )?thanks|thank you(?: for .*)?|you're welcome
    (?:(?:i'm|i am|i'd be|i would be) )?(?:happy|glad) to help.*|how (?:can|may) i help.*
    (?:i )?hope (?:this|that|it) .*
    (?:please )?(?:let me know|feel free|don't hesitate|do not hesitate)\b.*
    if you (?:have|need|want|would like)\b.*\b(?:let me know|feel free|ask|contact|reach out|happy to)\b.*
    here (?:is|are|'s) what i (?:found|know)
    here (?:is|are|'s) (?:the|a|an|your|some) (?:answers?|summary|overview|list|details|information|results?)\b.*
    i (?:have )?found the following.*|the answer is as follows|see (?:below|above)
    in (?:summary|conclusion|short)|to (?:summari[sz]e|sum up)|let me (?:explain|help|check)\b.*
    (?:ja,? )?(?:gerne?|natürlich|selbstverständlich|klar)|hallo|guten (?:tag|morgen|abend)
    (?:das ist )?(?:eine )?(?:gute|interessante) frage|(?:vielen )?danke?(?: für .*)?
    ich hoffe,? .*|(?:bitte )?(?:lassen sie (?:es )?mich|lass (?:es )?mich) .*wissen.*
    (?:wenn|falls) (?:sie|du) .*fragen .*|bei (?:weiteren )?fragen .*
    hier (?:ist|sind) (?:die|eine|ihre) (?:antwort|übersicht|zusammenfassung|liste)\b.*
    (?:oui,? )?(?:bien sûr|certainement|avec plaisir)|bonjour|merci(?: pour .*)?
    (?:c'est une )?(?:très )?bonne question|j'espère que .*|n'hésitez pas .*
    si vous avez (?:d'autres|des) questions.*|voici (?:la|une|les|un|le) (?:réponse|liste|informations|résumé)\b.*
    (?:sí,? )?(?:claro|por supuesto|con gusto)(?: que sí)?|hola|gracias(?: por .*)?|buena pregunta
    espero que .*|no dudes? en .*|si (?:tiene|tienes|necesita|necesitas) (?:más|otras|alguna).*
    certo|certamente|ciao|buongiorno|grazie(?: per .*)?|spero che .*|non esitare .*|fammi sapere.*
    se hai? (?:altre|ulteriori) domande.*|ecco (?:la|le|un|una) (?:risposta|lista|informazioni|riassunto)\b.*
    natuurlijk|zeker|graag gedaan|bedankt(?: voor .*)?|goede vraag|ik hoop dat .*|laat het me weten.*
    als (?:u|je) .*vragen (?:heeft|hebt)\b.*
    com certeza|olá|obrigad[oa](?: por .*)?|boa pergunta|não hesite .*|se tiver (?:mais|outras) .*
    oczywiście|jasne|cześć|dzień dobry|dziękuję(?: za .*)?|mam nadzieję,? że .*|daj(?:cie)? (?:mi )?znać.*
    jeśli masz .*pytania.*
    конечно|здравствуйте|привет|надеюсь,? .*|если у вас .*вопросы.*
    当然(?:可以)?|好的|您好|你好|希望.*(?:帮助|有用).*|请随时.*
    (?:如果|如)(?:您|你)?还?有.*(?:问题|疑问).*(?:告诉|联系|提问|问我).*
    もちろん(?:です)?|はい|こんにちは|ありがとうございます|(?:これが)?お役に立て.*
    (?:他に|ほかに|何か).*質問が.*(?:ください|下さい|ませ)
    """)
)

_APOLOGY = re.compile(
    r"(?:(?:(?:i'm|i am|we're|we are|we|i) )?(?:(?:very |so )?sorry|apologi[sz]e|unfortunately|apologies|oops|error"
    r"|leider|entschuldigung|désolée?|lo siento|lamentablemente|mi dispiace|purtroppo|desculpe"
    r"|抱歉|对不起|申し訳ありません)"
    r"(?: for (?:the|any) inconvenience)?[,.:;!，。、]? ?(?:but |aber |mais |pero |ma |mas |但)?)?"
    r"(?:(?:i|we|the (?:system|model|assistant)) |it (?:looks|seems) like |there was )?"
)
"""What may stand before a failure."""

_FAILURE = re.compile(
    _any_of(r"""
    (?:(?:am|is|are|was|were) )?(?:currently )?(?:unable|not able) to (?:generate|produce|process|complete|formulate)\b
    (?:failed to|could not|couldn't|cannot|can't) (?:generate|produce|process|complete|formulate) (?:an?|any|the|your)\b
    (?:has |have )?encountered (?:an? )?(?:\w+ )?(?:error|problem|issue)\b
    (?:an? )?(?:\w+ )?error (?:has )?occurr?ed\b
    (?:an )?error (?:while|when|processing|generating)\b
    something went wrong\b|internal server error\b|rate limit (?:exceeded|reached)\b
    your request (?:timed out|failed|could not be)\b|(?:the )?request timed out\b
    no (?:answer|response|output) (?:(?:was|could be|is) )?(?:generated|available|produced|returned)\b
    please try again\b|try again later\b
    (?:the )?(?:service|model|server|system) is (?:currently |temporarily )?(?:unavailable|overloaded|not available)\b
    as an ai (?:language )?model\b
    (?:(?:es )?ist )?(?:ein|beim) .{0,40}fehler (?:ist )?(?:aufgetreten|passiert)\b|etwas ist schiefgelaufen
    (?:die|eine|keine) antwort konnte nicht (?:erzeugt|generiert|erstellt) werden
    une erreur (?:s'est produite|est survenue)\b|impossible de générer\b
    (?:se )?ha (?:ocurrido|producido) un error\b|se produjo un error\b|no (?:se pudo|puedo|fue posible) generar\b
    si è verificato un errore\b|impossibile generare\b
    er is (?:een fout opgetreden|iets misgegaan)\b
    ocorreu um erro\b|não foi possível gerar\b
    wystąpił błąd\b|nie udało się wygenerować\b
    произошла ошибка\b|не удалось (?:сгенерировать|создать) ответ
    (?:发生|出现)了?错误|出错了|無法生成|无法生成|エラーが発生|回答を生成できません|오류가 발생
    """)
)
