"""The languages that are known well: their stop words, and what people and models say in them who decline."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Language:
    """What is known of one language, its words case-folded.

    `stop_words` are no keywords; a sentence that starts with one of `hanging` says little without the one before it;
    `declines` are phrases of who declines to answer (`…` stands for other words).
    """

    stop_words: frozenset[str]
    hanging: tuple[str, ...]
    declines: tuple[str, ...]


def _language(stop_words: str, hanging: str, declines: str) -> Language:
    """Takes words parted by white space, and phrases parted by `|` or line ends."""
    phrases = (phrase.strip() for phrase in declines.replace("\n", "|").split("|"))
    return Language(
        frozenset(stop_words.casefold().split()), tuple(hanging.casefold().split()), tuple(filter(None, phrases))
    )


LANGUAGES: Mapping[str, Language] = {
    "en": _language(
        stop_words="""
            a about above across after again against all almost along already also although always am among an and
            another any anyone anything are around as at away back be became because been before behind being below
            between both but by came can cannot come could did do does doing done down during each either else ever
            every everything few for from further gave get gets give given goes going gone got had has have having he
            hence her here hers herself him himself his how however i if in into is it its itself just least less like
            made make makes many may me might mine more most much must my myself near need neither never no nobody none
            nor not nothing now of off often on once one only onto or other others ought our ours ourselves out over own
            per perhaps put quite rather really same shall she should since so some someone something still such take
            taken than that the their theirs them themselves then there therefore these they this those though through
            thus till to together too toward towards under unless until up upon us used uses using very via was we well
            went were what whatever when where whether which while who whole whom whose why will with within without
            would yet you your yours yourself
        """,
        hanging="""
            he she it they his her its their this that these those such there here then thus also however otherwise
        """,
        declines="""
            I don't know|I do not know|I can't answer|I cannot answer|I am not able to answer|I'm not able to answer
            I am unable to answer|I'm unable to answer|I don't have … information|I do not have … information
            I have no information|I couldn't find … information|I could not find … information
            I couldn't find an answer|I could not find an answer|I was unable to find|I am unable to find
            I'm unable to find|cannot be answered|can't be answered|do not answer … question
            does not answer … question|don't answer … question|doesn't answer … question|not contain … answer
            not contain … information|don't contain … answer|don't contain … information|doesn't contain … answer
            doesn't contain … information|not provide … information|not include … information|no information about
            no information on|no information regarding|no relevant information|not enough information
            insufficient information|context does not mention|contexts do not mention|document does not mention
            documents do not mention|passage does not mention|passages do not mention|text does not mention
            sources do not mention|context does not specify|contexts do not specify|documents do not specify
            passages do not specify|is not mentioned in the|are not mentioned in the|is not specified in the
            not stated in the
        """,
    ),
    "de": _language(
        stop_words="""
            aber alle allem allen aller alles als also am an ander andere anderem anderen anderer anderes auch auf aus
            bei beide beiden beim bereits bevor bin bis bist da dabei dadurch dafür dagegen daher dahin damals damit
            danach daneben dann daran darauf daraus darf darin darum darunter darüber das dass davon davor dazu dein
            deine deinem deinen deiner dem den denen denn dennoch der deren des deshalb dessen dich die dies diese
            diesem diesen dieser dieses dir doch dort du durch dürfen ein eine einem einen einer eines einige einigen
            einiger einmal er es etwa etwas euch euer eure falls fast für gegen gegenüber gewesen hab habe haben hat
            hatte hatten hier hin hinter hätte hätten ich ihm ihn ihnen ihr ihre ihrem ihren ihrer ihres im immer in
            indem innerhalb ins ist ja je jede jedem jeden jeder jedes jedoch jene jenem jenen jener jenes jetzt kann
            kannst kein keine keinem keinen keiner können könnte könnten man manche manchem manchen mancher mehr mein
            meine meinem meinen meiner meist mich mindestens mir mit muss musste möglich müssen nach nachdem neben nein
            nicht nichts noch nun nur ob obwohl oder oft ohne ohnehin pro schon sehr sei seien sein seine seinem seinen
            seiner seines seit seitdem selbst sich sie sind so sobald sofern sogar solange solch solche solchem solchen
            solcher soll sollen sollte sollten somit sondern sonst sowie sowohl statt trotz um und uns unser unsere
            unserem unseren unserer unter viel viele vielen vom von vor wann war waren warum was weder wegen weil
            weitere weiteren weiterer welche welchem welchen welcher welches wem wen wenig weniger wenn wer werde werden
            wessen wie wieder will wir wird wo wobei wodurch wohin wollen worden wurde wurden während wäre wären würde
            würden zu zum zur zwar zwischen über
        """,
        hanging="""
            er sie es sein seine seinen seiner ihr ihre ihren ihrer dies diese diesem diesen dieser dieses jene jener
            jenes dabei dadurch dafür dagegen daher dahin damit danach daneben dann daran darauf daraus darin darüber
            darum dazu deren dessen dort hier hierbei hierfür ferner außerdem jedoch so solche somit zudem
        """,
        declines="""
            ich weiß es nicht|weiß ich nicht|ich weiß nicht|frage … nicht beantworten|kann ich nicht beantworten
            lässt sich … nicht beantworten|kann … nicht beantwortet werden|beantworten … frage nicht
            beantwortet … frage nicht|steht dazu nichts|steht nichts dazu|steht darüber nichts|steht nichts darüber
            steht hierzu nichts|dazu … nichts gefunden|nichts dazu gefunden|nichts darüber gefunden
            keine … informationen gefunden|keine … informationen zu|keine … informationen über
            keine … informationen dazu|keine … informationen darüber|keine … informationen vor|keine information dazu
            keine angaben zu|keine angaben dazu|keine angaben darüber|keine angaben über|nicht genügend informationen
            nicht genug informationen|keine ausreichenden informationen|enthält … keine antwort
            enthalten … keine antwort|enthält … keine informationen|enthalten … keine informationen
            habe ich … keine informationen|ich habe … keine informationen|wird im kontext nicht erwähnt
            wird in den dokumenten nicht erwähnt|wird im text nicht erwähnt|geht aus … nicht hervor
        """,
    ),
    "fr": _language(
        stop_words="""
            afin ai ainsi alors après as assez au aucun aucune auquel aura auraient aurait auront aussi autant autour
            autre autres aux auxquelles auxquels avaient avait avant avec avez avoir avons ayant beaucoup bien c car ce
            ceci cela celle celles celui cependant certain certaine certaines certains ces cet cette ceux chaque chez ci
            comme comment contre d dans de depuis derrière des deux devait devant doit doivent donc dont du durant dès
            désormais elle elles en encore enfin entre environ es est et eu eux faire fait fois font furent fut hors il
            ils j je jusqu jusque l la laquelle le lequel les lesquelles lesquels leur leurs lors lorsque lui m ma mais
            malgré me mes mieux moi moins mon même mêmes n ne ni nos notre nous on ont ou outre où par parce parfois
            parmi pas pendant peu peut peuvent plus plusieurs plutôt pour pourquoi pourrait puis puisque qu quand que
            quel quelle quelles quelque quelques quels qui quoi quoique s sa sans sauf se selon sera seraient serait
            seront ses si sien sinon soi soient soit sommes son sont sous souvent suis sur t ta tandis tant te tel telle
            telles tels tes toi ton toujours tous tout toute toutes trop très tu un une vers voici voilà vos votre vous
            y étaient était étant étions été êtes être
        """,
        hanging="""
            il elle ils elles ce cet cette ces cela ceci celui celle ceux son sa ses leur leurs ici là ainsi alors aussi
            cependant ensuite toutefois y donc puis
        """,
        declines="""
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
    ),
    "es": _language(
        stop_words="""
            a acerca además ahora ahí al algo alguien alguna algunas alguno algunos algún allí ambas ambos ante antes
            aquel aquella aquellas aquello aquellos aquí así aunque aún bajo bastante bien cada casi como con contra
            cual cuales cualquier cualquiera cuando cuanto cuya cuyas cuyo cuyos cuál cuándo cómo da de debe
            deben debido debía del demás dentro desde después donde dos durante dónde e el ella ellas ello ellos en
            encima entonces entre era eran eres es esa esas ese eso esos esta estaba estaban estado estar estas este
            esto estos está están fin fue fuera fueron gran ha habrá había habían hace hacen hacer hacia han hasta hay
            haya he incluso la las le les lo los luego me mediante mejor menos mi mientras mis misma mismas mismo mismos
            mucha muchas mucho muchos muy más nada nadie ni ninguna ninguno ningún no nos nosotros nuestra nuestras
            nuestro nuestros nunca o os otra otras otro otros para pero poca pocas poco pocos podrá podía por porque
            pueda puede pueden pues que quien quienes quién qué salvo se sea sean según ser será serán si sido siempre
            siendo sin sino sobre solo son su sus sí sólo tal tales también tampoco tan tanto te tener tenía tenían
            tiene tienen toda todas todavía todo todos tras tu tus tú u un una unas uno unos usted ustedes varias varios
            ya yo él
        """,
        hanging="""
            él ella ellos ellas esto esta este estos estas eso esa ese esos esas aquello su sus allí aquí así entonces
            también además después luego
        """,
        declines="""
            no lo sé|no sé la respuesta|no puedo responder|no me es posible responder|no es posible responder
            no se puede responder|no responde a … pregunta|no responden a … pregunta|no responde esta pregunta
            no responden esta pregunta|no contiene la respuesta|no contienen la respuesta|no contiene … información
            no contienen … información|no hay … información sobre|no hay información|no se encontró información
            no se ha encontrado … información|no encontré … información|no he encontrado|no dispongo de … información
            no tengo … información|no hay suficiente información|información insuficiente|contexto no menciona
            contextos no mencionan|documentos no mencionan|documento no menciona|texto no menciona|no se menciona en
            no se mencionan en|no proporciona … información|no proporcionan … información
        """,
    ),
    "it": _language(
        stop_words="""
            a abbia abbiamo ad agli ai al alcun alcuna alcune alcuni alla alle allo allora altra altre altri altro anche
            ancora anzi appena assai avere aveva avevano avuto ben bene c che chi ci ciascun circa ciò coi col
            come con contro cosa così cui d da dagli dai dal dalla dalle dallo degli dei del dell della delle dello
            dentro deve devono di dopo dove due dunque durante e ed egli ella entrambe entrambi era erano essa esse
            essere essi esso fa fare fatto fino fosse fra fu fuori furono già gli ha hai hanno ho i il in infatti infine
            inoltre insieme invece io l la le lei li lo loro lui là ma mai meglio meno mentre mi mia mie miei mio modo
            molta molte molti molto ne negli nei nel nell nella nelle nello nessun nessuna nessuno niente noi non nostra
            nostre nostri nostro né o od ogni ognuno oltre oppure ora ormai per perché perciò però piuttosto più po poi
            poiché possono prima proprio pur pure può qua qual qualche qualcosa qualcuno quale quali quando quanto quasi
            quegli quei quel quella quelle quelli quello questa queste questi questo qui quindi s saranno sarà se
            sebbene secondo sei sempre senza sia siamo siano solo soltanto sono sopra sotto sta stata state stati stato
            stessa stesse stessi stesso su sua sue sugli sui sul sulla sulle sullo suo suoi sé tale tali tanto te ti tra
            tranne tu tua tue tuo tuoi tutta tutte tutti tutto un una uno vi voi vostra vostro è
        """,
        hanging="""
            egli ella esso essa essi esse lui lei loro questo questa questi queste quello quella quelli quelle ciò suo
            sua suoi sue qui lì così quindi inoltre poi tuttavia anche
        """,
        declines="""
            non lo so|non so rispondere|non conosco la risposta|non posso rispondere|non sono in grado di rispondere
            non è possibile rispondere|impossibile rispondere|non risponde alla domanda|non rispondono alla domanda
            non risponde a questa domanda|non rispondono a questa domanda|non contiene la risposta
            non contengono la risposta|non contiene … informazioni|non contengono … informazioni
            non ci sono … informazioni|nessuna informazione|non ho … informazioni|non dispongo di … informazioni
            non ho trovato|informazioni insufficienti|contesto non menziona|documenti non menzionano
            documento non menziona|testo non menziona|non viene menzionato nel|non è menzionato nel
            non è menzionata nel|non fornisce … informazioni|non forniscono … informazioni
        """,
    ),
    "nl": _language(
        stop_words="""
            aan achter af al alle alleen alles als altijd ander andere anderen anders beide ben beneden bij binnen boven
            bovendien buiten daar daarbij daardoor daarin daarmee daarna daarnaast daarom daarop daarover daarvan
            daarvoor dan dat de deze dezelfde die dit doch doen doet door dus echter een eens eerder elk elke en enige
            enkele er eveneens ge geen geweest had hadden heb hebben heeft heel hem hen het hier hierbij hierdoor hij
            hoe hoewel hun ieder iedere iemand iets ik in indien is ja je jij jou jouw jullie kan konden kunnen later
            maar maken me meer meest men met mij mijn minder mocht moest moesten moet moeten mogen na naar naast nadat
            nee niet niets nog nooit nu of om omdat ondanks onder ons onze ook op over pas per sinds slechts
            sommige steeds te tegen ten ter terug terwijl tijdens toch toen tot totdat tussen u uit uw vaak van vanaf
            vanuit veel verder via vol volgens voor vooral voordat waar waarbij waardoor waarin waarmee waarom waarop
            waarvan waarvoor wanneer waren was wat we wel welk welke werd werden wie wij wil worden wordt zal ze zeer
            zelf zich zichzelf zij zijn zo zoals zodat zonder zou zouden zowel zullen
        """,
        hanging="""
            hij zij ze dit deze die dat zijn haar hun daar daarbij daardoor daarin daarmee daarna daarnaast daarom
            daarop daarvan daarvoor er hier hierbij hierdoor dan dus ook toen echter
        """,
        declines="""
            ik weet het niet|weet ik niet|vraag … niet beantwoorden|kan ik niet beantwoorden
            kan … niet worden beantwoord|beantwoorden … vraag niet|beantwoordt … vraag niet|geen antwoord op … vraag
            bevat … geen antwoord|bevatten … geen antwoord|bevat … geen informatie|bevatten … geen informatie
            geen informatie over|geen informatie gevonden|geen informatie hierover|hierover geen informatie
            hierover niets gevonden|niets over gevonden|staat hier niets over|staat hierover niets
            staat daar niets over|niet genoeg informatie|onvoldoende informatie|wordt niet vermeld in
            wordt niet genoemd in|heb ik … geen informatie|ik heb … geen informatie
        """,
    ),
    "pt": _language(
        stop_words="""
            a acerca agora ainda algo algum alguma algumas alguns alguém ali além ambas ambos ante antes ao aos apenas
            após aquela aquelas aquele aqueles aqui aquilo as assim através até bem cada cerca com como conforme contra
            contudo cuja cujas cujo cujos da dado daquela daquele das de dela delas dele deles demais dentro depois
            desde dessa dessas desse desses desta destas deste destes deve devem devido disso disto do dois dos durante
            dá e ela elas ele eles em embora enquanto entanto entre então era eram essa essas esse esses esta estar
            estas estava estavam este estes está estão eu fazer feito ficou foi fora foram fosse haver havia há isso
            isto já la lhe lhes lo logo lá mais mas me mediante meio melhor menos mesma mesmas mesmo mesmos meu meus
            minha minhas muita muitas muito muitos na nada nas nela nele nem nenhum nenhuma nessa nesse nesta neste
            ninguém no nos nossa nossas nosso nossos num numa nunca não nós o onde os ou outra outras outro outros para
            pela pelas pelo pelos perante pode podem poder podia pois por porque portanto porém pouca pouco poucos pôde
            quais qual qualquer quando quanto quase que quem quê se seja sejam sem sempre sendo ser será serão seu seus
            si sido sim sob sobre somente sua suas tais tal também tampouco tanto te tem tendo ter teve tinha tinham
            toda todas todavia todo todos tu tua tudo tão têm um uma umas uns você vocês vos várias vários à às é és
        """,
        hanging="""
            ele ela eles elas isto isso aquilo este esta estes estas esse essa esses essas aquele aquela seu sua seus
            suas aqui ali assim então também além depois porém
        """,
        declines="""
            não sei|não posso responder|não consigo responder|não é possível responder|não responde à pergunta
            não respondem à pergunta|não responde a … pergunta|não respondem a … pergunta|não contém a resposta
            não contêm a resposta|não contém … informações|não contêm … informações|não contém informação
            não contêm informação|não há … informações|não há informação|nenhuma informação|não encontrei
            não foram encontradas informações|não tenho … informações|não tenho informação
            não disponho de … informações|informações insuficientes|informação insuficiente|contexto não menciona
            contextos não mencionam|documentos não mencionam|documento não menciona|texto não menciona
            não é mencionado no|não é mencionada no|não fornece … informações|não fornecem … informações
        """,
    ),
    "pl": _language(
        stop_words="""
            a aby albo ale ani aż bardziej bardzo bez bo bowiem być był była było były będzie będą cały choć ci co coś
            czy czyli czym dla dlaczego dlatego do dopiero dwa gdy gdyby gdyż gdzie go i ich ile im inna inne innego
            innej inny innych innym iż ja jak jaka jaki jakich jakie jako je jeden jedna jednak jedno jednym jego jej
            jemu jest jestem jeszcze jeśli jeżeli już każda każde każdego każdej każdy kiedy kto która które którego
            której któremu który których którym którymi którzy lecz lub ma mają mamy mogą może możliwe można mu musi
            muszą my na nad nam nami nas nasz nasza nasze nawet nic nich nie niego niej nim nimi niż no o obok od one
            oni oraz po pod podczas ponad ponieważ poza przed przede przez przy raz również sam sama się sobie swoich
            swoje swoją swój są ta tak taka taki takich takie także tam te tego tej temu ten też to tu tutaj tych tylko
            tym tymi u w wam was we według wiele wielu więc wobec wraz wszystkich wszystkie wszystkim wszystko z za
            zanim zawsze zaś ze został została zostało zostały żaden żadna żadne że żeby
        """,
        hanging="""
            on ona ono oni one to ten ta ci te jego jej ich tam tu tutaj tak wtedy następnie jednak również także
            dlatego
        """,
        declines="""
            nie wiem|nie mogę odpowiedzieć|nie potrafię odpowiedzieć|nie jestem w stanie odpowiedzieć
            nie można odpowiedzieć|nie da się odpowiedzieć|nie odpowiada na … pytanie|nie odpowiadają na … pytanie
            nie zawiera odpowiedzi|nie zawierają odpowiedzi|nie zawiera … informacji|nie zawierają … informacji
            brak informacji|nie ma … informacji|nie mam … informacji|nie posiadam … informacji|nie znalazłem
            nie znalazłam|nie znaleziono … informacji|nie znaleziono odpowiedzi|niewystarczające informacje
            kontekst nie wspomina|dokumenty nie wspominają|dokument nie wspomina|tekst nie wspomina
        """,
    ),
    "ja": _language(
        stop_words="",
        hanging="""
            これ それ あれ この その あの ここ そこ 彼 また しかし そして なお
        """,
        declines="""
            わかりません|分かりません|お答えできません|答えられません|回答できません|答えることができません|回答することができません|答えることはできません|回答することはできません|質問に答えていません
            情報がありません|情報はありません|情報が見つかりません|情報は見つかりません|回答が見つかりません|記載されていません|記載がありません|記載はありません|言及されていません|情報が不足|情報は含まれていません
            情報が含まれていません|答えは含まれていません|回答は含まれていません
        """,
    ),
    "zh": _language(
        stop_words="",
        hanging="""
            他 她 它 这 這 那 其 此 该 該 因此 但 而 所以 同时
        """,
        declines="""
            我不知道|不知道答案|我不清楚|无法回答|無法回答|不能回答|没有回答这个问题|沒有回答這個問題|没有相关信息|没有相关的信息|沒有相關資訊|沒有相關信息|没有提到|沒有提到|没有提及|沒有提及|未提及|未提到
            没有关于|沒有關於|找不到相关|找不到相關|未找到相关|未找到相關|没有找到相关|沒有找到相關|没有找到答案|沒有找到答案|没有足够的信息|沒有足夠的資訊|信息不足|資訊不足|不包含答案|没有答案|沒有答案
            不包含相关|没有包含相关|沒有包含相關
        """,
    ),
}
"""By ISO 639-1 code. Chinese and Japanese have no stop words: there are no spaces to find words by."""

