"""The ground of all packages: errors, time, files, processes and the filter for foreign text."""
