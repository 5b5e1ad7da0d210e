"""Levers inside the service's Python processes: a preloaded library that moves a clock and breaks names.

In: which process, how many seconds; or what becomes of NAME and STORE. Out: the environment to start the service with.
The wall clock of one process is moved (CLOCK_REALTIME; the monotonic one goes on, as on a machine whose clock is set);
a name is 127.0.0.1, unknown, or never answered. Raises NoCompiler where there is no C compiler. Linux only.
"""

import asyncio
import mmap
import shutil
import struct
from pathlib import Path
from typing import Final, Literal

from bench.crash.slow_disk import NoCompiler

NAME: Final = "vllm.fault.test"
STORE: Final = "store.fault.test"
CLOCKS_MAX: Final = 64
_CLOCK: Final = struct.Struct("=qq")
_HEAD: Final = struct.Struct("=qq")
_NAMES: Final = (NAME, STORE)
_MODES: Final = {"answers": 0, "unknown": 1, "hangs": 2}
SOURCE: Final = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <netdb.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>
struct levers { volatile int64_t names[2]; volatile struct { int64_t pid, offset_s; } clocks[CLOCKS]; };
static const struct levers *levers;
__attribute__((constructor)) static void reach(void) {
    const char *path = getenv("FAULT_LEVERS");
    int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    void *at = fd < 0 ? MAP_FAILED : mmap(0, sizeof *levers, PROT_READ, MAP_SHARED, fd, 0);
    if (at != MAP_FAILED) levers = at;
    if (fd >= 0) close(fd);
}
static int64_t moved_s(void) {
    if (levers) for (int i = 0; i < CLOCKS && levers->clocks[i].pid; i++)
        if (levers->clocks[i].pid == getpid()) return levers->clocks[i].offset_s;
    return 0;
}
int clock_gettime(clockid_t id, struct timespec *at) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int said = real(id, at);
    if (!said && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE)) at->tv_sec += moved_s();
    return said;
}
int gettimeofday(struct timeval *restrict at, void *restrict zone) {
    struct timespec now;
    (void)zone;
    if (at && !clock_gettime(CLOCK_REALTIME, &now)) { at->tv_sec = now.tv_sec; at->tv_usec = now.tv_nsec / 1000; }
    return 0;
}
time_t time(time_t *at) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (at) *at = now.tv_sec;
    return now.tv_sec;
}
int getaddrinfo(const char *node, const char *service, const struct addrinfo *hints, struct addrinfo **found) {
    static int (*real)(const char *, const char *, const struct addrinfo *, struct addrinfo **);
    if (!real) real = (int (*)(const char *, const char *, const struct addrinfo *, struct addrinfo **))
        dlsym(RTLD_NEXT, "getaddrinfo");
    int which = !node ? -1 : !strcmp(node, NAME) ? 0 : !strcmp(node, STORE) ? 1 : -1;
    if (levers && which >= 0) {
        while (levers->names[which] == 2) usleep(20000);
        if (levers->names[which] == 1) return EAI_NONAME;
        node = "127.0.0.1";
    }
    return real(node, service, hints, found);
}
"""


class Levers:
    """The library and the page that it reads. `await Levers.made(root)`."""

    def __init__(self, library: Path, page: Path) -> None:
        self._library = library
        self._path = page
        page.write_bytes(bytes(_HEAD.size + CLOCKS_MAX * _CLOCK.size))
        with page.open("r+b") as file:
            self._page = mmap.mmap(file.fileno(), 0)
        self._clocks: list[int] = []

    @classmethod
    async def made(cls, root: Path) -> "Levers":
        """Compile the library into `root`. Raises NoCompiler."""
        compiler = shutil.which("cc") or shutil.which("gcc")
        if compiler is None:
            raise NoCompiler("no C compiler (cc or gcc) on the PATH")
        source, library = root / "levers.c", root / "levers.so"
        source.write_text(SOURCE)
        defined = (f"-DCLOCKS={CLOCKS_MAX}", f'-DNAME="{NAME}"', f'-DSTORE="{STORE}"')
        argv = (compiler, "-shared", "-fPIC", "-O1", *defined, "-o", str(library), str(source), "-ldl")
        process = await asyncio.create_subprocess_exec(*argv, stderr=asyncio.subprocess.PIPE)
        _, said = await process.communicate()
        if process.returncode != 0:
            raise NoCompiler(f"the C compiler failed: {said.decode(errors='replace')[-300:]}")
        return cls(library, root / "levers.page")

    @property
    def env(self) -> dict[str, str]:
        """What the service is started with."""
        return {"LD_PRELOAD": str(self._library), "FAULT_LEVERS": str(self._path)}

    def move_clock(self, pid: int, offset_s: int) -> None:
        """The wall clock of one process, from its true time. At most CLOCKS_MAX processes in all."""
        if pid not in self._clocks:
            self._clocks.append(pid)
        place = _HEAD.size + self._clocks.index(pid) * _CLOCK.size
        self._page[place + 8 : place + 16] = struct.pack("=q", offset_s)
        self._page[place : place + 8] = struct.pack("=q", pid)

    def names(self, mode: Literal["answers", "unknown", "hangs"], name: str = NAME) -> None:
        """What becomes of NAME, or of STORE."""
        at = 8 * _NAMES.index(name)
        self._page[at : at + 8] = struct.pack("=q", _MODES[mode])
