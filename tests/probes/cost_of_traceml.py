"""What TraceML's step costs on the same step, under its own launcher. What it patches for good is in both halves: the least it adds.

usage: python -m traceml_ai.launcher.cli run cost_of_traceml.py, COST_FILE set; writes JSON there: the median step without it in ms, and what it adds
"""

import json
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import traceml_ai
from by_turns import measure

traceml_ai.init(mode="auto")
without, added = measure(
    int(os.environ.get("BLOCKS", "61")), lambda on: None, around=traceml_ai.trace_step
)
with open(os.environ["COST_FILE"], "w", encoding="utf-8") as file:
    json.dump({"without_ms": without, "adds_ms": added["added"]}, file)
