"""Volcano: gangs, queues, and the scheduler that places them."""
