"""The detectors that need context: keys and their values, URLs, headers, curl, key blocks, stray random strings.

Comes in: one `str`. Goes out: `Finding`s over the secret alone; the key, the user and the host stay readable.
Each detector looks for literal words first and matches a bounded or possessive pattern at each of them: linear.
Refuses: prose ("the password is required"), references (`$TOKEN`, `config.token`, `getToken()`), placeholders.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from policies.redaction import Finding, is_word_like, looks_like_placeholder, shannon_bits

JUDGED_CHARS = 96
"""A value is judged by its beginning, so that a long one costs no more at each of many key words."""
PASSWORD_CHARS_MIN = 4
TOKEN_CHARS_MIN = 8
API_KEY_CHARS_MIN = 10
"""A value beside a name that ends in `key`: no provider issues a shorter one (gitleaks' generic rule says 10 too)."""
TOKEN_BITS_MIN = 2.7
"""Bits a character below which a value beside `token` or `secret` is a word or a number, not a token."""
STRAY_CHARS_MIN = 20
STRAY_BITS_MIN = 3.8
"""A string that only stands near a key word must be this random: git ids (hex) stay below, base64 of 20+ is above."""

_KEYS_OF_PEOPLE = (
    'passw|pwd|pw:|pw=|psk|passphrase|passcode|_pass|-pass|pass=|pass:|pass"|credentials|creds|mot de passe|motdepasse'
    "|contraseña|contrasena|senha|kennwort|wachtwoord|lösenord|hasło|haslo|parola|şifre|salasana|adgangskode|пароль"
    "|密码|密碼|口令|パスワード|비밀번호|पासवर्ड|كلمة المرور|كلمة السر|mật khẩu|mdp|contrasenya|heslo|geslo|lozink"
    "|passord|парола|jelsz|slaptažod|kata sandi|κωδικό|סיסמ|รหัสผ่าน"
)
_KEYS_OF_PROGRAMS = (
    "token|secret|key|schlüssel|clé|clave|chave|chiave|jeton|токен|секрет|ключ|密钥|秘钥|令牌|秘密鍵|トークン|キー|토큰|비밀키"
    "|sourcegraph"
)
Kind = Literal["password", "token"]
_KEY_WORDS: dict[str, Kind] = {
    **dict.fromkeys(_KEYS_OF_PEOPLE.split("|"), "password"),
    **dict.fromkeys(_KEYS_OF_PROGRAMS.split("|"), "token"),
}
_KEY_BEFORE = re.compile(
    r"(?:api|access|secret|private|priv|auth|authentication|encrypt|encryption|signing|sign|account|service|client|app"
    r"|master|storage|shared|license|licence|subscription|consumer|deploy|admin|write|read|server|session|hmac|jwt"
    r"|cookie|root|stream|webhook|fernet|aes|rsa|ssh|db|vault|user)[ _.-]?$"
)
_NOT_SECRET = re.compile(
    r"public|csrf|xsrf|cancel|next|page|continu|syntax|pubkey|primary|foreign|design|stop|pad|mask|authenticity|verification"
)
# Words that are written together with "my" or "the": şifrem, salasanani, jelszavam, κωδικός, lösenordet, паролата.
_WITH_ENDINGS = frozenset(
    "şifre parola salasana jelsz lozink geslo slaptažod κωδικό סיסמ lösenord passord adgangskode парола".split()  # noqa: SIM905
)
_ENDING = re.compile(r"\w{0,6}(?: (?:on|yra)(?=\s))?")  # with the "is" of Finnish and Lithuanian
_NAME_LEFT = re.compile(r"[A-Za-z0-9_.\-]{0,40}$")
_TAIL = r"(?P<tail>(?:[_-]?(?:value|plain|base64|b64|prod|production|dev|staging|live|string|hash|\d{1,3})){0,2})"
_GAP = r"""(?:\[\d{0,4}\]|\\{0,3}["'`\]*_]){0,4}"""
_TYPE = r"""(?:\s{0,2}:\s{0,2}&?'?[A-Za-z_][\w.\[\]<>| ]{0,40}?(?=\s{0,4}=)|[ ]string(?=[ ]=))?"""
# Whose or what for, before the value: "for the router", "du wifi", "của tôi".
_OF = (
    r"""\s+(?:(?:for|to|of|für|fürs|vom|von|zum|zur|der|des|pour|du|de|para|del|della|do|da|per|voor|till|til|k|na|для"""
    r"""|от|к|на)\s[^\n:=]{1,40}?"""
    r"""|mea|saya|của tôi|μου|שלי)"""
)
_SIGN = (
    r"""(?P<sign>\s{0,8}(?:===?|!=|:=|=>|=|:|：|->|＝)(?:\*{0,2}[ \t]{0,8}|\*{0,2}\s{0,16}(?=["'`]))"""
    r"""|[:：]\*{0,2}[ \t]{0,8}(?:\r?\n){1,2}[ \t]{0,8}(?=[^\s:=]{4,512}+[ \t]{0,8}(?:[\r\n]|\Z))"""  # on a line
    r"""|\s{0,4},\s{0,4}(?=\\{0,3}["'])|\((?=\\{0,3}["'])|\s{0,4}\|\s{0,4}"""
    r"""|["']?\s{1,4}(?:value|content)\s{0,2}=\s{0,2}|>(?=[^<\s]{4,})|["']?\s{0,8}\n\s{0,16}value:\s{0,4}"""
    rf"""|(?:{_OF})?\s{{1,3}}"""
    r"""(?:is|was|ist|lautet|heißt|war|est|c'est|es|era|é|è|jest|je|är|er|to|este|là|adalah|это|е|είναι|هي|היא|है|—|–|→|-):?"""
    r"""\s{1,3}(?:now\s|:\s)?"""
    rf"""|{_OF}\s{{0,2}}[:：]\s{{0,3}}"""
    r"""|[ \t]?(?:是|为|為|は|：|는|은|(?:ของ(?:ฉัน|ผม|เรา))?คือ)[ \t]{0,2}|[ \t]{1,3}|\s{0,2}\n\s{0,4})"""
)
_FLAG_SIGN = r"(?P<flag_sign>[ \t]{1,4}|\s{0,2}\\\n\s{0,16})"
_VALUE = (
    r"""(?:(?P<open>\\{0,3}["'`])(?P<quoted>[^"'`\n\\]{1,512}+(?:\\(?!["'`])[^"'`\n\\]{0,128}+){0,16})(?:\\{0,3}["'`])"""
    r"""|(?:\*\*|\\{0,3}["'`])?(?P<bare>[!-~À-ӿ\u05d0-\u05ea\u0620-\u06ff](?<![\s"'`<>,;()\[\]])[^\s"'`<>,;()\[\]，。、！،؛۔]{2,511}+)(?P<after>[(\[]?))"""
)
_ASSIGN = re.compile(_TAIL + _GAP + _TYPE + _SIGN + r"(?:@|b|r|f|u)?" + _VALUE, re.IGNORECASE)
_FLAG = re.compile(_TAIL + _FLAG_SIGN + _VALUE, re.IGNORECASE)
_CHAIN = re.compile(r"[A-Za-z_][\w]*(?:(?:\.|::|->)[A-Za-z_]\w*)+")
_PATH = re.compile(r"(?:~|\.{0,2})/[\w.-]*/|[A-Za-z][\w+.-]*:[/\\]")
_STRAY = re.compile(r"(?<![A-Za-z0-9+/=_.-])[A-Za-z0-9+/_-]{20,200}+={0,2}+(?![A-Za-z0-9+/_.-])")
_DIGIT, _LETTER, _SPECIAL = re.compile(r"\d"), re.compile(r"[^\W\d_]"), re.compile(r"[^\w.:/-]")
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)


