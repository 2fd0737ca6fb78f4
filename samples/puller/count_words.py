"""A program that Google's puller runs for each task: it knows two files, and nothing of queues.

pullqueue serve samples/puller/queue.yaml
python samples/puller/results.py
pullqueue tasks add texts 'to be or not to be' --name hamlet
gtaskqueue_puller --project my-app --taskqueue_name texts \
    --executable_binary 'python samples/puller/count_words.py' \
    --output_url 'http://127.0.0.1:8080/done?name='

The first file has the task's payload, and what is put into the second is posted to the app. A task
is deleted when this ends with status 0, and leased again when it does not.
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
