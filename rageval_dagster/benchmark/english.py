"""English word lists and inflection for the extractive question rules: auxiliaries, verbs, function words, people."""

from functools import lru_cache


def words(text: str) -> frozenset[str]:
    return frozenset(text.split())


COPULAS = words("is are was were")
MODALS = words("can could may might must shall should will would")
AUXILIARIES = COPULAS | MODALS | words("has have had does do did")
DETERMINERS = words("the a an")
PRONOUNS = words(
    "i you he she it we they me him her us them his hers its their theirs our ours your yours my mine this that these"
    " those who whom whose which what there here such one ones itself himself herself themselves each another others"
    " someone anyone everyone something anything everything nothing none both either neither some many most all any"
    " few several"
)
PREPOSITIONS = words(
    "about above across after against along among around as at before behind below beneath beside besides between"
    " beyond by despite down during except for from in inside into like near of off on onto out outside over past per"
    " since through throughout to toward towards under until up upon via versus with within without"
)
CONJUNCTIONS = words(
    "and or but nor so yet because although though while whereas if unless when whenever where wherever whether than"
    " that which who whom whose as since until after before"
)
ADVERBS = words(
    "also still often usually generally typically always never sometimes currently now then first originally initially"
    " later eventually finally officially formally commonly mainly mostly primarily largely widely normally frequently"
    " only just even already soon once again thus therefore however previously recently formerly not rarely partly"
    " simply directly automatically explicitly implicitly both ever almost nearly quickly further probably possibly"
    " historically traditionally ultimately successfully subsequently immediately jointly"
)
HEDGES = words(
    "often usually generally typically sometimes commonly mainly mostly primarily largely normally frequently rarely"
    " partly almost nearly probably possibly historically traditionally"
)
"""Words that make of a definition what holds in part only."""

STOPWORDS = (
    AUXILIARIES
    | DETERMINERS
    | PRONOUNS
    | PREPOSITIONS
    | CONJUNCTIONS
    | ADVERBS
    | words("be been being am no not how why more less other same own too very")
)
MONTHS = words("January February March April May June July August September October November December")
NUMBER_WORDS = words(
    "two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen"
    " nineteen twenty thirty forty fifty sixty seventy eighty ninety hundred thousand"
)
LEADING_LINKS = words(
    "however moreover furthermore additionally also therefore thus hence consequently nevertheless nonetheless instead"
    " similarly likewise finally meanwhile today currently originally historically traditionally typically generally"
    " usually often later eventually initially accordingly overall specifically notably"
)
"""Words before a comma at the start of a sentence that a question can leave out without changing what it asks."""

CONDITIONS = words("if when whenever unless while although though because since once whereas where as until")
"""Words that open a clause without which the main clause may not hold."""

ROLES = words(
    "actor actress artist architect astronaut athlete author baseball basketball biologist businessman businesswoman"
    " cartoonist chemist coach comedian composer cricketer dancer diplomat director economist engineer entrepreneur"
    " explorer filmmaker footballer general golfer guitarist historian inventor journalist king lawyer leader"
    " mathematician model monarch monk musician novelist nurse officer painter philosopher photographer physician"
    " physicist pianist player playwright poet politician pope president priest producer professor psychologist queen"
    " rapper scientist screenwriter sculptor senator singer soldier songwriter sociologist surgeon theologian wrestler"
    " writer quarterback linebacker missionary emperor empress prince princess bishop scholar boxer swimmer chef"
)
HONORIFICS = words(
    "Mr Mrs Ms Dr Sir Lord Lady King Queen Prince Princess President Pope Saint St General Captain Professor Senator"
    " Emperor Empress Bishop Colonel Duke Count Judge Justice"
)
FIRST_NAMES = words(
    "Aaron Adam Adrian Albert Alan Alex Alexander Alfred Alice Amanda Amy Andrea Andrew Angela Ann Anna Anne Anthony"
    " Arthur Barbara Ben Benjamin Betty Bill Billy Bob Brad Brandon Brian Bruce Bryan Carl Carol Caroline Catherine"
    " Charles Charlotte Chris Christian Christina Christine Christopher Cindy Claire Daniel David Deborah Dennis"
    " Diana Donald Donna Dorothy Douglas Edward Elizabeth Ellen Emily Emma Eric Ernest Eugene Eva Frances Francis Frank"
    " Franklin Fred Frederick Gary George Gerald Gordon Grace Graham Greg Gregory Hannah Harold Harry Heather Helen"
    " Henry Howard Hugh Ian Isaac Jack Jacob James Jamie Jane Janet Jason Jean Jeff Jeffrey Jennifer Jeremy Jerry Jesse"
    " Jessica Jim Jimmy Joan Joe John Johnny Jonathan Jordan Joseph Joshua Juan Judith Judy Julia Julian Julie Justin"
    " Karen Karl Kate Katherine Kathleen Keith Kelly Ken Kenneth Kevin Kim Kyle Larry Laura Lawrence Lee Leo Leonard"
    " Lewis Linda Lisa Louis Louise Lucy Luke Margaret Maria Marie Mark Martha Martin Mary Matt Matthew Max Michael"
    " Michelle Mike Nancy Natalie Nathan Nicholas Nick Nicole Nikola Oliver Oscar Otto Pamela Patricia Patrick Paul"
    " Peter Peyton Philip Phillip Rachel Ralph Randy Raymond Rebecca Richard Rick Robert Robin Roger Ronald Rose Roy"
    " Russell Ruth Ryan Sam Samuel Sandra Sara Sarah Scott Sean Sharon Simon Sophia Stephanie Stephen Steve Steven"
    " Stuart Susan Taylor Teresa Terry Theodore Thomas Tim Timothy Tom Tony Tyler Victor Victoria Vincent Virginia"
    " Walter Wayne William"
)