_NAMES = """
af Afrikaans|am Amharic|ar Arabic|as Assamese|az Azerbaijani|be Belarusian|bg Bulgarian|bn Bengali|bs Bosnian
ca Catalan|cs Czech|cy Welsh|da Danish|de German|el Greek|en English|eo Esperanto|es Spanish|et Estonian
eu Basque|fa Persian|fi Finnish|fr French|ga Irish|gl Galician|gu Gujarati|ha Hausa|he Hebrew|hi Hindi
hr Croatian|hu Hungarian|hy Armenian|id Indonesian|is Icelandic|it Italian|ja Japanese|ka Georgian|kk Kazakh
km Khmer|kn Kannada|ko Korean|ku Kurdish|la Latin|lb Luxembourgish|lo Lao|lt Lithuanian|lv Latvian|mk Macedonian
ml Malayalam|mn Mongolian|mr Marathi|ms Malay|mt Maltese|my Burmese|ne Nepali|nl Dutch|no Norwegian|or Odia
pa Punjabi|pl Polish|ps Pashto|pt Portuguese|ro Romanian|ru Russian|si Sinhala|sk Slovak|sl Slovenian|so Somali
sq Albanian|sr Serbian|sv Swedish|sw Swahili|ta Tamil|te Telugu|th Thai|tl Tagalog|tr Turkish|uk Ukrainian
ur Urdu|uz Uzbek|vi Vietnamese|yo Yoruba|zh Chinese|zu Zulu
"""
NAMES: Mapping[str, str] = {
    code: name
    for code, _, name in (entry.strip().partition(" ") for entry in _NAMES.replace("\n", "|").split("|"))
    if code
}
"""English names by ISO 639-1 code."""
