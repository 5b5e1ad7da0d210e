"""Personal data in a text, and what a tenant wants done with it: a text and a policy in, spans out.

Comes in: one `str`. Goes out: disjoint spans with their kind, ascending. What has a public check rule is found by it:
IBAN (ISO 13616, mod 97), cards (ISO 7812, Luhn), and of national ids those of Spain (DNI, NIE: letter by mod 23), Italy
(codice fiscale: check letter), France (NIR: mod 97), Brazil (CPF: two check digits), China (resident id: ISO 7064 mod
11-2) and Poland (PESEL: weights, beside its name). E-mail, telephone numbers and postal addresses have none: an address
must look like one (house number, capitalised name, a word for a street), so many are missed and few words are taken.
Refuses: names of people, dates, and ids without a check rule (a US SSN is any nine digits). Pure and linear.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, Literal, get_args

Kind = Literal["email", "phone", "iban", "card", "national-id", "address"]
Action = Literal["keep", "mask", "tokenise", "drop"]
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)


@dataclass(frozen=True, slots=True, order=True)
class Personal:
    """Characters [start, end) of a text, and what they are."""

    start: int
    end: int
    kind: Kind


@dataclass(frozen=True, slots=True)
class PersonalPolicy:
    """What a tenant wants done with each kind. The default keeps everything: a memory of people knows their address."""

    email: Action = "keep"
    phone: Action = "keep"
    iban: Action = "keep"
    card: Action = "keep"
    national_id: Action = "keep"
    address: Action = "keep"

    def action(self, kind: Kind) -> Action:
        """What is done with this kind."""
        found: Action = getattr(self, kind.replace("-", "_"))
        return found

    @property
    def keeps_all(self) -> bool:
        """Whether nothing has to be looked for."""
        return all(self.action(kind) == "keep" for kind in KINDS)

    @property
    def mark(self) -> str:
        """A short word that is another one for every other policy."""
        if self.keeps_all:
            return "keep"
        actions = ",".join(f"{kind}={self.action(kind)}" for kind in KINDS)
        return hashlib.sha256(actions.encode("ascii")).hexdigest()[:8]


# Scripts that set no blank between words: Thai, Lao, Burmese, Khmer, Chinese, Japanese, Korean, and wide forms.
_UNSPACED: Final = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\ua4cf\uac00-\ud7ff\uf900-\ufaff\uff21-\uffef\U00020000-\U0003ffff"
)
_UNSPACED_ONE: Final = re.compile(f"[{_UNSPACED}]")
_ESCAPE: Final = re.compile(r"\\[nrt]")
_CALL: Final = re.compile("电话|手机|電話|手機|携帯|전화|휴대폰|핸드폰|โทร|เบอร์|มือถือ")
# No-break and narrow spaces, the no-break hyphen, wide and Arabic digits, wide signs of a telephone number.
_PLAIN: Final = str.maketrans(
    "\u00a0\u2007\u2009\u202f\u3000\u2011＋－（）．／" + "０１２３４５６７８９" + "٠١٢٣٤٥٦٧٨٩" + "۰۱۲۳۴۵۶۷۸۹",
    "     -+-()./" + 3 * "0123456789",
)


def _readable(text: str) -> str:
    """The text as numbers are looked for in it, character for character: JSON's escapes as line breaks, signs as ASCII
    has them, and of scripts without blanks nothing but that a word ends where another script begins.
    """
    text = _ESCAPE.sub("\n\n", text)
    if text.isascii():
        return text
    return _apart(_CALL.sub(lambda found: "☎".ljust(len(found[0])), text).translate(_PLAIN))


def _apart(text: str) -> str:
    """The text without what stands in scripts that set no blanks."""
    return text if text.isascii() else _UNSPACED_ONE.sub("|", text)


def find_personal(text: str, policy: PersonalPolicy) -> tuple[Personal, ...]:
    """What the policy does not keep; of two that overlap the longer one."""
    read = _readable(text)
    found = sorted(
        Personal(start, end, kind)
        for kind in KINDS
        if policy.action(kind) != "keep"
        for start, end in _FINDERS[kind](text if kind == "email" else read)
        if start < end
    )
    taken: list[Personal] = []
    for one in found:
        while taken and one.start < taken[-1].end and one.end - one.start > taken[-1].end - taken[-1].start:
            taken.pop()
        if not taken or taken[-1].end <= one.start:
            taken.append(one)
    return tuple(taken)


# ---------------------------------------------------------------- e-mail, telephone, address

_LOCAL: Final = re.compile(r"[\w.+%'-]{1,64}$")
_DOMAIN: Final = re.compile(
    r"(?:[\w-]{1,63}\.){1,5}(?:[A-Za-z]{2,24}|xn--[A-Za-z0-9-]{2,59}|[^\W\d_A-Za-z]{2,24})(?![\w-])"
)


def _emails(text: str) -> Iterator[tuple[int, int]]:
    apart = _apart(text)
    at = text.find("@")
    while at >= 0:
        local = _LOCAL.search(apart, max(0, at - 64), at) or _LOCAL.search(text, max(0, at - 64), at)
        domain = _DOMAIN.match(apart, at + 1) or _DOMAIN.match(text, at + 1)
        if local and domain:
            start = local.start() + len(local.group()) - len(local.group().lstrip(".'%-"))
            if start < at:
                yield start, domain.end()
        at = text.find("@", at + 1)


_DIGITS: Final = r"\d(?:[ \t]?[().\-/\u2010-\u2013]{0,2}[ \t]?\d){%d,%d}+"
_INTERNATIONAL: Final = re.compile(r"(?<![\w+.])(?:\+|00(?=[1-9]))" + _DIGITS % (7, 14) + r"(?![\w])")
_AMERICAN: Final = re.compile(
    r"(?<![\w.+-])(?:1[ .-])?(?:\([2-9]\d\d\) ?|[2-9]\d\d[ .-])[2-9]\d\d[ .-]\d{4}(?![\w.-]?\d)"
)
_CHINESE: Final = re.compile(r"(?<![\d.+-])1[3-9]\d[ -]?\d{4}[ -]?\d{4}(?![.-]?\d)")
# What a number is called, with what is written on to it: Telefonnummer, telefonu, телефона, הטלפון.
_TELEPHONE: Final = (
    r"tel|tel[eé](?:fon|foon|fón|móve)\w{0,12}|telephone|phone|mobiel\w{0,8}|mobil(?:e|ní|nr|telefon\w{0,8}|nummer)?|cell"
    r"|handy(?:nummer|nr)?|rufnummer|celular|cellulare|komórk\w{1,4}|gsm|m[oó]vil|portable|fax|whatsapp|sms|call|text|ring"
    r"|reach|тел|телефон\w{0,4}|мобильн\w{1,4}|мобільн\w{1,4}|τηλ|τηλέφων\w{1,3}|κινητό|(?:ال)?هاتف\w{0,3}|(?:ال)?جوال\w{0,3}"
    r"|ה?טלפון|ה?נייד|điện thoại|sđt"
)
_CALLED: Final = re.compile(
    rf"(?:\b(?:{_TELEPHONE})\b|t[ée]l[ée]phone|फ़ोन|फोन|मोबाइल|☎)[^\d\n+]{{0,24}}"
    r"(?P<number>\(?" + _DIGITS % (6, 14) + r")(?![\w%])",
    re.IGNORECASE,
)


def _phones(text: str) -> Iterator[tuple[int, int]]:
    for pattern in (_INTERNATIONAL, _AMERICAN, _CHINESE):
        for match in pattern.finditer(text):
            yield match.span()
    for match in _CALLED.finditer(text):
        if not _DATE.fullmatch(match["number"]):
            yield match.span("number")


_DATE: Final = re.compile(r"(?:19|20)\d\d[-./]\d{1,2}[-./]\d{1,2}|\d{1,2}[-./]\d{1,2}[-./](?:19|20)\d\d")
_CAPITAL: Final = r"[^\W\d_a-zà-öø-ÿ][\w'’-]{0,30}"
_ENGLISH: Final = re.compile(
    r"(?<![\w.,:/-])\d{1,5}[A-Za-z]?\s(?:[NSEW]\.?\s)?(?:" + _CAPITAL + r"\s|\d{1,3}(?:st|nd|rd|th)\s){1,4}?"
    r"(?:Street|St|Avenue|Ave|Road|Rd|Boulevard|Blvd|Lane|Ln|Drive|Dr|Court|Square|Sq|Terrace|Crescent|Close|Parkway"
    r"|Pkwy|Highway|Hwy|Mews|Way|Place)\b\.?(?:,?\s(?:Apt|Apartment|Suite|Unit|Flat|#)\.?\s?\w{1,6})?"
    r"(?:,\s" + _CAPITAL + r"(?:\s" + _CAPITAL + r"){0,2})?(?:,?\s[A-Z]{2}\s\d{5}(?:-\d{4})?\b"
    r"|,?\s[A-Z]{1,2}\d[A-Z\d]?\s\d[A-Z]{2}\b)?"
)
_GERMAN: Final = re.compile(
    r"(?<!\w)" + _CAPITAL + r"(?:straße|strasse|str\.|weg|platz|allee|gasse|damm|ufer|ring)\s\d{1,4}\s?[a-z]?(?!\w)"
    r"(?:,?\s\d{5}\s" + _CAPITAL + r")?"
)
_ROMANCE: Final = re.compile(
    r"(?<![\w.,:/-])\d{1,4}(?:\s?(?:bis|ter))?,?\s(?:rue|avenue|boulevard|chemin|allée|impasse|quai|place)\s"
    r"(?:(?:de|du|des|la|le|les)\s|[ld]['’]){0,3}" + _CAPITAL + r"(?:[\s-]" + _CAPITAL + r"){0,3}"
    r"(?:,?\s\d{5}\s" + _CAPITAL + r")?"
    r"|(?<!\w)(?:Calle|Avenida|Avda\.|Plaza|Paseo|Via|Viale|Piazza|Corso|Rua)\s(?:(?:de|del|della|dei|da|do|la|las|los)\s)"
    r"{0,2}" + _CAPITAL + r"(?:\s" + _CAPITAL + r"){0,3},?\s(?:n[.º°]\s?)?\d{1,4}(?!\w)"
)


def _addresses(text: str) -> Iterator[tuple[int, int]]:
    for pattern in (_ENGLISH, _GERMAN, _ROMANCE):
        for match in pattern.finditer(text):
            yield match.span()


# ---------------------------------------------------------------- with a check rule

_IBAN_HEAD: Final = re.compile(r"(?<![A-Za-z0-9])[A-Za-z]{2}\d\d(?=[ -]?[A-Za-z0-9])", re.ASCII)
_IBAN_DIGITS_MIN: Final = 10
"""Fewer than any has: in small letters it could be words."""
_IBAN_LENGTHS: Final = (
    "15 NO/16 BE/18 DK FI FO GL NL/19 MK SI/20 AT BA EE KZ LT LU XK/21 CH HR LI LV/22 BG BH CR DE GB GE IE ME RS VA"
    "/23 AE GI IL IQ TL/24 AD CZ ES MD PK RO SA SE SK TN VG/25 LY PT ST/26 IS TR/27 FR GR IT MC MR SM"
    "/28 AL AZ BY CY DO EG GT HU LB NI PL SV/29 BR PS QA UA/30 JO KW MU/31 MT SC/33 RU"
)
_IBAN_CHARS: Final = {code: int(group.split()[0]) for group in _IBAN_LENGTHS.split("/") for code in group.split()[1:]}
"""Characters of an IBAN by country, from the SWIFT registry."""


def _ibans(text: str) -> Iterator[tuple[int, int]]:
    for head in _IBAN_HEAD.finditer(text):
        chars = _IBAN_CHARS.get(head.group()[:2].upper())
        end = None if chars is None else _after(text, head.start(), chars)
        if end is not None and is_iban(text[head.start() : end]):
            yield head.start(), end


def _after(text: str, start: int, chars: int) -> int | None:
    """The end of so many letters and digits from `start`, single blanks and hyphens between them; None: too few."""
    at, left = start, chars
    while at < len(text) and left:
        if text[at].isascii() and text[at].isalnum():
            left -= 1
        elif text[at] not in " -" or text[at - 1] in " -":
            return None
        at += 1
    return None if left or (at < len(text) and text[at].isascii() and text[at].isalnum()) else at


def is_iban(value: str) -> bool:
    """ISO 13616: the first four characters put last, letters as 10..35, mod 97 is 1."""
    plain = value.replace(" ", "").replace("-", "").upper()
    if len(plain) != _IBAN_CHARS.get(plain[:2]) or sum(map(str.isdigit, plain)) < _IBAN_DIGITS_MIN:
        return False
    return int("".join(str(int(char, 36)) for char in plain[4:] + plain[:4])) % 97 == 1


_CARD: Final = re.compile(r"(?<![\w.-])(?<![A-Z]\d\d )[2-6](?:[ -]?\d){12,18}+(?![\w-]|\.\d)", re.ASCII)


# In the groups that it is embossed in, whatever digits stand before and after: its end, its check number, a year.
_EMBOSSED: Final = re.compile(
    r"(?<![\w.-])(?=([2-6]\d{3}([ -])\d{4}\2\d{4}\2\d{4}|3[47]\d\d([ -])\d{6}\3\d{5}|[2-6]\d{12,18})(?![\w-]|\.\d))",
    re.ASCII,
)


def _cards(text: str) -> Iterator[tuple[int, int]]:
    whole = [match.span() for match in _CARD.finditer(text)]
    for start, end in (*whole, *(match.span(1) for match in _EMBOSSED.finditer(text))):
        if is_card(text[start:end]):
            yield start, end


def is_card(value: str) -> bool:
    """ISO 7812: 13 to 19 digits, the Luhn sum ends in 0, more than one digit."""
    digits = [int(char) for char in value if char.isdigit()]
    doubled = [sum(divmod(2 * digit, 10)) for digit in digits[-2::-2]]
    return 13 <= len(digits) <= 19 and len(set(digits)) > 1 and (sum(digits[-1::-2]) + sum(doubled)) % 10 == 0


_SPAIN: Final = re.compile(r"(?<![\w-])([XYZ]-?\d{7}|\d{8})-?([A-HJ-NP-TV-Z])(?![\w-])", re.ASCII)
_ITALY: Final = re.compile(r"(?<!\w)[A-Z]{6}[\dLMNP-V]{2}[A-EHLMPRST][\dLMNP-V]{2}[A-Z][\dLMNP-V]{3}[A-Z](?!\w)", re.I)
_FRANCE: Final = re.compile(
    r"(?<![\w.-])[12] ?\d\d ?(?:0[1-9]|1[0-2]|[2-9]\d) ?(?:\d\d|2[AB]) ?\d{3} ?\d{3} ?\d\d(?![\w-])", re.ASCII
)
_BRAZIL: Final = re.compile(
    r"(?<![\w.-])\d{3}\.\d{3}\.\d{3}-\d\d(?![\w-])|(?:(?<=cpf )|(?<=cpf:)|(?<=cpf: ))\d{11}(?!\w)", re.ASCII | re.I
)
_CHINA: Final = re.compile(
    r"(?<![\w-])[1-9]\d{5}(?:18|19|20)\d\d(?:0[1-9]|1[0-2])(?:[0-2]\d|3[01])\d{3}[\dXx](?![\w-])", re.A
)
_POLAND: Final = re.compile(r"pesel\W{0,3}(?:is\W|to\W|nr\W)?\W{0,3}(?P<id>\d{11})(?!\w)", re.ASCII | re.IGNORECASE)


def _national_ids(text: str) -> Iterator[tuple[int, int]]:
    for pattern, holds in _CHECKED:
        for match in pattern.finditer(text):
            span = match.span("id") if "id" in pattern.groupindex else match.span()
            if holds(text[slice(*span)]):
                yield span


def _is_spanish(value: str) -> bool:
    plain = value.replace("-", "")
    number = str("XYZ".find(plain[0])) + plain[1:-1] if plain[0] in "XYZ" else plain[:-1]
    return "TRWAGMYFPDXBNJZSQVHLCKE"[int(number) % 23] == plain[-1]


_ODD_DIGITS: Final = (1, 0, 5, 7, 9, 13, 15, 17, 19, 21)
_ODD_LETTERS: Final = (2, 4, 18, 20, 11, 3, 6, 8, 12, 14, 16, 10, 22, 25, 24, 23)
_ODD: Final = dict(
    zip("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ", (*_ODD_DIGITS, *_ODD_DIGITS, *_ODD_LETTERS), strict=True)
)
"""What a character at an odd place counts, from the decree of 23 December 1976."""


def _is_italian(value: str) -> bool:
    plain = value.upper()
    even = sum(int(char) if char.isdigit() else ord(char) - 65 for char in plain[1:15:2])
    return chr(65 + (sum(_ODD[char] for char in plain[0:15:2]) + even) % 26) == plain[15]


def _is_french(value: str) -> bool:
    plain = value.replace(" ", "").replace("2A", "19").replace("2B", "18")
    return plain.isdigit() and len(plain) == 15 and 97 - int(plain[:13]) % 97 == int(plain[13:])


def _is_brazilian(value: str) -> bool:
    digits = [int(char) for char in value if char.isdigit()]
    if len(set(digits)) == 1:
        return False
    for known in (9, 10):
        total = sum(digit * weight for digit, weight in zip(digits, range(known + 1, 1, -1), strict=False))
        if total * 10 % 11 % 10 != digits[known]:
            return False
    return True


_CHINESE_WEIGHTS: Final = (7, 9, 10, 5, 8, 4, 2, 1, 6, 3, 7, 9, 10, 5, 8, 4, 2)


def _is_chinese(value: str) -> bool:
    total = sum(int(char) * weight for char, weight in zip(value, _CHINESE_WEIGHTS, strict=False))
    return "10X98765432"[total % 11] == value[-1].upper()


def _is_polish(value: str) -> bool:
    total = sum(int(char) * weight for char, weight in zip(value, (1, 3, 7, 9, 1, 3, 7, 9, 1, 3), strict=False))
    return (10 - total % 10) % 10 == int(value[-1])


_CHECKED: Final[tuple[tuple[re.Pattern[str], Callable[[str], bool]], ...]] = (
    (_SPAIN, _is_spanish),
    (_ITALY, _is_italian),
    (_FRANCE, _is_french),
    (_BRAZIL, _is_brazilian),
    (_CHINA, _is_chinese),
    (_POLAND, _is_polish),
)
_FINDERS: Final[dict[Kind, Callable[[str], Iterator[tuple[int, int]]]]] = {
    "email": _emails,
    "phone": _phones,
    "iban": _ibans,
    "card": _cards,
    "national-id": _national_ids,
    "address": _addresses,
}