# base, past, past participle (one form where they are the same)
_IRREGULAR = """
be was been|bear bore borne|beat beat beaten|become became become|begin began begun|bind bound|bite bit bitten
blow blew blown|break broke broken|breed bred|bring brought|broadcast broadcast|build built|burn burnt|buy bought
catch caught|choose chose chosen|come came come|cost cost|cut cut|deal dealt|dig dug|do did done|draw drew drawn
drink drank drunk|drive drove driven|eat ate eaten|fall fell fallen|feed fed|feel felt
fight fought|find found|fly flew flown
forbid forbade forbidden|forget forgot forgotten|freeze froze frozen|get got|give gave given|go went gone
grow grew grown|hang hung|have had|hear heard|hide hid hidden|hit hit|hold held|keep kept|know knew known|lay laid
lead led|leave left|lend lent|let let|lie lay lain|light lit|lose lost|make made|mean meant|meet met
overcome overcame overcome|pay paid|put put|quit quit|read read|ride rode ridden|ring rang rung|rise rose risen
run ran run|say said
see saw seen|seek sought|sell sold|send sent|set set|shake shook shaken|shine shone|shoot shot|show showed shown
shut shut
sing sang sung|sink sank sunk|sit sat|sleep slept|slide slid|speak spoke spoken|spend spent|split split|spread spread
stand stood|steal stole stolen|stick stuck|strike struck|swear swore sworn|swim swam swum|take took taken
teach taught|tear tore torn|tell told|think thought|throw threw thrown|understand understood
undertake undertook undertaken|wear wore worn|win won|write wrote written|rewrite rewrote rewritten
override overrode overridden
withdraw withdrew withdrawn|bend bent|bet bet|undergo underwent undergone|foresee foresaw foreseen|uphold upheld
"""
_REGULAR = """
abandon absorb accept access accompany accomplish account accuse achieve acknowledge acquire act adapt add address
adjust administer admit adopt advance advertise advise advocate affect agree aid aim allow alter amend analyze announce
answer appear apply appoint approach approve argue arise arrange arrest arrive ask assassinate assemble assert assess
assign assist associate assume attach attack attempt attend attract attribute authorize avoid award ban base battle
believe belong block boast boost borrow call calculate cancel capture carry cast cause cease celebrate change
characterize charge check circulate cite claim clarify classify close co-found collapse collect combine command commence
comment commission commit communicate compare compete compile complete comprise compute concern conclude condemn
conduct confirm connect conquer consider consist constitute construct consume contain continue contract contribute
control convert convey convince cooperate copy correspond count cover create credit criticize cross declare decline
decorate decrease dedicate default defeat defend define delay delegate delete deliver demand demonstrate denote deny
depend deploy deposit deprecate derive describe design designate desire destroy detect determine develop devise die
differ direct disable disappear discard discontinue discover discuss dismantle dismiss display dissolve distinguish
distribute divide dominate donate drop earn educate elect eliminate embody emerge emit emphasize employ enable enact
enclose encode encounter encourage end endorse enforce engage enhance enjoy enlarge ensure enter establish estimate
evaluate evolve examine exceed exchange exclude execute exercise exhibit exist expand expect experience explain exploit
explore export expose express extend extract face fail favor feature fill film filter finance finish fire fit fix
flee flow focus follow force form formulate found free fulfil function fund gain gather generate govern grant guarantee
guard guide handle happen help highlight hire host house identify ignore illustrate implement imply import impose
improve include incorporate increase indicate induce influence inform inhabit inherit inhibit initialize initiate
insert inspire install instruct integrate intend interact interpret introduce invade invent invest investigate invite
invoke involve issue join judge jump justify kill lack land last launch learn level license limit link list live load
locate look maintain manage mandate manufacture mark marry match measure mention merge migrate minimize mix modify
monitor motivate move multiply murder name narrate need negotiate nominate note number obtain occupy occur offer open
operate oppose order organize originate outlaw overlap own parse participate pass patent perceive perform permit
persuade place plan plant play point portray possess post power practice precede predict prefer prepare present
preserve prevent print proceed process produce prohibit promise promote pronounce propose protect prove provide publish
purchase pursue qualify question raise rank reach react realize receive recognize recommend reconstruct record recover
recruit reduce refer reflect refuse regard register regulate reject relate release rely remain remember remove rename
render renew reopen repair repeat replace report represent request require rescue research reside resign resist resolve
respond restore restrict result retain retire retrieve return reveal reverse revert review revise revive reward rule
satisfy save score search secure select separate serve settle shape share sign signal simplify solve specify sponsor
star start state stop store strengthen stress stretch structure study submit succeed suffer suggest supply support
suppose suppress surrender surround survive suspect suspend sustain switch symbolize talk target tend term test
threaten tie total touch trace track trade train transfer transform translate transmit transport travel treat trigger
try turn uncover unify unite update upgrade urge use utilize vary view violate visit vote wait walk want warn wash
watch weigh welcome wish wrap yield accelerate allocate append await circumvent configure delimit evacuate
expire fetch format inspect instantiate iterate populate query raise redirect resemble schedule serialize skip spawn
subclass subscribe terminate validate wrap
"""
_IRREGULAR_VERBS = [entry.split() for line in _IRREGULAR.strip().splitlines() for entry in line.split("|")]
_DOUBLED = words("stop plan ban control commit admit permit refer transfer occur drop ship submit equip skip wrap trap")


