"""The tools of the AWS Neuron SDK, and its compile cache."""