# Quotation marks and blanks as word processors, telephones and other languages write them.
_TYPED = str.maketrans("“”„‟«»「」『』‘’‚‛\u00a0\u2007\u202f\u3000", '"' * 10 + "'" * 4 + " " * 4)


def _folded(text: str) -> str:
    """Lower case of the same length: İ is the one character whose lower case is longer."""
    return text.replace("İ", "i").lower()


@dataclass(frozen=True, slots=True)
class _Key:
    """A key word in the text: where it ends, what it promises, how it is written."""

    end: int
    kind: Kind
    is_flag: bool
    is_upper: bool
    chars_min: int


@dataclass(frozen=True, slots=True)
class KeyValueDetector:
    """`password = "…"`, `API_KEY: …`, `--token …`, `"secret": "…"`, `my password is …`, in a dozen languages."""

    def find(self, text: str) -> Iterator[Finding]:
        """Yield values of secret-sounding keys, and random strings within 60 characters after such a word."""
        text = text if text.isascii() else text.translate(_TYPED)
        folded = _folded(text)
        for word, kind in _KEY_WORDS.items():
            at = folded.find(word)
            while at >= 0:
                end = at + len(word)
                key = _key_at(text, folded, at, word, kind)
                span = (_value_span(text, key) or _stray_span(text, key)) if key else None
                if span:
                    yield Finding(*span, f"{_family(word, kind)}/key")
                    end = max(end, span[1])
                at = folded.find(word, end)


