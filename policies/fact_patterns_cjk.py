"""What people say of themselves in Chinese and Japanese: a sentence of covered text in, findings out.

No blanks part the words of these languages, so nothing is searched for: a clause is a fact only where a rule matches
the whole of it, from its "我" or "私は" (or, as these languages say it, without one) to its end. A sentence that
supposes, reports or asks gives nothing; of one that ends with a question only what stands before the question counts.
Every run of characters is bounded. Pure; refuses nothing.
"""

# ruff: noqa: E501  one rule a line
from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from policies.fact_patterns_words import as_object
from policies.fact_rule import Rule, Told, told_by

_CJK: Final = re.compile("[\u3040-\u30ff\u3400-\u9fff]")
_KANA: Final = re.compile("[\u3040-\u30ff]")
_CLAUSE: Final = re.compile(r"[^，,；;。！!？?\n]+")
_JA_CLAUSE: Final = re.compile(r"[^、，,；;。！!？?\n]+")
# Somebody's words: what stands in them is said by nobody here.
_QUOTED: Final = re.compile(r"[「『《][^」』》\n]{1,300}[」』》]")
# Supposed, wished for, or said by another: all behind it, in the same sentence.
_UNREAL: Final = re.compile(
    r"如果|假如|假设|假設|要是|倘若|万一|萬一|想象|想像|梦见|夢見|梦到|夢到|据说|據說|听说|聽說|好像|可能|也许|也許|大概|比如|例如|小说|小說|扮演"
    r"|(?:说|說|告诉我|告訴我|问|問|写道|寫道|回答|认为|認為|以为|以為)[，,：:]"
    r"|もし|仮に|例えば|たとえば|らしい|小説|物語|夢の中|だったら|と仮定"
)
_ASKED: Final = re.compile(r"[?？]\W*\Z")
_ASKS: Final = re.compile(
    r"[吗嗎呢么麼吧]\W*\Z|什么|什麼|哪|谁|誰|怎么|怎麼|怎样|多少|几岁|幾歲|是不是|有没有|有沒有|能不能|可不可以|对不对|為什麼|为什么"
    r"|でしょうか|ですか|ますか|ませんか|何|なに|どこ|だれ|誰|いつ(?!も)|どう(?:です|し|思)"
)
_TAG: Final = re.compile(
    r"\s*(?:对吗|對嗎|是吗|是嗎|对吧|對吧|对不对|是不是|没错吧|好吗|ですよね|だよね|よね|でしょう?)\W*"
)

