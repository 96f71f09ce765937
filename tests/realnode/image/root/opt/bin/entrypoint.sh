#!/usr/bin/env python3
"""AWS's exporter of neuron-monitor: `--port N`."""

import sys

from eksml_cpu import exporter

words = sys.argv[1:]
port = int(words[words.index("--port") + 1]) if "--port" in words else 8000
TEXT = "# HELP neuroncore_utilization_ratio NeuronCore utilization ratio\n# TYPE neuroncore_utilization_ratio gauge\n"
exporter.serve(port, TEXT, f"Running HTTP server on port {port}")
