"""Another code location: its asset is made again whenever a refresh has published something new for the handbook.

It needs the base install of rag-pipeline and Dagster, not the corpora: both locations share the Dagster instance and the
data root.
"""

import dagster as dg

from rag_pipeline.query import Index

QUESTIONS = ("how do I roll back?", "what happens when a file cannot be read?")

snapshot = dg.AssetSpec(["handbook", "snapshot"], description="Published by the location `rag_pipeline`.")

new_data = (
    dg.AutomationCondition.any_deps_match(dg.AutomationCondition.data_version_changed()).since_last_handled()
    & ~dg.AutomationCondition.in_progress()
    & ~dg.AutomationCondition.any_deps_missing()
)


@dg.asset(deps=[snapshot], automation_condition=new_data)
def best_pages() -> dg.MaterializeResult:
    """The best page of the handbook for each question that support is asked most."""
    index = Index.open("handbook")
    found = {question: index.search(question, k=1) for question in QUESTIONS}
    pages = {question: hits[0].source for question, hits in found.items() if hits}
    return dg.MaterializeResult(metadata={"snapshot": index.snapshot, **pages})


definitions = dg.Definitions(
    assets=[snapshot, best_pages],
    sensors=[
        dg.AutomationConditionSensorDefinition(
            "react_to_snapshots", target=[best_pages], default_status=dg.DefaultSensorStatus.RUNNING
        )
    ],
)
