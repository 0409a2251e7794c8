"""What is known of single languages: how to tell them, their stop words, and how people decline in them."""

import re
import unicodedata
from collections.abc import Sequence
from functools import lru_cache

from rageval_dagster.identity import digest_json
from rageval_dagster.text import is_character

OPENING = 300
"""Characters within which a declining answer declines: what comes later is a caveat to an answer."""

GAP = 80
"""Characters that may stand in the gap of a phrase."""

_DECLINES = {
    "en": """
        I don't know|I do not know|I can't answer|I cannot answer|I am not able to answer|I'm not able to answer
        I am unable to answer|I'm unable to answer|I don't have … information|I do not have … information
        I have no information|I couldn't find … information|I could not find … information|I couldn't find an answer
        I could not find an answer|I was unable to find|I am unable to find|I'm unable to find
        cannot be answered|can't be answered|do not answer … question|does not answer … question
        don't answer … question|doesn't answer … question|not contain … answer|not contain … information
        don't contain … answer|don't contain … information|doesn't contain … answer|doesn't contain … information
        not provide … information|not include … information|no information about|no information on
        no information regarding|no relevant information|not enough information|insufficient information
        context does not mention|contexts do not mention|document does not mention|documents do not mention
        passage does not mention|passages do not mention|text does not mention|sources do not mention
        context does not specify|contexts do not specify|documents do not specify|passages do not specify
        is not mentioned in the|are not mentioned in the|is not specified in the|not stated in the
    """,
    "de": """
        ich weiß es nicht|weiß ich nicht|ich weiß nicht|frage … nicht beantworten|kann ich nicht beantworten
        lässt sich … nicht beantworten|kann … nicht beantwortet werden|beantworten … frage nicht
        beantwortet … frage nicht|steht dazu nichts|steht nichts dazu|steht darüber nichts|steht nichts darüber
        steht hierzu nichts|dazu … nichts gefunden|nichts dazu gefunden|nichts darüber gefunden
        keine … informationen gefunden|keine … informationen zu|keine … informationen über
        keine … informationen dazu|keine … informationen darüber|keine … informationen vor|keine information dazu
        keine angaben zu|keine angaben dazu|keine angaben darüber|keine angaben über|nicht genügend informationen
        nicht genug informationen|keine ausreichenden informationen|enthält … keine antwort|enthalten … keine antwort
        enthält … keine informationen|enthalten … keine informationen|habe ich … keine informationen
        ich habe … keine informationen|wird im kontext nicht erwähnt|wird in den dokumenten nicht erwähnt
        wird im text nicht erwähnt|geht aus … nicht hervor
    """,
    "fr": """
        je ne sais pas|je l'ignore|je ne peux pas … répondre|je ne suis pas en mesure de répondre
        impossible de répondre|répondent pas à … question|répond pas à … question|permet pas de répondre
        permettent pas de répondre|contient pas la réponse|contiennent pas la réponse|contient pas de réponse
        contiennent pas de réponse|contient pas d'information|contient pas d'informations
        contiennent pas d'information|contiennent pas d'informations|contient aucune information
        contiennent aucune information|aucune information sur|aucune information à ce sujet
        aucune information concernant|pas d'information sur|pas d'informations sur|pas d'information à ce sujet
        pas d'informations à ce sujet|pas assez d'informations|pas suffisamment d'informations
        informations insuffisantes|je n'ai pas trouvé|je n'ai trouvé aucune|je n'ai pas d'information
        je n'ai pas d'informations|je n'ai aucune information|je ne dispose pas|contexte ne mentionne pas
        documents ne mentionnent pas|document ne mentionne pas|texte ne mentionne pas|contexte ne précise pas
        documents ne précisent pas
    """,
    "es": """
        no lo sé|no sé la respuesta|no puedo responder|no me es posible responder|no es posible responder
        no se puede responder|no responde a … pregunta|no responden a … pregunta|no responde esta pregunta
        no responden esta pregunta|no contiene la respuesta|no contienen la respuesta|no contiene … información
        no contienen … información|no hay … información sobre|no hay información|no se encontró información
        no se ha encontrado … información|no encontré … información|no he encontrado|no dispongo de … información
        no tengo … información|no hay suficiente información|información insuficiente
        contexto no menciona|contextos no mencionan|documentos no mencionan|documento no menciona|texto no menciona
        no se menciona en|no se mencionan en|no proporciona … información|no proporcionan … información
    """,
    "it": """
        non lo so|non so rispondere|non conosco la risposta|non posso rispondere|non sono in grado di rispondere
        non è possibile rispondere|impossibile rispondere|non risponde alla domanda|non rispondono alla domanda
        non risponde a questa domanda|non rispondono a questa domanda|non contiene la risposta
        non contengono la risposta|non contiene … informazioni|non contengono … informazioni
        non ci sono … informazioni|nessuna informazione|non ho … informazioni|non dispongo di … informazioni
        non ho trovato|informazioni insufficienti|contesto non menziona|documenti non menzionano
        documento non menziona|testo non menziona|non viene menzionato nel|non è menzionato nel|non è menzionata nel
        non fornisce … informazioni|non forniscono … informazioni
    """,
    "nl": """
        ik weet het niet|weet ik niet|vraag … niet beantwoorden|kan ik niet beantwoorden|kan … niet worden beantwoord
        beantwoorden … vraag niet|beantwoordt … vraag niet|geen antwoord op … vraag|bevat … geen antwoord
        bevatten … geen antwoord|bevat … geen informatie|bevatten … geen informatie|geen informatie over
        geen informatie gevonden|geen informatie hierover|hierover geen informatie|hierover niets gevonden
        niets over gevonden|staat hier niets over|staat hierover niets|staat daar niets over
        niet genoeg informatie|onvoldoende informatie|wordt niet vermeld in|wordt niet genoemd in
        heb ik … geen informatie|ik heb … geen informatie
    """,
    "pt": """
        não sei|não posso responder|não consigo responder
        não é possível responder|não responde à pergunta|não respondem à pergunta|não responde a … pergunta
        não respondem a … pergunta|não contém a resposta|não contêm a resposta|não contém … informações
        não contêm … informações|não contém informação|não contêm informação|não há … informações
        não há informação|nenhuma informação|não encontrei|não foram encontradas informações|não tenho … informações
        não tenho informação|não disponho de … informações|informações insuficientes|informação insuficiente
        contexto não menciona|contextos não mencionam|documentos não mencionam|documento não menciona
        texto não menciona|não é mencionado no|não é mencionada no|não fornece … informações
        não fornecem … informações
    """,
    "pl": """
        nie wiem|nie mogę odpowiedzieć|nie potrafię odpowiedzieć|nie jestem w stanie odpowiedzieć
        nie można odpowiedzieć|nie da się odpowiedzieć|nie odpowiada na … pytanie|nie odpowiadają na … pytanie
        nie zawiera odpowiedzi|nie zawierają odpowiedzi|nie zawiera … informacji|nie zawierają … informacji
        brak informacji|nie ma … informacji|nie mam … informacji|nie posiadam … informacji|nie znalazłem
        nie znalazłam|nie znaleziono … informacji|nie znaleziono odpowiedzi|niewystarczające informacje
        kontekst nie wspomina|dokumenty nie wspominają|dokument nie wspomina|tekst nie wspomina
    """,
    "ja": """
        わかりません|分かりません|お答えできません|答えられません|回答できません|答えることができません
        回答することができません|答えることはできません|回答することはできません|質問に答えていません
        情報がありません|情報はありません|情報が見つかりません|情報は見つかりません|回答が見つかりません
        記載されていません|記載がありません|記載はありません|言及されていません|情報が不足
        情報は含まれていません|情報が含まれていません|答えは含まれていません|回答は含まれていません
    """,
    "zh": """
        我不知道|不知道答案|我不清楚|无法回答|無法回答|不能回答|没有回答这个问题|沒有回答這個問題
        没有相关信息|没有相关的信息|沒有相關資訊|沒有相關信息|没有提到|沒有提到|没有提及|沒有提及|未提及|未提到
        没有关于|沒有關於|找不到相关|找不到相關|未找到相关|未找到相關|没有找到相关|沒有找到相關|没有找到答案
        沒有找到答案|没有足够的信息|沒有足夠的資訊|信息不足|資訊不足|不包含答案|没有答案|沒有答案|不包含相关
        没有包含相关|沒有包含相關
    """,
}
"""By language, parted by `|`: what people and models say who decline; `…` stands for other words of the sentence."""

