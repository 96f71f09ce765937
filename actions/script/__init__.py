"""The script language: parse, play, record, report."""
