"""What opens, ends and carries on what is said over several turns: the words of `policies/fact_talk.py`.

A part to play, a text that is announced, what is supposed, what is put right and what is taken back; the questions that
an answer of one word belongs to. English, German, French, Spanish, and the commonest of Chinese and Japanese. Data only.
"""

# ruff: noqa: E501  one question a line
from __future__ import annotations

import re
from typing import Final

_PART: Final = (
    r"(?:patient|doctor|nurse|customer|client|caller|guest|tourist|travell?er|passenger|buyer|seller|shopper|cashier|waiter"
    r"|waitress|receptionist|clerk|agent|candidate|applicant|interviewer|interviewee|recruiter|boss|employee|teacher|student"
    r"|pupil|professor|detective|suspect|witness|police(?:man|woman| officer)?|officer|judge|lawyer|thief|spy|king|queen|prince"
    r"|princess|knight|wizard|witch|dragon|vampire|pirate|captain|sailor|parrot|hero|villain|monster|alien|robot|soldier"
    r"|landlord|tenant|neighbou?r|mother|father|son|daughter|husband|wife|therapist|coach|pharmacist|driver|pilot)"
)
_PART_DE: Final = (
    r"(?:patient(?:in)?|arzt|ärztin|kund(?:e|in)|gast|verkäufer(?:in)?|kellner(?:in)?|chef(?:in)?|bewerber(?:in)?|lehrer(?:in)?"
    r"|schüler(?:in)?|polizist(?:in)?|detektiv(?:in)?|könig(?:in)?|ritter|pirat(?:in)?|drache|vermieter(?:in)?|mieter(?:in)?)"
)
_PART_FR: Final = (
    r"(?:patiente?|médecin|docteur|cliente?|vendeu(?:r|se)|serveu(?:r|se)|recruteu(?:r|se)|candidate?|professeure?|élève"
    r"|polici(?:er|ère)|détective|roi|reine|pirate|chevalier|touriste)"
)
_PART_ES: Final = (
    r"(?:paciente|médic[oa]|doctora?|cliente|vendedora?|camarer[oa]|entrevistadora?|candidat[oa]|profesora?|alumn[oa]"
    r"|policía|detective|rey|reina|pirata|caballero|turista)"
)
# "You are the doctor and I am the patient", either way round: who tells a tutor "I'm a beginner" says what they are.
_BOTH: Final = (
    rf"\b(?:i am|i'm|i'll be|i will be|i play|i'll play)(?: now)? (?:the |a |an |your |captain )?(?:\w+ )?{_PART}\b.{{0,80}}?"
    rf"\byou(?: are|'re|'ll be| will be| play| can be)(?: now)? (?:the |a |an |my )?(?:\w+ )?{_PART}\b"
    rf"|\byou(?: are|'re|'ll be| will be| play| can be)(?: now)? (?:the |a |an |my )?(?:\w+ )?{_PART}\b.{{0,80}}?"
    rf"\b(?:i am|i'm|i'll be|i will be|i play|i'll play)(?: now)? (?:the |a |an |your |captain )?(?:\w+ )?{_PART}\b"
    rf"|\bdu bist (?:jetzt )?(?:der|die|das|ein|eine|mein|meine) {_PART_DE}\b.{{0,80}}?\bich (?:bin|spiele) (?:der|die|den|ein|eine|einen|dein|deine) {_PART_DE}\b"
    rf"|\bich (?:bin|spiele) (?:der|die|den|ein|eine|einen|dein|deine) {_PART_DE}\b.{{0,80}}?\bdu (?:bist|spielst) (?:der|die|den|ein|eine|einen|mein|meine) {_PART_DE}\b"
    rf"|\btu es (?:le |la |l'|un |une |mon |ma )?{_PART_FR}\b.{{0,80}}?\b(?:je suis|moi) (?:le |la |l'|un |une |ton |ta )?{_PART_FR}\b"
    rf"|\bje suis (?:le |la |l'|un |une |ton |ta ){_PART_FR}\b.{{0,80}}?\btu es (?:le |la |l'|un |une |mon |ma ){_PART_FR}\b"
    rf"|\b(?:tú )?eres (?:el |la |un |una |mi )?{_PART_ES}\b.{{0,80}}?\byo (?:soy|seré) (?:el |la |un |una |tu )?{_PART_ES}\b"
    rf"|\byo (?:soy|seré) (?:el |la |un |una |tu )?{_PART_ES}\b.{{0,80}}?\btú (?:eres|serás) (?:el |la |un |una |mi )?{_PART_ES}\b"
    r"|你(?:是|当|當|演|扮演)[^，。！？\n]{1,10}[，,。 ]?我(?:来|來)?(?:当|當|演|扮演)|我(?:来|來)?(?:当|當|演|扮演)[^，。！？\n]{1,10}[，,。 ]?你(?:来|來)?(?:是|当|當|演|扮演)"
)
PLAYS: Final = re.compile(
    r"(?:\blet'?s|\bcan we|\bcould we|\bshall we|\bwe could|\bi(?:'d| would) like to|\bi want to|\bwanna|\bwant to|\bstart(?: an?| the)?"
    r"|\bdo an?|^\W*(?:please )?|\bin this) (?:please )?role[- ]?play(?:ing)?\b(?! games?\b)"
    r"|\blet'?s (?:play|act)(?=\W{0,3}\b(?:i am|i'm|you are|you're|i'll be|you'll be)\b|[:.!\n]"
    rf"|(?: out)? (?:a (?:scene|situation|part|role)|pretend|make-believe|this scene|{_PART}s?\b))"
    r"|\blet'?s (?:pretend|make believe)\b|^\W*pretend (?:that )?(?:i'm|i am) (?!you\b)"
    r"|\blet'?s (?:write|tell|make up|improvise) an? (?:\w+ )?(?:story|tale|adventure|scene) together\b"
    r"|\b(?:i'll|i will|let me) play (?:the (?:part|role) of|an? |the )(?!games?\b|guitar\b|piano\b)"
    r"|\brollenspiel\b(?=.{0,60}\b(?:du|ich|wir)\b)|\blass uns (?:mal )?(?:ein rollenspiel|so tun|spielen,|theater spielen)"
    r"|\b(?:on joue|jouons|faisons)\b.{0,12}\b(?:jeu de rôle|à faire semblant|une scène)|\bfaisons semblant\b"
    r"|\b(?:juguemos|hagamos|vamos a (?:jugar|hacer))\b.{0,12}\b(?:juego de rol|una escena|a que)\b|\bjuego de rol\b(?=.{0,60}\b(?:tú|yo|eres|soy)\b)"
    r"|角色扮演|ロールプレイ(?:を|し)|ごっこをしよう"
    rf"|{_BOTH}",
    re.IGNORECASE,
)
# Without one of these nothing of that is said.
OF_PLAYING: Final = (
    "role", "play", "pretend", "believe", "let's act", "lets act", "story", "tale", "adventure", "scene", "you are", "you're", "you'll", "you will",
    "you can be", "rollenspiel", "lass uns", "du bist", "du spielst", "jou", "faisons", "tu es", "jug", "juego de rol", "hagamos", "vamos", "eres", "serás",
    "扮演", "演", "当", "當", "ロールプレイ", "ごっこ",
)  # fmt: skip
OF_ANNOUNCING: Final = (
    "paste", "copy", "send", "post", "forward", "share", "drop", "show", "give", "comes", "coming", "next message", "follows", "schicke",
    "kopiere", "füge", "leite", "sende", "kommt", "folgt", "colle", "copie", "envoie", "transfère", "pego", "copio", "paso", "mando",
    "envío", "发", "發", "贴", "貼", "转", "轉", "送", "コピー",
)  # fmt: skip
OF_DENYING: Final = (" not ", "n't ", "nicht", " pas ", "sondern")
# "In real life I am a nurse": that is so, and the play goes on.
ASIDE: Final = re.compile(
    r"\b(?:in real life|irl|out of character|ooc|in reality|the real me|im (?:echten|wirklichen) leben|in wirklichkeit|in echt"
    r"|dans la vraie vie|en vrai|en réalité|en la vida real|en realidad|de verdad)\b|现实中|現實中|实际上|實際上|現実では|実際は",
    re.IGNORECASE,
)
ENDS_PLAY: Final = re.compile(
    r"\b(?:end|stop|finish|exit|leave|quit|close)(?:s|ed|ing)?(?: of| with)?(?: the| this| our| my| this little)?"
    r" (?:role[- ]?play(?:ing)?|game|scene|play(?:ing)?|story|act(?:ing)?|character|simulation|practi[cs]e)\b"
    r"|\b(?:let'?s|we can|can we|i want to|please|ok(?:ay)?|time to) (?:stop|end it)(?: (?:here|now|there|it|this|playing|please))*(?=[\s.,;!?]|$)"
    r"|\b(?:no more role[- ]?play|role[- ]?play(?: is)? over|game over|back to (?:reality|normal|real life)|curtain|enough (?:playing|role[- ]?play))\b"
    r"|\bthanks? (?:you )?for (?:playing|the (?:game|role[- ]?play|scene|practi[cs]e|story))\b|\bthat was (?:fun|a good (?:game|role[- ]?play))\b"
    r"|\b(?:rollenspiel|spiel|szene)\b.{0,12}\b(?:ende|vorbei|beenden|aus)\b|\b(?:ende|schluss)\b.{0,12}\b(?:rollenspiels?|spiels?|spiel|szene)\b|\b(?:lass uns|wir können) (?:jetzt )?(?:aufhören|stoppen)\b"
    r"|\bfin (?:du|de la) (?:jeu|scène)|\b(?:on arrête|arrêtons)\b(?: (?:là|ici|le jeu))?|\bfin (?:del?|de la) (?:juego|escena|rol)|\b(?:paremos|terminemos|dejemos)\b(?: (?:aquí|ya|el juego|de jugar))?"
    r"|(?:游戏|遊戲|扮演|表演)(?:结束|結束)|(?:ロールプレイ|ごっこ)(?:は|を)?(?:終わり|やめ)",
    re.IGNORECASE,
)

