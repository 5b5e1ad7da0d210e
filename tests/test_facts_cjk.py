"""What people say of themselves in Chinese and Japanese is learnt; what they ask, suppose, wish or report is not."""

# ruff: noqa: E501  the cases of one kind in few lines
from __future__ import annotations

from datetime import UTC, datetime

import pytest

from policies.extraction import facts_in
from policies.fact import Fact

SAID_AT = datetime(2024, 3, 20, 12, tzinfo=UTC)


def found(text: str) -> list[Fact]:
    return facts_in(text, said_at=SAID_AT)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("你好，我叫李伟，我住在北京。", [("name", "李伟"), ("lives_in", "北京")]),
        ("我在腾讯工作，是一名软件工程师。", [("works_at", "腾讯"), ("job", "软件工程师")]),
        ("我住在上海已经三年了", [("lives_in", "上海")]),
        ("我住在金色家园这个小区。", [("lives_in", "金色家园")]),
        ("我以前住在成都，现在住在北京。", [("lives_in", "北京")]),
        ("我喜欢看电影、听音乐和打篮球。", [("likes", "看电影"), ("likes", "听音乐"), ("likes", "打篮球")]),
        ("请记住我对青霉素过敏", [("allergic_to", "青霉素")]),
        ("我老婆叫李梅，我姐姐住在纽约。", [("wife_name", "李梅"), ("sister_lives_in", "纽约")]),
        ("我养了一只猫，叫咪咪。", [("has", "一只猫"), ("cat_name", "咪咪")]),
        ("我來自台南，我今年28歲。", [("comes_from", "台南"), ("age", "28")]),
        ("我的生日是5月3日。", [("birthday", "5月3日")]),
        ("我住在北京，附近有什么好吃的？", [("lives_in", "北京")]),
        ("以后都用中文回答我。", [("instruction", "以后都用中文回答我。")]),
        ("私の名前は田中です。大阪に住んでいます。", [("name", "田中"), ("lives_in", "大阪")]),
        ("京都に住んでいますが、トヨタで働いています。", [("lives_in", "京都"), ("works_at", "トヨタ")]),
        ("私は看護師です。名古屋出身です。", [("job", "看護師"), ("comes_from", "名古屋")]),
        ("寿司とラーメンが好きです。", [("likes", "寿司"), ("likes", "ラーメン")]),
        ("卵アレルギーがあります。", [("allergic_to", "卵")]),
        ("妻の名前は花子です。", [("wife_name", "花子")]),
        ("先月、福岡に引っ越しました。", [("lives_in", "福岡")]),
        (
            "我是上海人，在一家外贸公司上班，平时喜欢跑步。",
            [("comes_from", "上海"), ("works_at", "外贸公司"), ("likes", "跑步")],
        ),
        ("東京在住の会社員です。趣味は登山です。", [("lives_in", "東京"), ("likes", "登山")]),
        ("いつも敬語で話してください。", [("instruction", "いつも敬語で話してください。")]),
    ],
)
def test_what_people_say_of_themselves_is_learnt(text: str, expected: list[tuple[str, str]]) -> None:
    facts = found(text)
    assert [(one.predicate, one.object) for one in facts] == expected
    assert all(one.subject == "user" and one.object in text[slice(*one.span)] for one in facts)


@pytest.mark.parametrize(
    ("text", "predicate", "thing"),
    [
        ("我不喜欢香菜。", "likes", "香菜"),
        ("我不吃猪肉，因为我是穆斯林。", "eats", "猪肉"),
        ("我不再住在深圳了。", "lives_in", "深圳"),
        ("納豆は嫌いです。", "likes", "納豆"),
        ("もう横浜に住んでいません。", "lives_in", "横浜"),
    ],
)
def test_what_is_denied_is_learnt_as_denied(text: str, predicate: str, thing: str) -> None:
    (fact,) = found(text)
    assert (fact.predicate, fact.object, fact.negated) == (predicate, thing, True)


@pytest.mark.parametrize(
    "text",
    [
        "我住在哪里比较好？上海还是杭州？", "我住在北京，对吗？", "你知道我住在哪里吗", "如果我住在上海，我会很开心。", "我想住在海边", "我打算搬到深圳",
        "他说我住在上海", "我朋友住在上海。", "小说里的主角说：我叫林黛玉，我住在贾府。", "老师说：「我住在台北，我喜歡貓。」", "请翻译：我叫王芳，我住在广州。",
        "我和女朋友住在一起", "我住在酒店", "我住在北京的朋友很多", "我不对花生过敏", "我对什么都不过敏", "我喜欢你的回答", "我挺喜欢华为这款手机的", "我喜欢用的茶杯是红的", "我爱你", "我叫外卖了", "我有一个问题",
        "我有个朋友，住在上海，喜欢打篮球。", "我朋友是个医生，在协和医院上班，今年40岁。", "我看了一部电影，主角叫小美，住在东京。", "喜欢的话告诉我",
        "我在上海工作。", "我昨天在家工作", "我是医生的儿子",
        "東京に住んでいますか？", "東京に住みたいです。", "私は東京に住んでいません。", "田中さんは東京に住んでいると言っていました。", "大阪に住んでいるそうです。",
        "大阪に住んでいました。", "友達は札幌に住んでいます。", "来月、福岡に引っ越します。", "もし犬が好きなら、柴犬がいいですか？", "母は看護師です。", "あなたが好きです",
        "次の文を英語に訳してください：私は医者です。京都に住んでいます。", "「私は田中です。東京に住んでいます」と彼女は言いました。", "静かなところに住んでいます。",
        "実家に住んでいます。", "夜に働いています。", "この文章を要約してください。",
    ],
)  # fmt: skip
def test_what_is_asked_supposed_wished_or_another_s_gives_nothing(text: str) -> None:
    assert found(text) == []


@pytest.mark.parametrize(
    ("text", "predicate"),
    [("妹がいます。福岡に住んでいます。", "has"), ("犬を飼っています。名前はポチです。", "has")],
)
def test_what_is_said_behind_the_name_of_another_may_be_of_them(text: str, predicate: str) -> None:
    assert [one.predicate for one in found(text)] == [predicate]


@pytest.mark.parametrize("part", ["我住在", "我喜欢、", "私は", "住んでいます、", "我叫我叫", "「我", "の" * 40])
def test_hostile_text_ends(part: str) -> None:
    assert len(found(part * 2_000)) <= 40