_LEAD: Final = (
    r"(?:(?:你好|您好|嗨|哈喽|对了|對了|另外|顺便说一下|順便說一下|而且|但是|但|不过|不過|因为|因為|所以|然后|其实|其實|好的|嗯|是的|请你?(?:帮我)?记住"
    r"|請你?(?:幫我)?記住|(?:请|請)?(?:记得|記得)|记住|記住|别忘了|別忘了)(?:[：: ]|的是)*)*"
)
_ZH_I: Final = rf"\s*{_LEAD}(?:我本人|我自己|我)"
_ADV: Final = r"(?:最近|刚刚?|剛剛?|去年|前年|上个?月|上個月|现在|現在|目前|今年|平时|平時|一直|真的|也|还|還|就|都|已经|已經|从小|從小|其实|其實|本来|本來)*"
_MUCH: Final = (
    r"(?:很|非常|最|特别|特別|比较|比較|挺|超级?|超級?|也|真的|都|一直|从小就?|從小就?|平时|平時|还|還|更|有点|有點)*"
)
_NAME: Final = r"(?P<o>[\u4e00-\u9fff·]{2,8}|[A-Za-z][A-Za-z ]{1,20})"
_PLACE: Final = r"(?P<o>[\u3400-\u9fffA-Za-z·][\u3400-\u9fffA-Za-z· ]{1,14}?)"
_THING: Final = r"(?P<o>[^\s，,。、]{1,24}?(?:、[^\s，,。、]{1,16}?){0,4})"
_SINCE: Final = r"(?:已经|已經)?(?:[\d一二两兩三四五六七八九十几幾多半]{1,3}(?:年|个月|個月|个多月|個多月|年多)(?:多|左右)?)?(?:了|啦)?"
_ZH_END: Final = r"(?:了|的|啦|呀|啊|哦|喔)?\s*"
_ZH_KIN: Final = {
    "妻子": "wife", "老婆": "wife", "太太": "wife", "丈夫": "husband", "老公": "husband", "先生": "husband",
    "妈妈": "mother", "媽媽": "mother", "母亲": "mother", "母親": "mother", "爸爸": "father", "父亲": "father",
    "父親": "father", "女朋友": "girlfriend", "男朋友": "boyfriend", "老板": "boss", "老闆": "boss",
    "儿子": "son", "兒子": "son", "女儿": "daughter", "女兒": "daughter", "哥哥": "brother", "弟弟": "brother",
    "姐姐": "sister", "妹妹": "sister", "狗": "dog", "猫": "cat", "貓": "cat",
}  # fmt: skip
_ZH_ONE: Final = "妻子|老婆|太太|丈夫|老公|妈妈|媽媽|母亲|母親|爸爸|父亲|父親|女朋友|男朋友|老板|老闆"
_ZH_JOB: Final = (
    r"(?P<o>[\u4e00-\u9fffA-Za-z]{0,8}(?:师|師|医生|醫生|大夫|护士|護士|程序员|程式員|律师|会计|會計|学生|學生|大学生|大學生|研究生|博士生|高中生|司机|司機"
    r"|记者|記者|警察|作家|画家|畫家|教授|经理|經理|导演|導演|演员|演員|歌手|翻译|翻譯|农民|農民|工人|顾问|顧問|科学家|科學家|研究员|研究員|公务员|公務員|创业者|創業者"
    r"|自由职业者|自由職業者|家庭主妇|家庭主婦|消防员|消防員|摄影师|服务员|服務員|销售员|教练|教練))"
)
_ZH_DIGITS: Final = r"(?:\d{1,3}|[一二三四五六七八九]?十[一二三四五六七八九]?)"

