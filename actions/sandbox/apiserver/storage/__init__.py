"""Types, objects and refusals: the data that all of the API server works on."""
