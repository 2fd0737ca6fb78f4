"""A program that Google's puller runs for each task. It reads and writes files and uses no queue.

To try it, in this folder:

    pullqueue serve --port-file port.txt queue.yaml &
    python results.py &
    pullqueue wait --port-file port.txt
    pullqueue tasks add texts 'to be or not to be' --name hamlet
    gtaskqueue_puller --project my-app --taskqueue_name texts --exit_when_empty \
        --executable_binary 'python count_words.py' \
        --output_url 'http://127.0.0.1:8080/done?name='

The first file contains the payload of the task. What the program writes to the second is posted to
`output_url`. If the program ends with status 0 the task is deleted, otherwise it is leased again.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path


def main(payload: Path, output: Path) -> None:
    """Count the words of a text."""
    counts = Counter(payload.read_text("utf-8").split())
    output.write_text(json.dumps(counts, sort_keys=True), "utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