_TEXT: Final = (
    r"(?:e-?mails?|mails?|letters?|messages?|texts?|articles?|transcripts?|chats?|conversations?|contracts?|documents?|reviews?"
    r"|posts?|notes?|stor(?:y|ies)|drafts?|essays?|bios?|cvs?|resumes?|poems?|paragraphs?|chapters?|complaints?|tickets?|thread|logs?)"
)
ANNOUNCES: Final = re.compile(
    r"\b(?:i'll|i will|i'm (?:going|about) to|im gonna|i'm gonna|let me|i am going to|gonna) (?:now |just |quickly )?(?:(?:copy[- ]?(?:and[- ]?)?paste|paste|copy)\b|(?:post|send|forward|share|drop|show|give) you\b|(?:post|drop|share)\b(?=[^.!?\n]{{0,50}}\b(?:here|below|with you)\b))"
    rf"[^.!?\n]{{0,40}}\b{_TEXT}\b"
    r"|\b(?:i'll|i will|i'm going to|let me) (?:now |just )?(?:copy[- ]?(?:and[- ]?)?paste|paste) (?:it|them|that|this)\b"
    rf"|\b(?:here comes|here it comes|next comes|coming (?:up )?next|(?:in|with|as) (?:my|the) next message)\b(?=.{{0,60}}\b{_TEXT}\b|\W*\Z)|\b{_TEXT}\b[^.!?\n]{{0,40}}\b(?:comes|follows|coming) (?:next|now|below)\b"
    r"|\bich (?:schicke|kopiere|füge|poste|leite|sende)\b[^.!?\n]{0,40}\b(?:e-?mails?|mails?|texte?|nachricht(?:en)?|brief|artikel|vertrag|chat|protokoll)\b|\b(?:hier|gleich|jetzt) (?:kommt|folgt)\b[^.!?\n]{0,30}\b(?:mail|text|nachricht|brief|artikel|vertrag|chat)\b"
    r"|\bje (?:te |vous )?(?:colle|copie|envoie|transfère)\b[^.!?\n]{0,40}\b(?:mail|e-?mail|texte|lettre|message|article|contrat)\b"
    r"|\b(?:te|le|os) (?:pego|copio|paso|mando|envío|reenvío)\b[^.!?\n]{0,40}\b(?:correo|e-?mail|mail|texto|carta|mensaje|artículo|contrato)\b"
    r"|(?:我|下面)[^。！？\n]{0,12}(?:发|發|贴|貼|粘贴|轉發|转发)[^。！？\n]{0,10}(?:邮件|郵件|信|文章|短信|消息|讯息|文字|聊天记录|合同|文本)"
    r"|(?:メール|文章|手紙|記事|メッセージ|テキスト|契約書)を[^。！？\n]{0,8}(?:貼り|貼る|送り|送る|コピー)",
    re.IGNORECASE,
)
ASKS_FOR_TEXT: Final = re.compile(
    rf"\b(?:paste|copy)\b[^.!?\n]{{0,20}}\b(?:the|your|that|this|his|her|their)\b[^.!?\n]{{0,20}}\b{_TEXT}\b"
    r"|\b(?:share|send|provide|post|forward)(?: me)? (?:the|your|that|his|her|their) (?:full |exact |original )?(?:text|e-?mail|mail|letter|message"
    r"|article|transcript|chat)(?! with)\b"
    r"|\b(?:schick|schicken|füge|fügen|kopier\w*|teile|teilen)\b[^.!?\n]{0,40}\b(?:mail|text|nachricht|brief|artikel|vertrag)\b",
    re.IGNORECASE,
)

