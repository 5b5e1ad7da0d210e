"""What a forgotten text is looked for by: runs of its words, in any script."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.erasure import shingles
from memory.erasure.files import look
from memory.erasure.shingles import _WORD, RUN, SHORT_RUN, Shingles, _runs, _words, spare


def found(forgotten: str, other: str) -> bool:
    looked_for = Shingles()
    looked_for.add(forgotten)
    return looked_for.found_in(other)


@pytest.mark.parametrize(
    ("forgotten", "other"),
    [
        ("मैं सरकारी अस्पताल में हर दिन काम करता हूँ।", "वह सरकारी अस्पताल में हर दिन सोता है।"),
        ("दिल्ली सुंदर शहर", "दिल्ली सुंदर है"),
        ("நான் சென்னையில் வசிக்கிறேன்", "அவர் சென்னையில் வேலை செய்கிறார்"),
        ("I work every day in a public hospital near here", "He sleeps every day in a public hospital"),
    ],
)
def test_a_few_words_in_common_are_no_trace(forgotten: str, other: str) -> None:
    assert not found(forgotten, other)


@pytest.mark.parametrize(
    "text",
    [
        "मैं सरकारी अस्पताल में हर दिन काम करता हूँ",
        "நான் சென்னையில் ஒரு பெரிய மருத்துவமனையில் வேலை செய்கிறேன்",
        "I work every day in a public hospital near here",
        "我每天在市中心的公立医院工作",
    ],
)
def test_the_words_themselves_are_found_within_others(text: str) -> None:
    assert found(text, f"… {text}, …")


@pytest.mark.parametrize(
    ("forgotten", "around"),
    [
        ("รหัสผ่านตู้เซฟของแม่คือสีฟ้า", "เมื่อวานนี้เขาบอกว่า{}ครับผม"),
        ("ฉันแพ้ถั่วลิสงและอาหารทะเล", "เมื่อวานนี้เขาบอกว่า{}ครับผม"),
        ("หมอบอกว่าผลตรวจเลือดออกมาไม่ดี", "ว่า{}แล้ว"),
        ("លោកស្រីរស់នៅភ្នំពេញជាមួយគ្រួសារ", "គាត់និយាយថា{}ហើយ"),
        ("ကျွန်တော်ရန်ကုန်မှာနေပါတယ်", "သူက{}လို့ပြောတယ်"),
    ],
)
def test_a_sentence_without_blanks_is_found_inside_another(forgotten: str, around: str) -> None:
    wanted = Shingles(needles_max=8)
    wanted.add(forgotten)
    assert wanted.found_in(around.format(forgotten))
    assert all(needle in forgotten for needle in wanted.needles()) and wanted.needles()
    assert not wanted.found_in(around.format(""))
    wanted.said(around.format(forgotten))
    assert not wanted.found_in(around.format(forgotten))


def test_a_word_in_common_is_no_trace_of_a_sentence_without_blanks() -> None:
    wanted = Shingles()
    wanted.add("ผมอาศัยอยู่ที่กรุงเทพมหานครและทำงานเป็นวิศวกร")
    assert not wanted.found_in("เธอไปเที่ยวกรุงเทพมหานครเมื่อปีที่แล้ว")


@given(st.text(st.characters(max_codepoint=127), max_size=80))
def test_the_words_of_ascii_are_those_that_any_text_has(text: str) -> None:
    assert _words(text) == _WORD.findall(text.casefold())


def test_what_another_source_says_is_spared_for_several_as_for_each_alone() -> None:
    texts = (
        "I work every day in a public hospital near here",
        "the key lies there now",
        "我每天在市中心的公立医院工作",
    )
    several, alone = [[Shingles() for _ in range(3)] for _ in range(2)]
    for at, text in enumerate(texts):
        for one in (several[at], alone[at], several[0], alone[0]):
            one.add(text)
    said = "He says: I work every day in a public hospital near here; the key lies there now."
    spare(said, several)
    for one in alone:
        one.said(said)
    assert [len(one) for one in several] == [len(one) for one in alone]
    assert [one.said_elsewhere for one in several] == [one.said_elsewhere for one in alone] == [4, 1, 0]
    assert [one.found_in(text) for one, text in zip(several, texts, strict=True)] == [False, False, True]


SAID = st.lists(st.sampled_from(["ab", "cd", "ef", "Ö", "中", "รหัสผ่านตู้"]), max_size=22).map(" ".join)


@given(st.lists(SAID, max_size=3), st.lists(SAID, max_size=3), SAID, st.booleans())
def test_no_run_is_missed_where_only_some_parts_of_a_text_are_looked_at(
    forgotten: list[str], others: list[str], text: str, has_many: bool
) -> None:
    """Wherever in the text it stands, and whether or not there are too many parts to keep."""
    wanted, runs = Shingles(), {RUN: set[int](), SHORT_RUN: set[int]()}
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(shingles, "PARTS_MAX", 3 if has_many else 1_000)
        for one in forgotten:
            wanted.add(one)
            length = RUN if len(_words(one)) >= RUN else SHORT_RUN
            runs[length].update(_runs(_words(one), length))
    for one in others:
        wanted.said(one)
        for length, some in runs.items():
            some.difference_update(_runs(_words(one), length))
    assert len(wanted) == sum(map(len, runs.values()))
    assert wanted.found_in(text) == any(not some.isdisjoint(_runs(_words(text), n)) for n, some in runs.items())


@pytest.mark.parametrize("length", [RUN, SHORT_RUN])
def test_a_run_is_found_wherever_in_a_text_it_stands(length: int) -> None:
    run = " ".join(f"own{n}" for n in range(length))
    for before in range(2 * length):
        for behind in range(2 * length):
            others = [f"other{n}" for n in range(before + behind)]
            assert found(run, " ".join((*others[:before], run, *others[before:])))


def test_of_a_text_that_holds_none_not_every_run_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """A probe has all texts of a tenant looked at: every run of each took three times what telling words apart does."""
    wanted, looked = Shingles(), list[int]()
    wanted.add("I work every day in a public hospital near here")
    wanted.add("the key lies there now")

    def noted(words: list[str], length: int) -> Iterator[int]:
        looked.append(length)
        return _runs(words, length)

    monkeypatch.setattr(shingles, "_runs", noted)
    other = "what somebody else says at some length about quite another matter, and never in the same words"
    assert not wanted.found_in(other)
    wanted.said(other)
    assert looked == []
    assert wanted.found_in("she works every day, and I work every day in a public hospital near here")
    assert looked == [RUN]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make what another may not read")
def test_the_files_of_a_disk_of_its_own_are_looked_through(tmp_path: Path) -> None:
    """A volume has a directory of the file system's in it, which is root's alone."""
    (tmp_path / "pg").mkdir()
    (tmp_path / "pg" / "1").write_text("the whole of a sentence that was forgotten")
    (tmp_path / "lost+found").mkdir(mode=0o700)

    def looked() -> None:
        os.chdir(tmp_path)  # above it is a way that is closed to others
        os.setresuid(60_001, 60_001, 60_001)
        assert look(Path(), ["a sentence that was forgotten"]).found == ("pg/1",)

    tmp_path.chmod(0o755)
    process = multiprocessing.get_context("fork").Process(target=looked)
    process.start()
    process.join(30)
    assert process.exitcode == 0
