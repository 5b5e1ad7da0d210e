"""The limits of the parsing process: nothing in, a process that can do little but compute out.

Imported first: what pypdf would take where it finds it (pictures, fonts) is not there in this process, so that a file
is read alike everywhere and by less code. Needs the kernel for the rest; past a limit of time it ends this process.
"""

from __future__ import annotations

import codecs
import ctypes
import importlib
import os
import resource
import signal
import sys
from typing import Final

# Loaded while files can be opened: what pypdf imports when it is needed, what zipfile reads names in, and the encodings
# that HTML, CSV and the fonts of PDFs name.
_MODULES: Final = """pypdf._codecs.core_font_metrics pypdf._configuration pypdf._encryption pypdf._page pypdf.filters
    pypdf.xmp"""
_ENCODINGS: Final = """ascii latin-1 cp1250 cp1251 cp1252 cp1253 cp1254 cp1255 cp1256 cp1257 cp1258 iso8859-2 iso8859-3
    iso8859-4 iso8859-5 iso8859-6 iso8859-7 iso8859-8 iso8859-9 iso8859-10 iso8859-13 iso8859-14 iso8859-15 iso8859-16
    koi8-r koi8-u mac-roman mac-cyrillic cp437 cp850 cp852 cp866 cp874 tis-620 utf-7 utf-8-sig utf-16 utf-16-le
    utf-16-be utf-32 utf-32-le utf-32-be gbk gb2312 gb18030 big5 big5hkscs shift_jis cp932 euc_jp iso2022_jp euc_kr
    cp949 charmap"""
_DIES_WITH_PARENT: Final = 1  # PR_SET_PDEATHSIG
_NICENESS: Final = 15

for _name in ("PIL", "fontTools", "brotli"):
    sys.modules.setdefault(_name, None)  # type: ignore[arg-type]  # None: importing it raises ImportError


def bound(memory_bytes: int, cpu_s: int, wall_s: int) -> None:
    """Limits that hold whatever the file does."""
    for module in _MODULES.split():
        importlib.import_module(module)
    for encoding in _ENCODINGS.split():
        codecs.lookup(encoding)
    os.nice(_NICENESS)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_DIES_WITH_PARENT, signal.SIGKILL)
    signal.alarm(wall_s)
    _limit(resource.RLIMIT_AS, memory_bytes, memory_bytes)
    _limit(resource.RLIMIT_CPU, cpu_s, cpu_s + 1)
    _limit(resource.RLIMIT_FSIZE, 0, 0)
    _limit(resource.RLIMIT_CORE, 0, 0)


def open_no_more() -> None:
    """No file and no socket beyond the three streams; no process either, but for root, whom the kernel lets."""
    _limit(resource.RLIMIT_NOFILE, 3, 3)
    _limit(resource.RLIMIT_NPROC, 0, 0)


def _limit(what: int, soft: int, hard: int) -> None:
    """Set a limit; fails closed on Linux. macOS knows some of them in name only: there it goes on with the others."""
    try:
        resource.setrlimit(what, (soft, hard))
    except (ValueError, OSError):
        if sys.platform == "linux":
            raise