def _past(base: str) -> str:
    if base.endswith("e"):
        return base + "d"
    if base.endswith("y") and base[-2] not in "aeiou":
        return base[:-1] + "ied"
    return base + (base[-1] if base in _DOUBLED else "") + "ed"


def _third(base: str) -> str:
    if base.endswith(("s", "x", "z", "ch", "sh", "o")):
        return base + "es"
    if base.endswith("y") and base[-2] not in "aeiou":
        return base[:-1] + "ies"
    return base + "s"


_BASES = frozenset([verb[0] for verb in _IRREGULAR_VERBS if verb[0] != "be"] + _REGULAR.split())
_PAST = {verb[1]: verb[0] for verb in _IRREGULAR_VERBS} | {_past(base): base for base in _REGULAR.split()}
_PARTICIPLES = {verb[-1] for verb in _IRREGULAR_VERBS} | {_past(base) for base in _REGULAR.split()}
_THIRD = {_third(base): base for base in _BASES}


@lru_cache(maxsize=4096)
def past_to_base(word: str) -> str | None:
    """The base form of a past tense form, None for words that are no known verb: bought -> buy."""
    return _PAST.get(word)


@lru_cache(maxsize=4096)
def third_to_base(word: str) -> str | None:
    """The base form of a third person form, None for words that are no known verb: returns -> return."""
    return _THIRD.get(word)


def is_base_verb(word: str) -> bool:
    return word in _BASES


def is_verb_form(word: str) -> bool:
    """Whether a word may be a form of a known verb, whatever else it may be: save, saves, saved."""
    return is_base_verb(word) or third_to_base(word) is not None or past_to_base(word) is not None


def is_participle(word: str) -> bool:
    """Whether a word after a form of "be" makes it a passive: known forms, and what ends in -ed."""
    return word in _PARTICIPLES or (word.endswith("ed") and len(word) > 4)
