"""Names that people see in the Dagster UI and that other code selects by: each is written down once, here."""

DOCUMENTS = "documents"
CHUNKS = "chunks"
EMBEDDINGS = "embeddings"
VECTOR_TABLE = "vector_table"
BM25_INDEX = "bm25_index"
EVALUATION = "evaluation"
SNAPSHOT = "snapshot"
STAGES = (DOCUMENTS, CHUNKS, EMBEDDINGS, VECTOR_TABLE, BM25_INDEX, EVALUATION, SNAPSHOT)

DOCUMENTS_READABLE = "documents_readable"
VECTOR_ROWS_MATCH_CHUNKS = "vector_rows_match_chunks"
VECTORS_ARE_SOUND = "vectors_are_sound"
BM25_ROWS_MATCH_CHUNKS = "bm25_rows_match_chunks"
EVALUATION_GATES = "evaluation_gates"
EVALUATION_NO_STEP_BACK = "evaluation_no_step_back"

CORPUS_TAG = "corpus"
"""Tag of every run of a corpus; dagster.yaml limits it to one run at a time for each value."""

HOST_TAG = "rag_pipeline/host"
PROCESS_TAG = "rag_pipeline/process"
"""Tags of runs: the processes that work on them, and where."""

DEAD_RUNS_SENSOR = "dead_runs"
ALERT_SENSOR = "alert_on_failed_run"
PURGE_JOB = "purge_old_runs"
PURGE_SCHEDULE = "purge_old_runs_schedule"

SETTINGS_RESOURCE = "refresh_settings"


def pool_name(provider: str) -> str | None:
    """The Dagster pool in which corpora share an embedding provider's limit; None where there is nothing to share."""
    return None if provider in ("static", "hash") else f"embedding_{provider.replace('-', '_')}"


def job_name(corpus: str) -> str:
    return f"refresh_{corpus}"


def schedule_name(corpus: str) -> str:
    return f"refresh_{corpus}_schedule"
