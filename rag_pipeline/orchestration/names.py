"""Names that people see in the Dagster UI and that other code selects by: each is written down once, here."""

SOURCE = "source"
"""The external asset before the stages."""
DOCUMENTS = "documents"
CHUNKS = "chunks"
EMBEDDINGS = "embeddings"
VECTOR_TABLE = "vector_table"
BM25_INDEX = "bm25_index"
EVALUATION = "evaluation"
SNAPSHOT = "snapshot"
STAGES = (DOCUMENTS, CHUNKS, EMBEDDINGS, VECTOR_TABLE, BM25_INDEX, EVALUATION, SNAPSHOT)

DOCUMENTS_READABLE = "documents_readable"
NOTHING_LOST = "nothing_lost"
EVERY_TEXT_EMBEDDED = "every_text_embedded"
VECTOR_ROWS_MATCH_CHUNKS = "vector_rows_match_chunks"
VECTORS_ARE_SOUND = "vectors_are_sound"
VECTORS_HAVE_ONE_IDENTITY = "vectors_have_one_identity"
BM25_ROWS_MATCH_CHUNKS = "bm25_rows_match_chunks"
EVALUATION_GATES = "evaluation_gates"
EVALUATION_NO_STEP_BACK = "evaluation_no_step_back"
REFRESH_COSTS_THE_CHANGE = "refresh_costs_the_change"
SNAPSHOT_IS_WHOLE = "snapshot_is_whole"
CORPUS_FILE_IS_VALID = "corpus_file_is_valid"

CORPUS_TAG = "corpus"
"""Tag of every run of a corpus; dagster.yaml limits it to one run at a time for each value."""
GROUP_TAG = "group"
"""Tag of runs and assets of corpora whose corpus.yaml names a group."""
ASKED_BY_TAG = "rag_pipeline/asked_by"
"""Tag of runs that a run for a whole group has asked for: its id."""
TRIGGER_TAG = "rag_pipeline/trigger"

HOST_TAG = "rag_pipeline/host"
PROCESS_TAG = "rag_pipeline/process"
"""Tags of runs: the processes that work on them, and where."""

DEAD_RUNS_SENSOR = "dead_runs"
ALERT_SENSOR = "alert_on_failed_run"
PURGE_JOB = "purge_old_runs"
PURGE_SCHEDULE = "purge_old_runs_schedule"

SETTINGS_RESOURCE = "refresh_settings"

ALL_CORPORA_JOB = "refresh_all_corpora"
GROUPS_SENSOR = "refresh_groups"
CHANGES_SENSOR = "refresh_changed_sources"
FAULTS_SENSOR = "report_faulty_corpora"
FAULTY_GROUP = "faulty_corpora"


def pool_name(provider: str) -> str | None:
    """The Dagster pool in which corpora share an embedding provider's limit; None where there is nothing to share."""
    return None if provider in ("static", "hash") else f"embedding_{provider.replace('-', '_')}"


def job_name(corpus: str) -> str:
    return f"refresh_{corpus}"


def schedule_name(corpus: str) -> str:
    return f"refresh_{corpus}_schedule"


def group_job_name(group: str) -> str:
    return f"refresh_group_{group}"


def run_tags(corpus: str, group: str | None) -> dict[str, str]:
    """The tags of every run and asset of a corpus."""
    return {CORPUS_TAG: corpus} | ({GROUP_TAG: group} if group is not None else {})