_JA_I: Final = r"\s*(?:(?:はじめまして|こんにちは|ちなみに|あと|それから|でも|実は|はい|ええと|えっと|覚えておいて(?:ください|ね)?|覚えて(?:ください|ね)?)[：: ]*)*(?:(?:私|わたし|わたくし|僕|ぼく|俺|おれ|自分)(?:は|も|が)?)?(?:今は?|現在は?|いまは?|ずっと|普段は?|昔から|もう)?"
_JA_MY: Final = r"\s*(?:(?:はじめまして|こんにちは|ちなみに|あと|それから)[：: ]*)*(?:(?:私|わたし|僕|ぼく|俺|うち)の)?"
_JA_RUN: Final = r"(?P<o>[^\sはがもをで「」]{1,16}?)"
_JA_PLACE: Final = r"(?P<o>[^\sはがもをとで「」]{2,14}?)"
_JA_END: Final = r"(?:が|けど|けれど|ので|から|し|よ|ね)*\s*"
_JA_KIN: Final = {
    "妻": "wife", "嫁": "wife", "奥さん": "wife", "夫": "husband", "主人": "husband", "旦那": "husband", "母": "mother",
    "父": "father", "彼女": "girlfriend", "彼氏": "boyfriend", "上司": "boss", "娘": "daughter", "息子": "son",
    "兄": "brother", "弟": "brother", "姉": "sister", "妹": "sister", "犬": "dog", "猫": "cat",
}  # fmt: skip
_JA_ONE: Final = "妻|嫁|奥さん|夫|主人|旦那|母|父|彼女|彼氏|上司"
_JA_JOB: Final = (
    r"(?P<o>[一-龯ァ-ヶー]{0,10}(?:医者|医師|看護師|教師|会社員|学生|大学生|大学院生|高校生|エンジニア|プログラマー|弁護士|デザイナー|主婦|主夫|公務員|研究者|作家|画家"
    r"|歌手|俳優|記者|警察官|料理人|美容師|薬剤師|会計士|建築家|翻訳者|通訳|店員|運転手|フリーランス|自営業|農家))"
)
_CITIES: Final = (
    r"北京|上海|广州|廣州|深圳|成都|杭州|武汉|武漢|南京|天津|重庆|重慶|西安|苏州|蘇州|长沙|長沙|郑州|青岛|青島|大连|大連|厦门|廈門|宁波|無錫|无锡|佛山|东莞|合肥|福州|济南|昆明|沈阳"
    r"|哈尔滨|珠海|香港|澳门|澳門|台北|臺北|高雄|台中|台湾|臺灣|中国|中國|日本|美国|美國|英国|英國|德国|德國|法国|加拿大|澳洲|澳大利亚|新加坡|韩国|东京|東京|大阪|京都|名古屋|横浜"
    r"|神戸|福岡|札幌|仙台|広島|沖縄|北海道|埼玉|千葉|神奈川|纽约|紐約|伦敦|倫敦|巴黎|柏林|ニューヨーク|ロンドン|パリ|ベルリン|アメリカ|イギリス|ドイツ|フランス|カナダ|中国|韓国|台湾"
)
# Where one works without its being who one works for; who "you" and "it" are.
_NO_EMPLOYER: Final = re.compile(
    r"公司|单位|單位|会社|職場|家|家里|家裡|外面|外地|国外|國外|国内|國內|这里|這裡|那里|那裡|晚上|白天|周末|自宅|家|在宅|海外|国内|夜|リモート"
    r"|.*(?:市|省|国|國|县|縣|区|區|州|都|府|町|村|半岛)"
    rf"|{_CITIES}"
)
_POINTS: Final = re.compile(
    r"(?:的|你|您|他|她|它|这|這|那|哪|什|怎|谁|誰|一起|和你|跟你|自己|别人|別人|大家"
    r"|これ|それ|あれ|この|その|あの|ここ|そこ|あそこ|あなた|君|きみ|どこ|何|こと|みんな|彼|二人|一人|一緒).*"
    r"|.*(?:的话|的話|时候|時候|时|時|吗|嗎|呢|酒店|宾馆|賓館|ホテル)"
)
# What no name of a place has within it: another clause goes on there.
_NO_PLACE: Final = re.compile(
    "很|觉|覺|的|没|沒|(?<!那)不(?!丹)|了|想|是|就|离|離|感|让|讓|能|因|但|年|时|時|吃|喝|看|去|工作|上班|上学|每|只|一个|家里"
    "|(?:宿舍|公寓|郊区|鄉下|乡下|市中心|附近|楼|房子|学校|実家|マンション|アパート|一軒家|寮|田舎|都会|近く|隣|家|ところ|部屋|海外)$"
)
# What is liked of something at hand ("这款手机"), or a sentence of its own.
_AT_HAND: Final = re.compile("[这這那是]")
# "金色家园这个小区" is called 金色家园.
_OF_ITS_KIND: Final = "(?:(?:这|這|那)(?:个|個|座|家|间|間)[\u3400-\u9fff]{1,4})?"
_AND_ZH: Final = re.compile(r"、|和|跟|以及|还有|還有|与|與")
_AND_JA: Final = re.compile("、|(?<=[^\u3040-\u309f])[とや](?=[^\u3040-\u309f])")
# Who is spoken of where nobody is named: "妹がいます。大阪に住んでいます。"
_ANOTHER: Final = re.compile(
    rf"(?:{'|'.join(_JA_KIN)}|両親|友達|友人|同僚|家族|彼|彼女|先生|社長|さん|くん|ちゃん|君|様)(?:は|が|も|を|の(?!名前))"
)
_MYSELF: Final = re.compile(rf"\s*{_LEAD}我(?!们|們|的|家|{'|'.join(_ZH_KIN)}|朋友|同事)")

# "我有个朋友，住在上海": whoever is named is who does what follows.
_OTHERS: Final = re.compile(
    rf"{'|'.join(_ZH_KIN)}|爸|妈|媽|哥|姐|弟|妹|朋友|同事|同学|同學|室友|邻居|鄰居|孩子|他|她|它"
)