SUPPOSES: Final = re.compile(
    r"(?:^|[.!?\n…] *|[,:] *)(?:(?:ok(?:ay)?|so|and|now|but|well|hm+)[, ]+){0,2}"
    r"(?:(?P<case>(?:let'?s|lets) (?:say|assume|imagine|suppose|pretend)|(?:let me )?suppose|supposing|imagine|assum(?:e|ing)|hypothetically)"
    r"|say i\b|what if|if i (?:were|was|had|moved|lived|earned|got|could|would|took|bought|became|worked|owned)\b"
    r"|angenommen|nehmen wir (?:mal )?an|stell(?:en)? (?:dir|sie sich) (?:mal )?vor|was wäre,? wenn|wenn ich\b.{0,60}\b(?:würde|wäre|hätte|könnte)\b"
    r"|supposons|imagin(?:ons|e|ez)|admettons|disons|et si\b|si j'(?:étais|avais|habitais|gagnais)"
    r"|supongamos|imagin(?:a|emos)|digamos|y si\b|si (?:yo )?(?:fuera|tuviera|viviera|ganara))"
    r"|^\W*(?:假设|假設|如果|假如|想象|もし|仮に|例えば)",
    re.IGNORECASE,
)
GOES_ON: Final = re.compile(
    r"\W*(?:(?:ok(?:ay)?|cool|right|hm+|thanks|great|well)[,. ]+)?(?:and|also|plus|then|so|but|or|in that case|additionally|now (?:add|say|suppose|imagine)|what if|same but"
    r"|und|dann|außerdem|oder|et|puis|alors|mais|ou|y|luego|entonces|además|pero)\b|\W*(?:而且|然后|那|还有|另外|そして|それで|あと|さらに)",
    re.IGNORECASE,
)
REALLY: Final = re.compile(
    r"\b(?:in reality|in (?:actual )?fact|in real life|irl|actually|really|right now|at the moment|currently|for real|as of now|today"
    r"|tatsächlich|in wirklichkeit|eigentlich|derzeit|momentan|en réalité|en fait|actuellement|pour le moment"
    r"|en realidad|de verdad|actualmente|ahora mismo)\b|其实|其實|实际上|實際上|现实中|実際は|本当は|今は",
    re.IGNORECASE,
)