def _family(word: str, kind: Kind) -> str:
    return "api-key" if "key" in word else kind


def _key_at(text: str, folded: str, at: int, word: str, kind: Kind) -> _Key | None:
    before = folded[max(0, at - 24) : at]
    if word == "key" and not _KEY_BEFORE.search(before):
        return None
    left = _NAME_LEFT.search(text, max(0, at - 40), at)
    name = (left.group() if left else "") + text[at : at + len(word)]
    if _NOT_SECRET.search(name.lower()):
        return None
    end = at + len(word)
    if word == "passw":
        end += len(re.match(r"ord|d|ort|", folded[end : end + 3]).group())  # type: ignore[union-attr]
    elif word[-1] in '=":':
        end -= 1
    elif word in _WITH_ENDINGS:
        end = _ENDING.match(text, end).end()  # type: ignore[union-attr]
    chars_min = API_KEY_CHARS_MIN if word == "key" else TOKEN_CHARS_MIN
    return _Key(end, kind, name.startswith("-"), name.isupper() and len(name) > len(word), chars_min)


def _value_span(text: str, key: _Key) -> tuple[int, int] | None:
    match = _ASSIGN.match(text, key.end)
    if not match and key.is_flag:
        match = _FLAG.match(text, key.end)
    if not match:
        return None
    quoted = match["quoted"] is not None
    start, end = match.span("quoted" if quoted else "bare")
    start += quoted and text[start] == " "  # as French sets one on both sides
    end = _trimmed_end(text, start, end, quoted=quoted)
    value = text[start : min(end, start + JUDGED_CHARS)]
    if not quoted and text.startswith("...", end):  # cut short by its writer
        return None
    sign = match.groupdict().get("sign") or "="
    if not value or (match["after"] and not quoted) or " " in value:
        return None
    if not quoted and (_CHAIN.fullmatch(value) or _PATH.match(value)):
        return None
    is_prose = any(c.isalpha() for c in sign) or sign.strip()[:1] in "(,>|"  # white space alone included
    good = _is_password(value, key, quoted, is_prose) if key.kind == "password" else _is_token(value, key.chars_min)
    return (start, end) if good and not looks_like_placeholder(value) else None


def _trimmed_end(text: str, start: int, end: int, *, quoted: bool) -> int:
    if quoted:
        return end - (text[end - 1] == " ")
    for stop in ("&", "\\n", "\\r"):  # of a query string, of escaped text
        cut = text.find(stop, start + 1, end)
        if cut >= 0 and (stop != "&" or "=" in text[cut:end]):
            end = cut
    while end > start and text[end - 1] in ".:!?*}。\\":
        end -= 1
    return end


