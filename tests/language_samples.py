"""Sentences and paragraphs of many languages, written for the tests, and texts that are in none."""

SENTENCES = {
    "en": ["The river floods every spring when the snow in the mountains begins to melt."],
    "de": [
        "Der Fluss tritt jedes Frühjahr über die Ufer, wenn in den Bergen der Schnee schmilzt.",
        "Wer krank wird, muss seinem Vorgesetzten vor neun Uhr morgens Bescheid geben.",
    ],
    "fr": [
        "La rivière déborde chaque printemps, quand la neige commence à fondre dans les montagnes.",
        "Les employés malades doivent prévenir leur responsable avant neuf heures du matin.",
    ],
    "es": [
        "El río se desborda cada primavera, cuando la nieve de las montañas empieza a derretirse.",
        "Los empleados enfermos deben avisar a su jefe antes de las nueve de la mañana.",
    ],
    "it": [
        "Il fiume straripa ogni primavera, quando la neve sulle montagne comincia a sciogliersi.",
        "I dipendenti malati devono avvisare il loro responsabile prima delle nove del mattino.",
    ],
    "nl": [
        "De rivier treedt elk voorjaar buiten haar oevers wanneer de sneeuw in de bergen smelt.",
        "Werknemers die ziek worden, moeten dat voor negen uur 's ochtends aan hun chef melden.",
    ],
    "pt": [
        "O rio transborda todas as primaveras, quando a neve das montanhas começa a derreter.",
        "Os funcionários doentes devem avisar o seu chefe antes das nove horas da manhã.",
    ],
    "pl": [
        "Rzeka wylewa każdej wiosny, kiedy w górach zaczyna topnieć śnieg.",
        "Pracownicy, którzy zachorują, muszą powiadomić przełożonego przed dziewiątą rano.",
    ],
    "ru": [
        "Река разливается каждую весну, когда в горах начинает таять снег.",
        "Заболевшие сотрудники должны сообщить начальнику до девяти часов утра.",
    ],
    "sv": ["Anställda som blir sjuka måste meddela sin chef före klockan nio på morgonen."],
    "no": ["Ansatte som blir syke, må gi beskjed til sjefen sin før klokken ni om morgenen."],
    "da": ["Medarbejdere, der bliver syge, skal give deres chef besked inden klokken ni om morgenen."],
    "fi": ["Sairastuneiden työntekijöiden on ilmoitettava esimiehelleen ennen aamuyhdeksää."],
    "cs": ["Zaměstnanci, kteří onemocní, to musí oznámit nadřízenému do devíti hodin ráno."],
    "tr": ["Hastalanan çalışanlar sabah dokuzdan önce yöneticilerine haber vermelidir."],
    "uk": ["Річка розливається щовесни, коли в горах починає танути сніг."],
    "el": ["Το ποτάμι πλημμυρίζει κάθε άνοιξη, όταν το χιόνι στα βουνά αρχίζει να λιώνει."],
    "he": ["הנהר עולה על גדותיו בכל אביב כאשר השלג בהרים מתחיל להפשיר."],
    "ja": [
        "山の雪が解け始める春になると、この川は毎年あふれます。",
        "病気になった社員は、朝九時までに上司に連絡しなければなりません。",
    ],
    "zh": [
        "每年春天，山上的雪开始融化时，这条河就会泛滥。",
        "生病的员工必须在早上九点之前通知自己的主管。",
        "每年春天，山上的雪開始融化時，這條河就會氾濫成災。",
    ],
    "ko": ["산의 눈이 녹기 시작하는 봄이면 강이 해마다 넘칩니다."],
    "th": ["ทุกฤดูใบไม้ผลิเมื่อหิมะบนภูเขาเริ่มละลาย แม่น้ำจะล้นตลิ่ง"],
    "ar": [
        "يفيض النهر كل ربيع عندما يبدأ الثلج في الجبال بالذوبان.",
        "يجب على الموظفين المرضى إبلاغ مديرهم قبل الساعة التاسعة صباحا.",
    ],
    "hi": [
        "हर वसंत में जब पहाड़ों की बर्फ पिघलने लगती है तो नदी में बाढ़ आ जाती है।",
        "बीमार कर्मचारियों को सुबह नौ बजे से पहले अपने प्रबंधक को बताना होगा।",
    ],
}
"""By ISO 639-1 code."""

