"""Commands that look: at a cluster, at one of its jobs or ports, at the output of tools."""