def _rule(pattern: str, predicate: str, says: str, *flags: str, importance: float = 0.6) -> Rule:
    return Rule(
        re.compile(pattern), predicate, says,
        "list" if "listed" in flags else "employer" if "employer" in flags else "phrase",
        "preference" if "preference" in flags else "fact", "one" if "one" in flags else "many",
        importance, "negated" in flags or "ended" in flags, "ended" in flags,
    )  # fmt: skip


_ZH: Final = (
    _rule(rf"{_ZH_I}(?:的名字)?(?:就|是)?(?:叫做?|名叫){_NAME}{_ZH_END}", "name", "{P} name is {o}.", "one", importance=0.95),
    _rule(rf"\s*{_LEAD}(?:我的名字|我的姓名|我名字)(?:叫|是){_NAME}{_ZH_END}", "name", "{P} name is {o}.", "one", importance=0.95),
    _rule(rf"\s*{_LEAD}(?:(?:大家|朋友们?)都?叫我|(?:你)?(?:可以|就)叫我|(?:请|請)叫我){_NAME}{_ZH_END}", "name", "{P} name is {o}.", "one", importance=0.9),
    _rule(rf"(?:{_ZH_I})?{_ADV}(?:住在|居住在|定居在|定居于){_PLACE}{_OF_ITS_KIND}{_SINCE}\s*", "lives_in", "{S} lives in {o}.", "one", importance=0.8),
    _rule(rf"(?:{_ZH_I})?{_ADV}(?:搬到|搬去|搬来|搬來)了?{_PLACE}(?:了|去了|来了|來了|住了)?\s*", "lives_in", "{S} lives in {o}.", "one", importance=0.8),
    _rule(rf"{_ZH_I}{_ADV}(?:不再住在{_PLACE}了?|不住在{_PLACE.replace('<o>', '<o2>')}了)\s*", "lives_in", "{S} no longer lives in {o}.", "ended", "one"),
    _rule(rf"{_ZH_I}{_ADV}(?:是)?(?:来自|來自){_PLACE}{_ZH_END}", "comes_from", "{S} comes from {o}.", "one", importance=0.7),
    _rule(rf"\s*{_LEAD}我(?:的)?(?:老家|家乡|家鄉)(?:在|是){_PLACE}{_ZH_END}", "hometown", "{P} hometown is {o}.", "one", importance=0.7),
    _rule(rf"{_ZH_I}是(?P<o>{_CITIES})人{_ZH_END}", "comes_from", "{S} comes from {o}.", "one", importance=0.7),
    _rule(rf"{_ZH_I}{_ADV}(?:从|從)(?P<o>[^\s，,。]{{2,16}}?)(?:离职|離職|辞职|辭職|退休)了?\s*", "works_at", "{S} no longer works at {o}.", "ended", "one", "employer"),
    _rule(rf"{_ZH_I}{_ADV}(?:不再在(?P<o>[^\s，,。]{{2,16}}?)(?:工作|上班|任职|任職)了?|不在(?P<o2>[^\s，,。]{{2,16}}?)(?:工作|上班|任职|任職)了)\s*", "works_at", "{S} no longer works at {o}.", "ended", "one", "employer"),
    _rule(rf"(?:{_ZH_I})?{_ADV}在(?:一家|一间|一所)?(?P<o>[^\s，,。]{{2,16}}?)(?:工作|上班|任职|任職){_SINCE}\s*", "works_at", "{S} works at {o}.", "one", "employer", importance=0.8),
    _rule(rf"{_ZH_I}{_ADV}(?:是|当|當)(?:一名|一个|一個|一位|个|個|名|位)?{_ZH_JOB}{_ZH_END}", "job", "{P} job is {o}.", "one", importance=0.8),
    _rule(rf"\s*(?:是|当|當)(?:一名|一个|一個|一位){_ZH_JOB}{_ZH_END}", "job", "{P} job is {o}.", "one", importance=0.8),
    _rule(rf"\s*{_LEAD}我(?:的)?(?:职业|職業)是(?:一名|一个|一位)?{_ZH_JOB}{_ZH_END}", "job", "{P} job is {o}.", "one", importance=0.8),
    _rule(rf"\s*{_LEAD}我最(?:喜欢|喜歡|爱|愛)的(?P<k>[\u4e00-\u9fff]{{1,6}})是{_THING}{_ZH_END}", "favourite_{k}", "{P} favourite {k} is {o}.", "preference", "one", importance=0.7),
    _rule(rf"(?:{_ZH_I})?{_MUCH}(?:(?:喜欢|喜歡)(?!上|过|過)|热爱|熱愛|爱(?=吃|喝|看|听|玩)|愛(?=吃|喝|看|聽|玩)){_THING}{_ZH_END}", "likes", "{S} likes {o}.", "preference", "listed", importance=0.55),
    _rule(rf"(?:{_ZH_I})?{_MUCH}(?:不(?:太|是很)?(?:喜欢|喜歡|爱(?=吃|喝|看|听)|愛(?=吃|喝|看|聽))|讨厌|討厭){_THING}{_ZH_END}", "likes", "{S} dislikes {o}.", "preference", "negated", "listed"),
    _rule(rf"{_ZH_I}{_ADV}(?:不吃|从来不吃|從來不吃|从不吃){_THING}{_ZH_END}", "eats", "{S} does not eat {o}.", "preference", "negated", "listed", importance=0.8),
    _rule(rf"{_ZH_I}{_ADV}(?:对|對){_THING}(?:会|會|严重|嚴重|有点|有點|都|也)*(?:过敏|過敏){_ZH_END}", "allergic_to", "{S} is allergic to {o}.", "listed", importance=0.95),
    _rule(rf"{_ZH_I}{_ADV}有?(?P<o>花生|坚果|堅果|海鲜|海鮮|牛奶|乳糖|鸡蛋|雞蛋|花粉|尘螨|塵蟎|青霉素|虾|蝦|小麦|大豆|芒果)(?:过敏|過敏){_ZH_END}", "allergic_to", "{S} is allergic to {o}.", importance=0.95),
    _rule(rf"{_ZH_I}{_ADV}(?:是)?(?:一个|个|位)?(?P<o>吃素|素食者|素食主义者|素食主義者|纯素食者|純素食者){_ZH_END}", "status", "{S} is vegetarian or vegan ({o}).", importance=0.8),
    _rule(rf"{_ZH_I}{_ADV}(?P<o>结婚|結婚|离婚|離婚|单身|單身|未婚|已婚)(?:了|的)?\s*", "marital_status", "{P} marital status is {o}.", "one", importance=0.8),
    _rule(rf"(?:{_ZH_I})?{_ADV}(?P<o>{_ZH_DIGITS})(?:岁|歲){_ZH_END}", "age", "{S} is {o} years old.", "one", importance=0.8),
    _rule(rf"\s*{_LEAD}我(?:的)?生日(?:是|在)(?P<o>(?:\d{{4}}年)?\d{{1,2}}月\d{{1,2}}(?:日|号|號)){_ZH_END}", "birthday", "{P} birthday is {o}.", "one", importance=0.8),
    _rule(rf"\s*{_LEAD}(?:我的?|我家的?)(?P<k>{_ZH_ONE})(?:的名字)?(?:叫|名叫|是叫){_NAME}{_ZH_END}", "{k}_name", "{P} {k} is called {o}.", "one", importance=0.8),
    _rule(rf"\s*{_LEAD}(?:我的?|我家的?)(?P<k>{'|'.join(_ZH_KIN)})(?:的名字)?(?:叫|名叫|是叫){_NAME}{_ZH_END}", "{k}_name", "{P} {k} is called {o}.", importance=0.75),
    _rule(rf"\s*{_LEAD}我的?(?P<k>{'|'.join(_ZH_KIN)})(?:现在|現在|目前)?住在{_PLACE}{_SINCE}\s*", "{k}_lives_in", "{P} {k} lives in {o}.", "one"),
    _rule(rf"{_ZH_I}{_ADV}(?:有|养了?|養了?)(?P<o>(?:[一两兩二三四五\d])(?:个|個|只|隻|条|條)(?:[小大])?(?P<k>儿子|兒子|女儿|女兒|孩子|哥哥|弟弟|姐姐|妹妹|狗|猫|貓)){_ZH_END}", "has", "{S} has {o}."),
)  # fmt: skip
_JA: Final = (
    _rule(rf"{_JA_MY}名前は{_JA_RUN}(?:です|だ|といいます|と言います|と申します){_JA_END}", "name", "{P} name is {o}.", "one", importance=0.95),
    _rule(rf"{_JA_I}{_JA_RUN}と(?:申します|いいます|言います){_JA_END}", "name", "{P} name is {o}.", "one", importance=0.95),
    _rule(rf"{_JA_I}もう{_JA_PLACE}に(?:は)?住んでいません{_JA_END}", "lives_in", "{S} no longer lives in {o}.", "ended", "one"),
    _rule(rf"{_JA_I}{_JA_PLACE}に(?:ずっと|今|\d+年)?住んで(?:います|いる|おります|ます){_JA_END}", "lives_in", "{S} lives in {o}.", "one", importance=0.8),
    _rule(rf"{_JA_I}{_JA_PLACE}(?:に|へ)(?:引っ越しました|引っ越した|引越しました){_JA_END}", "lives_in", "{S} lives in {o}.", "one", importance=0.8),
    _rule(rf"{_JA_I}{_JA_PLACE}在住(?:です|だ|の[^、。はが]{{1,12}}です){_JA_END}", "lives_in", "{S} lives in {o}.", "one", importance=0.8),
    _rule(rf"{_JA_MY}趣味は{_JA_RUN}(?:です|だ|で|と){_JA_END}", "likes", "{S} likes {o}.", "preference", "listed", importance=0.55),
    _rule(rf"{_JA_I}{_JA_PLACE}(?:の出身|出身|生まれ)(?:です|だ){_JA_END}", "comes_from", "{S} comes from {o}.", "one", importance=0.7),
    _rule(rf"{_JA_I}もう{_JA_PLACE}(?:で|に)(?:は)?(?:働いて|勤めて|勤務して)いません{_JA_END}", "works_at", "{S} no longer works at {o}.", "ended", "one", "employer"),
    _rule(rf"{_JA_I}(?P<o>[^\sはがもをとで「」]{{2,14}}?)を退職し(?:まし)?た{_JA_END}", "works_at", "{S} no longer works at {o}.", "ended", "one", "employer"),
    _rule(rf"{_JA_I}{_JA_PLACE}(?:で働いて|に勤めて|に勤務して|で勤務して)(?:います|いる|おります|ます){_JA_END}", "works_at", "{S} works at {o}.", "one", "employer", importance=0.8),
    _rule(rf"\s*(?:私|わたし|僕|ぼく|俺)は(?:今|現在)?{_JA_JOB}(?:です|だ|なんです){_JA_END}", "job", "{P} job is {o}.", "one", importance=0.8),
    _rule(rf"{_JA_I}{_JA_JOB}(?:をしています|をしている|として働いています){_JA_END}", "job", "{P} job is {o}.", "one", importance=0.8),
    _rule(rf"{_JA_MY}(?:仕事|職業)は{_JA_JOB}(?:です|だ){_JA_END}", "job", "{P} job is {o}.", "one", importance=0.8),
    _rule(rf"{_JA_MY}(?:一番|いちばん)?好きな(?P<k>[一-龯ァ-ヶー]{{1,3}}|食べ物|飲み物)は{_JA_RUN}(?:です|だ){_JA_END}", "favourite_{k}", "{P} favourite {k} is {o}.", "preference", "one", importance=0.7),
    _rule(rf"{_JA_I}{_JA_RUN}が(?:大|とても|すごく|本当に|一番)?(?:好き)(?:です|だ|なんです)?{_JA_END}", "likes", "{S} likes {o}.", "preference", "listed", importance=0.55),
    _rule(rf"{_JA_I}{_JA_RUN}(?:が|は)(?:大|とても|あまり|ちょっと)?(?:嫌い(?:です|だ|なんです)?|苦手(?:です|だ|なんです)?|好きでは(?:ありません|ない)|好きじゃない(?:です)?){_JA_END}", "likes", "{S} dislikes {o}.", "preference", "negated", "listed"),
    _rule(rf"{_JA_I}{_JA_RUN}(?:の|に)?アレルギー(?:が(?:あります|ある|あるんです)|です|だ|持ちです|なんです){_JA_END}", "allergic_to", "{S} is allergic to {o}.", "listed", importance=0.95),
    _rule(rf"{_JA_I}{_JA_RUN}(?:は|を)(?:食べません|食べない(?:です)?){_JA_END}", "eats", "{S} does not eat {o}.", "preference", "negated", "listed", importance=0.8),
    _rule(rf"{_JA_I}(?P<o>ベジタリアン|ヴィーガン|ビーガン|菜食主義者)(?:です|だ|なんです){_JA_END}", "status", "{S} is vegetarian or vegan ({o}).", importance=0.8),
    _rule(rf"{_JA_I}(?P<o>結婚して(?:います|いる)|独身(?:です|だ)|離婚しました){_JA_END}", "marital_status", "{P} marital status is {o}.", "one", importance=0.8),
    _rule(rf"{_JA_I}(?P<o>\d{{1,3}})(?:歳|才)(?:です|だ|になりました){_JA_END}", "age", "{S} is {o} years old.", "one", importance=0.8),
    _rule(rf"{_JA_MY}誕生日は(?P<o>(?:\d{{4}}年)?\d{{1,2}}月\d{{1,2}}日)(?:です|だ){_JA_END}", "birthday", "{P} birthday is {o}.", "one", importance=0.8),
    _rule(rf"{_JA_MY}(?P<k>{_JA_ONE})(?:の名前は{_JA_RUN}(?:です|だ)|は{_JA_RUN.replace('<o>', '<o2>')}と(?:いいます|言います)){_JA_END}", "{k}_name", "{P} {k} is called {o}.", "one", importance=0.8),
    _rule(rf"{_JA_MY}(?P<k>{'|'.join(_JA_KIN)})の名前は{_JA_RUN}(?:です|だ|といいます|と言います){_JA_END}", "{k}_name", "{P} {k} is called {o}.", importance=0.75),
    _rule(rf"{_JA_I}(?P<o>犬|猫|子犬|子猫|ハムスター|うさぎ|インコ)を(?:\d|[一二三])?(?:匹)?飼って(?:います|いる|ます){_JA_END}", "has", "{S} has {o}."),
    _rule(rf"{_JA_I}(?P<o>娘|息子|妹|弟|姉|兄|子供|子ども)が(?:[一二三\d](?:人))?(?:います|いる){_JA_END}", "has", "{S} has {o}."),
)  # fmt: skip
_KIN: Final = {**_ZH_KIN, **_JA_KIN}
# "我有一个女儿，她叫小雨"
_CALLED: Final = re.compile(rf"\s*(?:她|他|它|牠|名字|名)?叫(?:做)?{_NAME}{_ZH_END}")
_ORDER: Final = re.compile(
    r"\s*(?:(?:请|請)?(?:以后|以後|今后|今後|从现在(?:开始|起)|從現在(?:開始|起)|从今以后|從今以後)(?:请|請)?.{2,120}"
    r"|(?:请|請)(?:总是|總是|一直|永远|永遠|始终|始終|每次都|不要再|别再|別再).{2,120}"
    r"|(?:これからは?|今後は?|いつも|常に|毎回).{2,120}(?:ください|下さい|お願いします|してほしいです?|しないで))\s*"
)
_NAMED_ZH: Final = re.compile("我")
_NAMED_JA: Final = re.compile("私|わたし|わたくし|僕|ぼく|俺|おれ|自分|うち")
_BEFORE: Final = 120  # so far back another may have been named
_NO_NAME: Final = re.compile(r"什么|什麼|他|她|你|我|做|不|出|外卖|外賣|车|車|一声|苦|何|誰|なに|だれ|みんな")


