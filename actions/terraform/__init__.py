"""The terraform program: command line, event stream, plan, driver."""