def _is_password(value: str, key: _Key, quoted: bool, is_prose: bool) -> bool:
    if len(value) < PASSWORD_CHARS_MIN:
        return False
    digits = len(_DIGIT.findall(value))
    letters = len(_LETTER.findall(value))
    special = _SPECIAL.search(value) is not None
    if is_prose:
        marked = digits or (special and len(value) >= 8 and not value.endswith("="))
        return len(value) >= 6 and letters > 0 and bool(marked) and not is_word_like(value)
    if digits or special:
        return letters + digits >= 3 and not (not quoted and is_word_like(value) and "-" in value)
    both = value != value.lower() and value != value.upper() and not value.istitle()
    return (quoted and (len(value) >= 8 or both)) or (key.is_upper and len(value) >= 6)


def _is_token(value: str, chars_min: int) -> bool:
    if len(value) < chars_min or not value.isascii() or is_word_like(value):
        return False
    digits = len(_DIGIT.findall(value))
    if not _LETTER.search(value) or re.search(r"[{}$:]", value):
        return False
    enough = shannon_bits(value) >= TOKEN_BITS_MIN
    return enough and (digits >= 2 or (len(value) >= STRAY_CHARS_MIN and shannon_bits(value) >= STRAY_BITS_MIN))


def _stray_span(text: str, key: _Key) -> tuple[int, int] | None:
    stop = min(len(text), key.end + 60)
    newline = text.find("\n", key.end, stop)
    match = _STRAY.search(text, key.end, newline if newline >= 0 else stop)
    if not match:
        return None
    match = _STRAY.match(text, match.start())  # the window may have cut it
    return match.span() if match and is_random(match.group()) else None


def is_random(value: str) -> bool:
    """True for a mixed string no person would write and no digest is: both cases, 3 digits, `STRAY_BITS_MIN`."""
    if _UUID.fullmatch(value) or is_word_like(value) or looks_like_placeholder(value) or value.count("/") > 2:
        return False
    cases = any(c.islower() for c in value) and any(c.isupper() for c in value)
    return cases and sum(c.isdigit() for c in value) >= 3 and shannon_bits(value) >= STRAY_BITS_MIN


_URL = re.compile(r"://(?P<user>[^\s:/?#\[\]@'\"<>]{0,128}+):(?P<secret>[^\s/'\"<>]{3,256})@(?=[\w.\[{$-])")


@dataclass(frozen=True, slots=True)
class UrlDetector:
    """`scheme://user:password@host`: the password."""

    def find(self, text: str) -> Iterator[Finding]:
        """Yield passwords inside URLs."""
        at = text.find("://")
        while at >= 0:
            match = _URL.match(text, at)
            if match and not looks_like_placeholder(match["secret"]) and not match["secret"].isspace():
                yield Finding(*match.span("secret"), "connection/url")
            at = text.find("://", at + 3)