STRONG: Final = (
    r"(?:sorry|oops|ups|correction|my (?:bad|mistake|fault)|(?:what )?i (?:mean|meant)(?: to (?:say|write))?|i should have said|make that"
    r"|or rather|rather|wait|hang on|hold on|scratch that|typo|i misspoke|i was wrong|i mistyped|entschuldigung|verzeihung|ich mein(?:e|te)|korrektur|quatsch"
    r"|moment|besser gesagt|vertippt|pardon|désolée?|je voulais dire|je veux dire|enfin|plutôt|erratum|perdón|perdona|quise decir"
    r"|quería decir|quiero decir|digo|mejor dicho|corrección|me equivoqué)"
)
WEAK: Final = r"(?:no|nope|not|actually|nein|doch|eigentlich|non|en fait|en realidad|well|oh|ah|ach|hmm*|uh|ok(?:ay)?|yes|and|but|so|please|und|aber|et|mais|y|pero|bitte|thx|thanks|cool)"
_OPENERS: Final = rf"\W*(?P<openers>(?:(?:{STRONG}|{WEAK})(?:[\s,:.!…–-]+|$))*)"
_LINKS: Final = (
    r"(?:(?:it's|its|it is|it was|that's|it should be|should be|es ist|das ist|c'est|es|ist|was)[ ](?:actually |really )?)?"
    r"(?:(?:spelled|spelt|written|called) )?"
)
_OF: Final = r"(?:(?:the|my|our|that|der|die|das|mein|meine) (?P<of>[\w' -]{2,30}?) (?:is|was|should be|ist|war) (?:actually |really )?)?"
_NOT_BUT: Final = (
    r"(?:(?:(?:ich|i|je|yo) [\w' ]{2,20}? |vivo |trabajo )?(?:not|n't|nicht|pas|no) (?:(?:on|in|at|am|im|bei|à|a|en|chez) )?"
    r"(?P<wrong>[^,;.!?\n]{1,40}?)(?:,? (?:but|sondern|mais|sino)|,) )?"
)
_PREPOSITION: Final = r"(?:(?P<at>on|in|at|to|from|for|by|about|am|um|bei|nach|à|a|en|chez)[ ])?(?:(?:the|der|die|das|dem|den|le|la|el)[ ])?"
CORRECTS: Final = re.compile(
    rf"{_OPENERS}{_NOT_BUT}{_OF}(?P<link>{_LINKS}){_PREPOSITION}(?P<right>[^,;:.!?\n()]{{1,40}}?(?:[.,]\d+)*)"
    r"(?P<behind>(?:,? (?:and )?not (?P<wrong2>[^,;.!?\n]{1,40}))?(?:[,;:.!?\n(].{0,160})?)",
    re.IGNORECASE | re.DOTALL,
)
MAY_CORRECT: Final = re.compile(
    rf"\W*(?:{STRONG}|{WEAK}|it's|its|it is|it was|that's|(?:it )?should be|es ist|das ist|c'est|es|ist|was|spelled|spelt|written|called"
    r"|not|vivo|trabajo|啊|哦|不对|不對|不是|说错|說錯|我说错|我說錯|我是说|我是說|我的意思|应该|應該|抱歉|对不起|對不起|更正|あ|いや|すみません|ごめん|間違え|訂正|失礼)",
    re.IGNORECASE,
)
CORRECTS_CJK: Final = re.compile(
    r"\s*(?:(?:啊|哦|不对|不對|不是|说错了|說錯了|我说错了|我說錯了|我是说|我是說|我的意思是|应该是|應該是|抱歉|对不起|對不起|更正)[，,：:。 ]*)+(?:是)?(?P<zh>[\u4e00-\u9fff]{2,8}|\d{1,2}月\d{1,2}[日号號])[。！!]?"
    r"|\s*(?:(?:あ|いや|すみません|ごめんなさい|ごめん|間違えました|間違えた|訂正(?:します)?|失礼)[、,：:。 ]*)+(?P<ja>[^\s、。はがを]{1,10}?)(?:です|でした|だった|の間違い(?:です|でした)?)[。！!]?"
)
TAKES_BACK: Final = re.compile(
    r"\W*(?:(?:oh|ok(?:ay)?|no|actually|please|sorry|wait|haha|lol|well|and)[,. !]+){0,3}(?:"
    r"(?P<joke>(?:i was |i'm |i am |no,? )?(?:just |only )?(?:kidding|joking)|that was (?:just |only )?a (?:joke|lie|test)|jk"
    r"|(?:that|it) (?:was|is)(?:n't| not) (?:true|real|so)|i (?:lied|made (?:that|it) up)|none of (?:that|it) (?:is|was) true"
    r"|(?:das )?war (?:nur |bloß )?(?:ein |'n )?(?:scherz|spaß|spass|witz|test)|c'était (?:juste )?une (?:blague|plaisanterie)|je (?:plaisante|rigole|plaisantais)"
    r"|(?:es|era) (?:una )?broma|estaba bromeando|开玩笑的?|開玩笑的?|冗談(?:です|だよ)?|嘘です)"
    r"|(?P<words>(?:forget|ignore|disregard|delete|scratch|drop|strike|don't (?:remember|save|store|keep))(?: about)?"
    r" (?:what i (?:just )?(?:said|told you|wrote|mentioned)|everything i (?:just )?(?:said|told you)|my last message|the last (?:thing|message)(?: i (?:said|wrote))?)"
    r"|vergiss(?: bitte)?,? was ich (?:gerade |eben |dir )*(?:gesagt|geschrieben|erzählt) habe|oublie ce que (?:je viens de dire|j'ai dit)|olvida lo que (?:te )?(?:dije|he dicho|acabo de decir)"
    r"|(?:忘了|忘掉|别记|別記)(?:我)?(?:刚才|剛才|刚刚)(?:说|說)的话?|(?:さっき|今)(?:言った|の)(?:こと|話)?は忘れて(?:ください)?)(?: about (?P<about>[^.!?\n,]{2,40}))?"
    r"|(?:forget|scrap|scratch|drop|ignore|skip|never ?mind)(?: about)? (?:the|my|that|those) (?P<thing>[\w' -]{2,40}?) (?:thing|part|bit|rule|stuff|request|instruction|preference|requirement)s?"
    r"|(?P<that>(?:forget|scratch|delete|disregard|strike) (?:that|this|it)(?: please| again)?|vergiss das(?: bitte)?(?: wieder)?|oublie ça|olvida eso|olvídalo|忘了吧|忘れてください)"
    r")(?=[\s.,;!)。！、，]|$)",
    re.IGNORECASE,
)
# Behind a "forget that" that is meant of what was said, and not of what was asked for.
NO_MORE: Final = re.compile(
    r"[\s.,!)…]*(?:\Z|(?:please|bitte|sorry|thanks?|it'?s|that'?s|that is|it is|this is|i was|i'm|i shouldn't|das ist|c'est|es)\b|[。！])",
    re.IGNORECASE,
)

