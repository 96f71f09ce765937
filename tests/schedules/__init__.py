"""Seeded fault schedules: whole lives of a small run, with the real programs, and what must hold at their end."""