_HEADER = re.compile(
    r"""(?:authorization|x-[a-z-]{0,30}key|apikey|api-key|api-token|x-[a-z-]{0,30}token|private-token|\btoken|cookie)"""
    r"""\\{0,3}["']?\s{0,2}[:=]\s{0,4}\\{0,3}["']?\s{0,2}"""
    r"""(?:(?:basic|bearer|token|api-token|api-key|apikey|key|digest|bot)\s{1,3}|[\w.-]{0,20}(?:sess|sid|auth)[\w.-]{0,12}=)?"""
    r"""(?P<secret>[A-Za-z0-9+/=_.~@:-]{8,4000}+)""",
    re.IGNORECASE,
)
_BEARER = re.compile(r"bearer\s{1,3}(?P<secret>[A-Za-z0-9+/=_.~-]{12,4000}+)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class HeaderDetector:
    """`Authorization: <scheme> …`, `X-Api-Key: …`, and `Bearer …` wherever it stands."""

    def find(self, text: str) -> Iterator[Finding]:
        """Yield credentials of HTTP headers."""
        folded = _folded(text)
        for pattern, words in ((_HEADER, _HEADER_WORDS), (_BEARER, ("bearer ",))):
            for word in words:
                at = folded.find(word)
                while at >= 0:
                    match = pattern.match(text, at)
                    if match and _is_credential(match["secret"]):
                        yield Finding(*match.span("secret"), "authorization/header")
                    at = folded.find(word, max(at + len(word), match.end() if match else 0))


_HEADER_WORDS = ("authorization", "cookie", "x-", "apikey", "api-key", "api-token", "private-token")


def _is_credential(value: str) -> bool:
    if looks_like_placeholder(value) or is_word_like(value) or "://" in value:
        return False
    mixed = any(c.isupper() for c in value[1:]) and any(c.islower() for c in value)
    return shannon_bits(value) >= TOKEN_BITS_MIN and (any(c.isdigit() for c in value) or (mixed and len(value) >= 16))


_CURL_USER = re.compile(
    r"""(?:-u|--user|--proxy-user)(?:[ =\t]{0,4}|\s{0,2}\\\n\s{0,16})(?P<q>["'])?(?P<user>[^\s"':]{0,128}+)"""
    r"""(?:["']:["']|:["'](?=[^\s"']{4})|:)(?P<secret>(?(q)[^"'\n]{0,256}|[^\s"']{0,256}))"""
)
_CLI = re.compile(
    r"""(?:sshpass\s{1,4}-p\s{0,4}|mysql(?:dump)?\s[^\n]{0,120}?\s-p|redis-cli\s[^\n]{0,120}?-a\s{1,4})"""
    r"""["']?(?P<secret>[^\s"']{4,128}+)"""
)


@dataclass(frozen=True, slots=True)
class CommandDetector:
    """`curl -u user:password`, `sshpass -p …`, `mysql -p…`, `redis-cli -a …`."""

    def find(self, text: str) -> Iterator[Finding]:
        """Yield passwords given on a command line."""
        at = text.find("curl")
        while at >= 0:
            stop = text.find("curl", at + 4)
            yield from self._in_curl(text, at, min(at + 2000, stop if stop >= 0 else len(text)))
            at = stop
        for word in ("sshpass", "mysql", "redis-cli"):
            at = text.find(word)
            while at >= 0:
                match = _CLI.match(text, at)
                if match and not looks_like_placeholder(match["secret"]):
                    yield Finding(*match.span("secret"), "password/command")
                at = text.find(word, at + len(word))

    def _in_curl(self, text: str, start: int, stop: int) -> Iterator[Finding]:
        for match in _CURL_USER.finditer(text, start, stop):
            user, secret = match["user"], match["secret"]
            group = "secret" if secret else "user"  # an API token is often the user, with an empty password
            value = match[group]
            hidden = looks_like_placeholder(value.strip("{}<>[]")) or "$" in user or (secret and user == secret)
            if len(value) >= PASSWORD_CHARS_MIN and not hidden and not re.match(r"\$?\(|\$\w|[{]{2}|<", value):
                yield Finding(*match.span(group), "password/command")


_BLOCK = re.compile(r"-{4,5} ?BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)? ?-{4,5}")
# Headers are read whole, in one way: before no body each blank line more took 1.7 times as long (20: .1 s).
_BLOCK_BODY = re.compile(
    r"(?:(?:\s|\\[nr]?){0,64}+(?:Proc-Type|DEK-Info|Comment|Version): ?"
    r"(?>[^\n\\]{0,120}+(?=[\n\\])|(?:(?![A-Za-z0-9+/=]{16})[^\n\\]){0,120}+)){0,8}+(?:\s|\\[nr]?){0,64}+"
    r"(?:(?:\\[nr]|[\s>|*#\"'+\\]){0,24}+[A-Za-z0-9+/=]{16,}+)+"
)
_TAIL_END = re.compile(r"-{4,5} ?END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)? ?-{0,5}")
_LINE_BREAK = re.compile(r"\r?\n|\\n")
_BREAK_BEFORE = re.compile(r"(?:\r?\n|\\n)$")
_KEY_LINE = re.compile(r"[A-Za-z0-9+/=]{1,80}")
_LAST_LINE = re.compile(r"[A-Za-z0-9+/=]{16}")
_PUTTY = re.compile(
    r"Private-Lines: ?\d{1,3}\s{1,4}(?:[A-Za-z0-9+/=]{8,80}\s{1,4}){1,200}+(?:Private-MAC: ?[a-f0-9]{40,64})?"
)
BLOCK_CHARS_MAX = 200_000
TAIL_CHARS_MAX = 20_000
"""How far back the lines of a block without a beginning are looked for; an RSA key of 16,384 bits has 12,800."""
BLOCK_BODY_CHARS_MIN = 12


@dataclass(frozen=True, slots=True)
class KeyBlockDetector:
    """Private key blocks (PEM, OpenSSH, PGP, PuTTY) over many lines, escaped or not, whole or cut off."""

    def find(self, text: str) -> Iterator[Finding]:
        """Yield blocks from BEGIN to END, or as far as the body reaches where END is missing."""
        end_at = 0
        for match in _BLOCK.finditer(text):
            if end_at >= 0 and end_at < match.end():
                end_at = text.find("-END ", match.end())
            end = _block_end(text, match.end(), end_at)
            if end:
                yield Finding(match.start(), end, "private-key/block")
        yield from self._tails(text)
        if "Private-Lines:" in text:
            for match in _PUTTY.finditer(text):
                yield Finding(*match.span(), "private-key/putty")

    def _tails(self, text: str) -> Iterator[Finding]:
        """The rest of a block whose beginning stands elsewhere: lines of base64 up to an END that nothing opened."""
        opened = 0
        for close in _TAIL_END.finditer(text):
            low = max(opened, close.start() - TAIL_CHARS_MAX)
            lines = None if "BEGIN " in text[low : close.start()] else _body_before(text, low, close.start())
            if lines is not None:
                yield Finding(lines, close.end(), "private-key/tail")
            opened = close.end()


def _body_before(text: str, low: int, end: int) -> int | None:
    """Where the lines of base64 that end at `end` begin; None where there are none."""
    start = end
    for line in reversed(_LINE_BREAK.split(text[low:end])):
        bare = line.strip(" \t>|*#\"'+")
        if bare and not _KEY_LINE.fullmatch(bare):
            break
        start -= len(line)
        low_break = _BREAK_BEFORE.search(text, max(low, start - 2), start)
        if low_break is None:
            break
        start = low_break.start()
    while start < end and text[start].isspace():
        start += 1
    return start if _LAST_LINE.search(text, start, end) else None


def _block_end(text: str, body: int, end_at: int) -> int:
    """Where the block that opened before `body` ends; 0 for a block with nothing in it."""
    is_closed = 0 <= end_at - body <= BLOCK_CHARS_MAX and text.find("BEGIN ", body, end_at) < 0
    if is_closed:
        if sum(not c.isspace() for c in text[body : min(end_at, body + 200)].rstrip("-")) < BLOCK_BODY_CHARS_MIN:
            return 0
        close = re.compile(r"-END [A-Z0-9 ]{0,48}-{0,5}").match(text, end_at)
        return close.end() if close else end_at
    match = _BLOCK_BODY.match(text, body)
    return match.end() if match else 0


_PHRASE = re.compile(
    r"(?:seed|recovery|mnemonic)(?:[ -]?phrase)?s?(?:\s(?:is|are|was))?\s{0,3}[:=]?\s{0,3}[\"'`]?"
    r"(?P<secret>(?:[a-z]{3,8}[ \t\n,]{1,3}){11,23}+[a-z]{3,8})\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class PhraseDetector:
    """The 12 to 24 words that open a wallet, after `seed phrase`, `recovery phrase` or `mnemonic`."""

    def find(self, text: str) -> Iterator[Finding]:
        """Yield word lists; ordinary sentences fail on their one- and two-letter words."""
        folded = _folded(text)
        for word in ("seed", "recovery", "mnemonic"):
            at = folded.find(word)
            while at >= 0:
                match = _PHRASE.match(text, at)
                if match:
                    yield Finding(*match.span("secret"), "private-key/phrase")
                at = folded.find(word, at + len(word))
