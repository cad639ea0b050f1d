# One image for code server, web UI and daemon; compose.yaml starts it three times.
# What pip installs is fixed by constraints.txt. For a base image that never changes, add its digest to the tag.
ARG PYTHON=3.12.12-slim-bookworm

FROM python:${PYTHON} AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
RUN python -m venv /opt/rag_pipeline
WORKDIR /build
COPY pyproject.toml README.md LICENSE constraints.txt ./
COPY rag_pipeline rag_pipeline
ARG EXTRAS=pipeline,litellm,postgres
RUN /opt/rag_pipeline/bin/pip install --constraint constraints.txt ".[${EXTRAS}]"

FROM python:${PYTHON}
# A number of its own, so that volumes and bind mounts can be given to it: chown 10001:10001.
RUN groupadd --gid 10001 rag && useradd --uid 10001 --gid rag --no-create-home --home-dir /srv/rag rag \
    && mkdir -p /srv/rag/dagster /srv/rag/data /srv/rag/corpora /srv/rag/compute_logs \
    && chown -R rag:rag /srv/rag
COPY --from=build /opt/rag_pipeline /opt/rag_pipeline
COPY --chown=rag:rag dagster.prod.yaml /srv/rag/dagster/dagster.yaml
COPY --chown=rag:rag workspace.prod.yaml /srv/rag/workspace.yaml
ENV PATH=/opt/rag_pipeline/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    DAGSTER_HOME=/srv/rag/dagster \
    DAGSTER_COMPUTE_LOGS=/srv/rag/compute_logs \
    RAG_PIPELINE_CORPORA=/srv/rag/corpora \
    RAG_PIPELINE_DATA=/srv/rag/data
USER 10001:10001
WORKDIR /srv/rag
EXPOSE 4000
HEALTHCHECK --interval=15s --timeout=20s --start-period=60s --retries=4 \
    CMD ["dagster", "api", "grpc-health-check", "--host", "127.0.0.1", "--port", "4000"]
CMD ["dagster", "code-server", "start", "--host", "0.0.0.0", "--port", "4000", "--module-name", "rag_pipeline.definitions", "--location-name", "rag_pipeline"]
