"""The script language: parse, play, report."""