PARAGRAPHS = {
    "de": "Die alte Brücke\nDie Brücke über den Fluss wurde im Jahr 1837 nach Plänen von Johann Friedrich Weber "
    "gebaut. Im Winter 1929 beschädigte ein Eisgang z. B. zwei der Pfeiler so schwer, dass der Verkehr ruhen musste. "
    "Die Stadtverwaltung erhebt seit der Sanierung eine Maut von 2,50 Euro für Lastwagen.",
    "fr": "Le pont sur la rivière a été construit en 1837 d'après les plans de Jean-Baptiste Moreau. L'ouvrage mesure "
    "212 mètres et repose sur sept piles de grès.",
    "es": "El puente sobre el río fue construido en 1837 según los planos de Juan Manuel Herrera. La obra mide 212 "
    "metros y descansa sobre siete pilares de arenisca.",
    "it": "Il ponte sul fiume fu costruito nel 1837 su progetto di Giovanni Battista Rossi. L'opera misura 212 metri "
    "e poggia su sette piloni di arenaria.",
    "nl": "De brug over de rivier werd in 1837 gebouwd naar een ontwerp van Pieter van den Berg. Het bouwwerk is 212 "
    "meter lang en rust op zeven pijlers van zandsteen.",
    "pt": "A ponte sobre o rio foi construída em 1837 segundo o projeto de João Almeida Costa. A obra mede 212 metros "
    "e assenta em sete pilares de arenito.",
    "pl": "Most nad rzeką zbudowano w 1837 roku według projektu Jana Kazimierza Nowaka. Budowla ma 212 metrów "
    "długości i opiera się na siedmiu filarach z piaskowca.",
    "ru": "Мост через реку построили в 1837 году по проекту Ивана Петровича Смирнова. Сооружение имеет длину 212 "
    "метров и опирается на семь опор из песчаника.",
    "ja": "古い橋\n川に架かる橋は1837年に田中吉右衛門の設計によって建設されました。全長は212メートルで、砂岩で"
    "できた七本の橋脚に支えられています。1929年の冬には流氷が橋脚を激しく損傷させ、八か月にわたって交通が止まりました。",
    "zh": "古桥\n河上的这座桥建于1837年，由工程师李文华设计。桥长212米，由七个砂岩桥墩支撑。1929年冬天，浮冰严重"
    "损坏了两个桥墩，交通因此中断了八个月。改建完成以后，市政府向卡车收取“过桥费”。",
    "ko": "강 위의 다리는 1837년에 김영수의 설계에 따라 지어졌습니다. 다리의 길이는 212미터이며 사암으로 만든 일곱 "
    "개의 교각이 받치고 있습니다.",
    "ar": "بني الجسر فوق النهر سنة 1837 وفق مخططات المهندس يوسف الحداد. يبلغ طول الجسر 212 مترا ويرتكز على سبعة أعمدة "
    "من الحجر الرملي.",
    "hi": "नदी पर बना पुल 1837 में रामनाथ शर्मा की योजना के अनुसार बनाया गया था। पुल की लंबाई 212 मीटर है और यह बलुआ "
    "पत्थर के सात खंभों पर टिका है।",
    "th": "สะพานเก่า\nสะพานข้ามแม่น้ำสร้างขึ้นในปี 1837 ตามแบบของวิศวกรชื่อสมชาย ใจดี สะพานยาว 212 เมตร และตั้งอยู่บนเสาหินทรายเจ็ดต้น",
}
"""A few sentences about a bridge, by ISO 639-1 code."""

NO_LANGUAGE = {
    "empty": "",
    "short": "Der Turm",
    "code": "import os\n\ndef main(path, *names):\n    return [os.path.join(path, n) for n in names if n != 'x']\n",
    "json": '{"name": "main", "values": [1, 2, 3], "nested": {"left": null, "right": true}}',
    "table": "| Jahr | Umsatz | Gewinn |\n|---|---|---|\n" + "| 2019 | 12.500 | 1.320 |\n" * 12,
    "numbers": "12 044, 13 551, 9 870 und 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18",
    "noise": "xqzv kjhg fdsa poiu wqmn bvcx zlkj hgfd qwrt",
    "marks": "*** --- *** ??? !!! ### ...",
}
