"""Does a sentence say only what was said? A sentence and what it may draw on in, yes or no out.

A model writes the sentence after it has read more than the user: tools, pages, memory. So each word of it must have
been said, in some inflection ("I like", "the user likes"; "ich wohne", "wohnt"), and figures as they are. Free are
words that say nothing by themselves (English, and of the language that was spoken), the speaker's being called the
user, and a "not" where the fact is a denial or its words are. What this cannot follow it refuses: irregular verbs,
synonyms, small words of other languages; the fact is then told by its own parts. Bounds words, not meaning: those
that were said pass in any order. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from memory.read.lexical import stem, words_in
from memory.read.stems import SNOWBALL, stem_in, without_accents
from policies.text import normalised

_ROOT_CHARS_MIN: Final = 3  # what two forms of a word share at least: "viv-o", "viv-e"
_ENDING_CHARS_MAX: Final = 3  # and what each has beside it at most: "learn", "learn-ing"
# Scripts without spaces between words, and Hangul, whose particles are written on: character by character.
_UNSPACED: Final = re.compile(
    "[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uac00-\ud7af\u0e00-\u0eff\U00020000-\U0003134f]"
)


def _listed(words: str) -> frozenset[str]:
    return frozenset(without_accents(words).split())


_SPEAKER: Final = _listed(
    """user users speaker benutzer benutzerin nutzer nutzerin anwender utilisateur utilisatrice usuario usuaria utente
    utilizador gebruiker användare användaren bruger brugeren bruker brukeren käyttäjä użytkownik uživatel uporabnik
    korisnik felhasználó utilizatorul kullanıcı пользователь користувач χρήστης"""
)
_SMALL_ENGLISH: Final = _listed(
    """a an the and or but of to in on at by for from with as into onto about after before during between through over
    under up out off than then that this these those there here it its itself he him himself his she her hers herself
    they them their theirs themselves we our ours us i me my mine myself you your yours who whom whose which what when
    where while how why because if so such too also both each own same is are was were be been being am has have had
    having do does did doing will would can could s t d m re ve ll named called currently use uses
    used using say says said"""
)
_SMALL: Final[Mapping[str, frozenset[str]]] = {
    "de": _listed(
        """der die das den dem des ein eine einen einem einer eines und oder aber er sie es ihn ihm ihr ihre ihren
        ihrem ihrer ihres sein seine seinen seinem seiner seines sich ich mein meine meinen meinem meiner meines
        mich mir wir unser unsere ist sind war waren hat haben hatte hatten habe bin wird werden wurde als auf aus
        bei für im in mit nach seit über um unter von vom vor wie zu zum zur an am auch dass heißt"""
    ),
    "fr": _listed(
        """le la les l un une des du de d et ou mais il elle ils elles lui leur leurs son sa ses se s je j me m mon
        ma mes nous notre nos est sont était a ont avait ai suis en dans sur sous avec chez pour par que qu qui au
        aux ce cette ces comme depuis"""
    ),
    "es": _listed(
        """el los las la lo un una unos unas de del a al y o e en se pero él ella ellos ellas su sus yo me mi mis
        nosotros nuestro nuestra es son era está están estoy soy ha han he tiene tengo con por para que quien como
        desde sobre entre"""
    ),
    "it": _listed(
        """il lo la i gli le l un uno una di del della dei degli delle da dal dalla in nel nella a al alla su sul
        sulla e ed o ma lui lei loro suo sua suoi sue si io mi mio mia miei mie noi nostro nostra è sono ho ha hanno
        che chi come con per tra fra"""
    ),
    "pt": _listed(
        """o a os as um uma uns umas de do da dos das em na nos nas ao aos e ou mas ele ela eles elas seu sua seus
        suas se eu me meu minha meus minhas nosso nossa é são foi está estão estou sou tem tenho com por para que
        quem como"""
    ),
    "nl": _listed(
        """de het een en of maar hij zij ze hem haar hun zijn ik me mijn mij wij we onze ons is was heeft hebben heb
        ben wordt in op uit bij voor met naar van over aan te als die dat"""
    ),
}
_SMALL_CHARACTERS: Final = frozenset(
    "用户戶使者的是在了有和与與也他她其ユーザはがをにでとのもへだるいてすま사용자는은이가을를에서의도와과"
)
_DENIALS: Final = _listed(
    """no not nor never neither none without don doesn didn isn aren wasn weren hasn haven hadn won wouldn cannot
    couldn nicht kein keine keinen keinem keiner nie niemals ohne ne n pas jamais sans nunca sin non mai senza não
    sem niet geen nooit zonder 不 没 沒 無 안 없"""
)
# What is over is denied by these words too.
_ENDS: Final = _listed(
    """stop stops stopped quit quits left leave leaves ended ends former formerly previously cancelled canceled sold
    dropped gave past used ex nicht früher ehemals war plus ancien ancienne ya antes dejó ex aufgehört verlassen"""
)
_BESIDE_DENIALS: Final = _listed("any anymore longer more mehr plus ya más più mais meer")


@dataclass(frozen=True, slots=True)
class Said:
    """The words of texts, their stems, and the words by their beginnings."""

    words: frozenset[str]
    stems: frozenset[str]
    by_root: Mapping[str, tuple[str, ...]]
    language: str | None = None

    @classmethod
    def of(cls, *texts: str, language: str | None = None) -> Said:
        """What these texts say. Linear in them."""
        words = frozenset(word for text in texts for word in _split(text))
        by_root: dict[str, list[str]] = {}
        for word in words:
            if word.isalpha():
                by_root.setdefault(word[:_ROOT_CHARS_MIN], []).append(word)
        roots = {root: tuple(some) for root, some in by_root.items()}
        return cls(words, frozenset(one for word in words for one in _stems(word, language)), roots, language)

    def has(self, word: str) -> bool:
        """Whether the word was said, in this form or another."""
        if word in self.words or not word.isalpha():
            return word in self.words
        plurals = (f"{word}s", f"{word}es", word.removesuffix("s"), word.removesuffix("es"))
        if not self.words.isdisjoint(plurals) or not self.stems.isdisjoint(_stems(word, self.language)):
            return True
        return any(_is_form(word, known) for known in self.by_root.get(word[:_ROOT_CHARS_MIN], ()))


def says_only(sentence: str, said: Said, parts: Said, *, denies: bool, evidence: str) -> bool:
    """Whether a sentence about a fact keeps to what was `said` and to the fact's own `parts`."""
    free = _SPEAKER | _SMALL_CHARACTERS | _SMALL_ENGLISH | _SMALL.get(said.language or "", frozenset())
    may_deny = denies or not _DENIALS.isdisjoint((*_split(evidence), *parts.words))
    if may_deny:
        free |= _DENIALS | _BESIDE_DENIALS
    return all(
        word in free or (word not in _DENIALS and (said.has(word) or parts.has(word))) for word in _split(sentence)
    )


def says_not(sentence: str) -> bool:
    """Whether a sentence tells that something is not so, or not any more."""
    return not (_DENIALS | _ENDS).isdisjoint(_split(sentence))


def _split(text: str) -> list[str]:
    """Words without case and accents; of unspaced scripts the characters."""
    return words_in(_UNSPACED.sub(r" \g<0> ", normalised("NFKC", text)))


def _stems(word: str, language: str | None) -> tuple[str, ...]:
    return (stem(word), stem_in(word, language)) if language in SNOWBALL and language else (stem(word),)


def _is_form(word: str, known: str) -> bool:
    """Whether two words have one beginning and short endings."""
    short, long = sorted((word, known), key=len)
    root = next((at for at, (one, other) in enumerate(zip(short, long, strict=False)) if one != other), len(short))
    return root >= _ROOT_CHARS_MIN and len(long) - root <= _ENDING_CHARS_MAX
