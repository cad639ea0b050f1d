"""What a code location of many corpora costs to load: CPU seconds, this process alone.

    python benchmarks/load_corpora.py [CORPORA]

Every corpus has an owner, a group, a schedule, a freshness policy and `on_change`, which is the most that there is to load.
"""

from __future__ import annotations

import itertools
import sys
import tempfile
import time
from pathlib import Path

YAML = """\
description: One of many
owners: ["team:docs"]
group: group_{group}
source: {{path: files}}
schedule: {{cron: "0 3 * * *", on_change: true}}
freshness: {{max_age_hours: 26}}
"""


def main() -> None:
    corpora = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        for number in range(corpora):
            corpus = root / f"corpus_{number:04}"
            (corpus / "files").mkdir(parents=True)
            (corpus / "corpus.yaml").write_text(YAML.format(group=number % 10), encoding="utf-8")
        clock = [("start", time.process_time())]

        from rag_pipeline.corpus_files import load_sound_corpora
        from rag_pipeline.orchestration import build_definitions

        clock.append(("import", time.process_time()))
        configs, faulty = load_sound_corpora(root)
        clock.append(("corpus.yaml", time.process_time()))
        definitions = build_definitions(configs, faulty=faulty)
        clock.append(("definitions", time.process_time()))
        repository = definitions.get_repository_def()
        repository.load_all_definitions()
        clock.append(("repository with all jobs", time.process_time()))

        # What the web server is sent. There is no public way to ask for it.
        from dagster._core.remote_representation.external_data import RepositorySnap
        from dagster_shared.serdes import serialize_value

        size = len(serialize_value(RepositorySnap.from_def(repository, defer_snapshots=True)))
        clock.append(("snapshot for the web server", time.process_time()))
    for (_, before), (name, after) in itertools.pairwise(clock):
        print(f"{name:30} {after - before:6.2f} s")
    print(f"{'all':30} {clock[-1][1] - clock[0][1]:6.2f} s, {corpora} corpora, {size / 1e6:.1f} MB sent")


if __name__ == "__main__":
    main()