_REGRETS = re.compile(
    r",? ?\b(?:sorry|unfortunately|currently|leider|bedauerlicherweise|derzeit|malheureusement|désolée?|lamentablemente"
    r"|desafortunadamente|purtroppo|mi dispiace|helaas|infelizmente|lamentavelmente|niestety)\b,?"
)
"""What may stand anywhere in a phrase."""

_CITATION = re.compile(r"\[[^\[\]]{1,200}\](?!\()|\(source:", re.IGNORECASE)
_SOURCE_LINE = re.compile(r"^\W*(?:[^\W\d_]+ ?[:：]\s*)?\[[^\[\]\n]{1,200}\](?!\().*$", re.MULTILINE)


def is_decline(text: str, extra_phrases: Sequence[str] = ()) -> bool:
    """Whether an answer declines to answer, whatever the language it does so in.

    It does if one of `extra_phrases`, the words that its own system declines with, stands anywhere in it; or if one
    of the phrases known of ten languages stands within its first `OPENING` characters and no sentence cites a source.
    An answer that says what one source states and what the others leave open cites that one, and is an answer. This
    holds for systems of any make, because many add a list of all they have read to whatever they say: lines that
    begin with a citation (`[1] handbook.pdf`, `Sources: [1], [2]`) are that list and do not count as citing, and
    neither do citations given apart from the text.

    Phrases match as whole words, whatever their case, white space and kind of apostrophe; `…` in a phrase stands for
    up to `GAP` characters of the same sentence.
    """
    plain = _plain(text)
    if any(_stands_in(phrase, plain) for phrase in map(_plain, extra_phrases)):
        return True
    opening = _REGRETS.sub("", plain[:OPENING])
    known = any(_stands_in(phrase, opening) for phrase in _known_declines())
    return known and not _CITATION.search(_SOURCE_LINE.sub("", text))


