"""What every room may use: errors, time, files, processes and the filter for foreign text."""
