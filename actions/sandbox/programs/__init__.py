"""The programs of containers: output as a function of time and parameters, written to a stream."""
