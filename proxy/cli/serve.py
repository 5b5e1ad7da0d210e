"""`serve` and `init`: parsed options in, a running service or a written file out."""

from __future__ import annotations

import argparse
import os
import sys

from memory.config import Settings, load_settings, render_config
from memory.errors import ConfigInvalid
from proxy.cli.whole_file import whole_file
from proxy.supervisor.supervisor import run_supervisor


def settings_of(options: argparse.Namespace) -> Settings:
    """Settings from file, environment and options. Raises ConfigInvalid with every fault."""
    overrides = {
        "upstream.url": options.upstream,
        "listen.host": options.host,
        "listen.port": options.port,
        "listen.workers": getattr(options, "workers", None),
        "data.dir": options.data_dir,
    }
    return load_settings(options.config, overrides, os.environ)


def run_serve(options: argparse.Namespace) -> int:
    """Serve in the foreground."""
    try:
        settings = settings_of(options)
    except ConfigInvalid as fault:
        sys.stderr.write(f"memory-proxy: the configuration cannot be used:\n{fault}\n")
        return 1
    return run_supervisor(settings, os.environ)


def run_init(options: argparse.Namespace) -> int:
    """Write the commented configuration."""
    try:
        if options.file.exists() and not options.force:
            sys.stderr.write(f"memory-proxy: {options.file} exists; --force overwrites it\n")
            return 1
        with whole_file(options.file) as file:
            file.write(render_config(Settings()).encode())
    except OSError as fault:
        sys.stderr.write(f"memory-proxy: cannot write {options.file}: {fault.strerror}\n")
        return 1
    sys.stdout.write(f"wrote {options.file}: edit it, then `memory-proxy serve --config {options.file}`\n")
    return 0
