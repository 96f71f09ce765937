"""Seeded fault schedules: whole lives of a small run, with the real programs, and what must hold at their end."""

from tests.support import zygote

zygote.install()  # before anything here imports the start of a runner