_DO_YOU: Final = r"(?:do you|are you)(?: currently| now)?"
_Q: Final = (
    (rf"\bwhere {_DO_YOU} (?:live|living|based|located)\b|\b(?:which|what) (?:city|town|country|area|place|part of \w+) (?:do you live in|are you (?:based|located|living) in)", "I live in {a}.", "lives_in"),
    (r"\bwhere (?:are you|do you come) (?:originally )?from\b", "I am from {a}.", "comes_from"),
    (r"\bwhere (?:did you grow up)\b", "I grew up in {a}.", "grew_up_in"),
    (r"\bwhere do you work\b|\b(?:who|which company|what company) do you work (?:for|at)\b", "I work at {a}.", "works_at"),
    (r"\bwhat(?:'s| is) your (?:first |full )?name\b|\bwhat (?:should|can|may|do) i call you\b|\bhow (?:should|can|may) i (?:call|address) you\b|\bwho am i (?:talking|speaking) (?:to|with)\b", "My name is {a}.", "name"),
    (r"\bhow old are you\b|\bwhat(?:'s| is) your age\b", "I am {a} years old.", "age"),
    (r"\bwhat do you do for (?:a living|work)\b|\bwhat(?:'s| is) your (?:job|profession|occupation)\b", "I work as a {a}.", "job"),
    (r"\b(?:do you have|have you(?: got)?|are there|any) (?:any )?(?:known |food )?allergies\b|\bwhat are you allergic to\b|\bare you allergic to (?:anything|something|any\b)", "I am allergic to {a}.", "allergic_to"),
    (r"\b(?:do you (?:have|follow)|any|are there)(?: any)? (?:dietary (?:restrictions?|preferences?|requirements?|needs)|diet|special diet)\b", "I am {a}.", "status"),
    (r"\bwhat(?:'s| is) your (?P<k>budget|rent|salary|weight|height)\b", "My {k} is {a}.", "budget rent salary weight height"),
    (r"\bwhat(?:'s| is| are) your favou?rite (?P<k>[a-z]+(?: [a-z]+)?)\b", "My favourite {k} is {a}.", "favourite_*"),
    (r"\bwhat(?:'s| is) (?:the name of )?your (?P<k>dog|cat|wife|husband|son|daughter|brother|sister|partner|boss|pet)(?:'s name| called)?\b(?=.{0,12}\b(?:name|called)|\W*\Z)", "My {k}'s name is {a}.", "*_name"),
    (r"\bwhen(?:'s| is) your birthday\b|\bwhat(?:'s| is) your (?:birthday|date of birth)\b", "My birthday is {a}.", "birthday"),
    (r"\bwhat (?:do you (?:like|enjoy|love)(?: to do| doing)?|are your (?:hobbies|interests))\b", "I like {a}.", "likes"),
    (r"\bwh(?:at|ich) languages? do you speak\b", "I speak {a}.", "speaks"),
    (r"\bwhere does your (?P<k>mother|mum|mom|father|dad|sister|brother|son|daughter|wife|husband|boyfriend|girlfriend|friend|cousin|aunt|uncle) live\b", "My {k} lives in {a}.", "*_lives_in"),
    (r"\bwo (?:wohnst du|wohnen sie|lebst du|leben sie)\b", "Ich wohne in {a}.", "lives_in"),
    (r"\bwie (?:heißt du|heißen sie|ist (?:dein|ihr) name)\b", "Ich heiße {a}.", "name"),
    (r"\bwie alt (?:bist du|sind sie)\b", "I am {a} years old.", "age"),
    (r"\bwo (?:arbeitest du|arbeiten sie)\b", "Ich arbeite bei {a}.", "works_at"),
    (r"\b(?:hast du|haben sie)(?: \w+){0,2} allergien\b|\bwogegen (?:bist du|sind sie) allergisch\b", "Ich bin allergisch gegen {a}.", "allergic_to"),
    (r"\bwas (?:magst du|mögen sie)\b|\bwas sind (?:deine|ihre) hobbys\b", "Ich mag {a}.", "likes"),
    (r"\boù (?:habites-tu|habitez-vous|vis-tu|vivez-vous|est-ce que (?:tu habites|vous habitez))\b|\b(?:tu habites|vous habitez) où\b", "J'habite à {a}.", "lives_in"),
    (r"\bcomment (?:t'appelles-tu|vous appelez-vous|tu t'appelles)\b|\bquel est (?:ton|votre) (?:nom|prénom)\b", "Je m'appelle {a}.", "name"),
    (r"\b(?:dónde|donde) (?:vives|vive)\b", "Vivo en {a}.", "lives_in"),
    (r"\b(?:cómo|como) (?:te llamas|se llama)\b|\bcuál es (?:tu|su) nombre\b", "Me llamo {a}.", "name"),
    (r"(?:tienes|tiene|alguna) (?:alguna |alguna )?alergias?\b", "Soy alérgico a {a}.", "allergic_to"),
    (r"\b(?:as-tu|avez-vous|des) (?:des )?allergies\b", "Je suis allergique à {a}.", "allergic_to"),
    (r"你(?:现在|現在)?(?:住在?|在)(?:哪里|哪裡|哪儿|哪兒|哪个城市)", "我住在{a}。", "lives_in"),
    (r"你叫(?:什么|什麼)(?:名字)?|怎么称呼你?|怎麼稱呼你?|你的名字(?:是|叫)什么", "我叫{a}。", "name"),
    (r"(?:どこ|どちら)に(?:お住まい|住んで)", "{a}に住んでいます。", "lives_in"),
    (r"(?:お?名前は(?:何|なん)|お名前(?:を教えて|は[?？]))", "名前は{a}です。", "name"),
)  # fmt: skip
QUESTIONS: Final = tuple(
    (re.compile(asks, re.IGNORECASE), says, tuple(predicates.split())) for asks, says, predicates in _Q
)
"""What is asked, the sentence that an answer is half of, and what that may tell."""
ANSWERS_WITH: Final = re.compile(
    r"\W*(?:(?:yes|yeah|yep|sure|ja|oui|sí|si|well|um+|uh+|oh|hm+|ok(?:ay)?|currently|right now|mainly|mostly|just|only|near|now|i guess|thanks|please|gern(?:e)?)\b[,. !]*)*"
    r"(?:(?:it's|its|it is|i'm|i am|in|at|from|to|on|bei|aus|à|en|de|gegen|against|a las?|a los|aux?|al|a|an|as an?)\s+)?",
    re.IGNORECASE,
)
ANSWER_ENDS: Final = re.compile(r"(?:です|だよ?|といいます|と言います|と申します)?[\s.!。！)]*\Z")
NO_ANSWER: Final = re.compile(
    r"\b(?:no|not|nope|none|nothing|never|nowhere|n't|don't|do|does|idk|dunno|rather|maybe|perhaps|depends?|why|what|who|where|how|which|you|your|both|either|any\w*|same|it"
    r"|this|that|there|here|guess|secret|same|whatever|everything|all|various|different|many|is|are|was|will|can|my|me|i|he|she|they|we|if|because|but"
    r"|nein|keine?n?|nichts|nicht|weiß|egal|non|aucune?|rien|pas|ninguna?|ningún|nada|sin)\b|[?？]|没有|沒有|不|秘密|ない|いいえ|特に",
    re.IGNORECASE,
)
