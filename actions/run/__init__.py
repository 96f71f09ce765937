"""Doing a blueprint durably: journal, runner, stages, teardown."""
