"""Corpora whose corpus.yaml cannot be used: each is an asset with a failed check, and all others load."""

# Dagster reads the annotations of asset functions as objects, so that they cannot be postponed here.
import re
from collections.abc import Sequence

import dagster as dg

from rag_pipeline.corpus_files import FaultyCorpus
from rag_pipeline.hashing import text_hash
from rag_pipeline.orchestration import names
from rag_pipeline.orchestration.markup import escaped


def build_fault_definitions(faulty: Sequence[FaultyCorpus], key_prefix: tuple[str, ...] = ()) -> dg.Definitions:
    """An asset for each of them, and a sensor that reports the failed checks without a run."""
    if not faulty:
        return dg.Definitions()
    found = [(_key(corpus, key_prefix), corpus) for corpus in faulty]

    @dg.sensor(
        name=names.FAULTS_SENSOR,
        minimum_interval_seconds=30,
        default_status=dg.DefaultSensorStatus.RUNNING,
        asset_selection=dg.AssetSelection.assets(*(key for key, _ in found)),
        description="Reports corpora whose corpus.yaml has a fault as failed checks, once a fault.",
    )
    def body(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        faults = text_hash("\0".join(corpus.reason for _, corpus in found))
        if context.cursor == faults:
            return dg.SensorResult(skip_reason=f"{len(found)} faulty corpora were reported already")
        return dg.SensorResult(asset_events=[_evaluation(key, corpus) for key, corpus in found], cursor=faults)

    return dg.Definitions(assets=[_asset(key, corpus) for key, corpus in found], sensors=[body])


def _asset(key: dg.AssetKey, corpus: FaultyCorpus) -> dg.AssetsDefinition:
    @dg.asset(
        key=key,
        group_name=names.FAULTY_GROUP,
        kinds={"yaml"},
        description=(
            f"**The corpus `{corpus.folder.name}` is left out until its corpus.yaml is mended.** Its served snapshot stays "
            f"as it is. Mend the file and reload the code location.\n\n{_listed(corpus.reason)}"
        ),
        metadata={"dagster/uri": str(corpus.folder / "corpus.yaml")},
        check_specs=[
            dg.AssetCheckSpec(
                names.CORPUS_FILE_IS_VALID,
                asset=key,
                description="corpus.yaml has no fault. If it has, mend the file and reload the code location.",
            )
        ],
    )
    def body() -> dg.MaterializeResult:  # type: ignore[type-arg]
        raise dg.Failure(description=corpus.reason, allow_retries=False)

    return body


def _listed(reason: str) -> str:
    """Each fault as a point of a list, whose lines the UI breaks."""
    return "\n".join(f"- {escaped(line)}" for line in reason.splitlines())


def _evaluation(key: dg.AssetKey, corpus: FaultyCorpus) -> dg.AssetCheckEvaluation:
    return dg.AssetCheckEvaluation(
        asset_key=key,
        check_name=names.CORPUS_FILE_IS_VALID,
        passed=False,
        severity=dg.AssetCheckSeverity.ERROR,
        description=escaped(corpus.reason),
    )


def _key(corpus: FaultyCorpus, key_prefix: tuple[str, ...]) -> dg.AssetKey:
    # The name of the folder may be the fault. What keys cannot hold is escaped, so that two folders never share one.
    name = re.sub(r"[^A-Za-z0-9_.-]", lambda letter: f"-{ord(letter.group()):x}-", corpus.folder.name)
    return dg.AssetKey([*key_prefix, name, "corpus_yaml"])