def declines_version(extra_phrases: Sequence[str] = ()) -> str:
    """64 hex digits over the phrases by which `is_decline` tells: other ones, other answers that decline."""
    return digest_json([OPENING, GAP, list(_known_declines()), list(extra_phrases)])


@lru_cache(maxsize=1)
def _known_declines() -> tuple[str, ...]:
    return tuple(_plain(phrase) for lines in _DECLINES.values() for phrase in lines.replace("\n", "|").split("|"))


def _stands_in(phrase: str, text: str) -> bool:
    # Nearly all phrases end here, without a pattern.
    parts = phrase.split(" … ")
    return phrase != "" and all(part in text for part in parts) and _whole_words(phrase).search(text) is not None


@lru_cache(maxsize=1024)
def _whole_words(phrase: str) -> re.Pattern[str]:
    """No word goes on at the ends of its parts, but in scripts that put no spaces between words."""
    parts = []
    for part in phrase.split(" … "):
        before = r"(?<!\w)" if part[0].isalnum() and not is_character(part[0]) else ""
        after = r"(?!\w)" if part[-1].isalnum() and not is_character(part[-1]) else ""
        parts.append(f"{before}{re.escape(part)}{after}")
    return re.compile(rf"[^.!?。！？]{{0,{GAP}}}?".join(parts))


def _plain(text: str) -> str:
    return " ".join(unicodedata.normalize("NFC", text).casefold().replace("’", "'").split())