def told_in_cjk(said: str, start: int, end: int) -> Iterator[Told]:
    """The findings of the sentence [start, end)."""
    if _CJK.search(said, start, end) is None:
        return
    part = _QUOTED.sub(lambda found: "\ue000" * len(found[0]), said[start:end])
    if _ASKED.search(part) is None and _ORDER.fullmatch(part.rstrip("。！!.")):
        shown = said[start:end].strip()
        yield Told("user", "instruction", as_object(part), f"{{S}} said: “{shown}”", (start, end), "convention", importance=0.85)  # fmt: skip
        return
    japanese = _KANA.search(part) is not None
    unreal = _UNREAL.search(part)
    of_another = japanese and _ANOTHER.search(said, max(0, start - _BEFORE), start) is not None
    myself, last = False, None
    for clause in _clauses(part, japanese=japanese):
        if unreal and clause.end() > unreal.start():
            return
        mine = _MYSELF.match(clause[0]) is not None
        alone = not of_another if japanese else (mine or myself) and _OTHERS.search(clause[0]) is None
        found = list(_of_clause(clause, last, japanese=japanese, alone=alone))
        for one in found:
            yield replace(one, span=(start + one.span[0], start + one.span[1]))
        last = found[-1] if found else last
        myself = alone and (mine or bool(found))
        of_another = of_another or (japanese and _ANOTHER.search(clause[0]) is not None)


