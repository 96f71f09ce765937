"""What containers print and answer: programs of time and parameters that write only to a stream."""