def _clauses(part: str, *, japanese: bool) -> list[re.Match[str]]:
    """The clauses that state: without those that ask, and without what stands before a "对吗"."""
    clauses = list((_JA_CLAUSE if japanese else _CLAUSE).finditer(part))
    if clauses and (_ASKED.search(part) or _ASKS.search(clauses[-1][0])):
        clauses = [] if _TAG.fullmatch(clauses[-1][0]) else clauses[:-1]
    stop = next((number for number, one in enumerate(clauses) if _ASKS.search(one[0])), len(clauses))
    return clauses[:stop]


def _of_clause(clause: re.Match[str], last: Told | None, *, japanese: bool, alone: bool) -> Iterator[Told]:
    """What a clause states; `last`: what was stated before it; `alone`: a clause that names nobody is the speaker's."""
    text, at = clause[0], clause.start()
    if (kind := _whom(last)) and (called := _CALLED.fullmatch(text)) and not _NO_NAME.match(called["o"]):
        yield told_by(_IS_CALLED, called["o"], (at, at + called.end("o")), kind)
        return
    for rule in _JA if japanese else _ZH:
        found = rule.pattern.fullmatch(text)
        if found is None or not (alone or (_NAMED_JA if japanese else _NAMED_ZH).search(text)):
            continue
        group = "o2" if found.groupdict().get("o2") else "o"
        kind = found.groupdict().get("k") or ""
        for begins, ends in _items(found[group], rule, japanese=japanese):
            thing = found[group][begins:ends]
            if not _is_thing(thing, rule):
                return
            shift = at + found.start(group)
            yield told_by(rule, thing, (at if begins == 0 else shift + begins, shift + ends), _KIN.get(kind, kind))
        return


def _whom(last: Told | None) -> str | None:
    """Whom one was just said to have: "我有一个女儿"."""
    if last is None or last.predicate != "has":
        return None
    return next((kind for word, kind in _ZH_KIN.items() if last.object.endswith(word)), None)


def _is_thing(thing: str, rule: Rule) -> bool:
    if not thing or _POINTS.fullmatch(thing) or (rule.shape == "employer" and _NO_EMPLOYER.fullmatch(thing)):
        return False
    if rule.category == "preference" and _AT_HAND.search(thing):
        return False
    if rule.predicate.endswith(("lives_in", "comes_from", "hometown")) and _NO_PLACE.search(thing):
        return False
    return not (rule.predicate.endswith("name") and _NO_NAME.match(thing))


def _items(run: str, rule: Rule, *, japanese: bool) -> list[tuple[int, int]]:
    if rule.shape != "list":
        return [(0, len(run))]
    ranges, start = [], 0
    for joint in (_AND_JA if japanese else _AND_ZH).finditer(run, 1):
        ranges.append((start, joint.start()))
        start = joint.end()
    return [*ranges, (start, len(run))]


_IS_CALLED: Final = _rule("", "{k}_name", "{P} {k} is called {o}.", importance=0.75)
