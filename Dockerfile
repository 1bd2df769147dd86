# syntax=docker/dockerfile:1
# One image for the three services of compose.yaml. Pin the base by digest for a build that can be repeated:
#   docker build --build-arg PYTHON_IMAGE=python:3.11-slim-bookworm@sha256:<digest> .
ARG PYTHON_IMAGE=python:3.11-slim-bookworm

FROM ${PYTHON_IMAGE} AS packages
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
RUN python -m venv /opt/rag-eval
# What changes least comes first: a new line of our own code installs no package again.
# Another file has further packages, such as a run launcher's: docs/how-to/deploy.md.
ARG REQUIREMENTS=requirements/run.txt
COPY ${REQUIREMENTS} /build/run.txt
RUN /opt/rag-eval/bin/pip install --require-hashes -r /build/run.txt
# setuptools builds our wheel, by the hash that the development requirements give, and stays out of the image.
COPY requirements/dev.txt /build/dev.txt
RUN awk '/^[a-z]/ {wanted = /^setuptools==/} wanted' /build/dev.txt > /build/builder.txt \
    && python -m venv /build/builder \
    && /build/builder/bin/pip install --require-hashes -r /build/builder.txt
COPY pyproject.toml README.md LICENSE /build/project/
COPY rag_eval_pipeline /build/project/rag_eval_pipeline
RUN /build/builder/bin/pip wheel --no-deps --no-build-isolation --wheel-dir /build/wheels /build/project \
    && /opt/rag-eval/bin/pip install --no-deps --no-index /build/wheels/*.whl \
    && /opt/rag-eval/bin/pip uninstall --yes --quiet pip setuptools
# A tenth of the packages' size: the test suites of these four, which nothing imports.
RUN cd /opt/rag-eval/lib/python3.*/site-packages \
    && find numpy scipy pandas pyarrow -type d -name tests -prune -exec rm -r {} +

FROM ${PYTHON_IMAGE}
# The list of tools/install_browser.sh, and tini: process 1 that passes signals on and reaps what browsers leave.
# libatomic1 is of the Node.js that drives the browser, libnss3-tools has certutil, for `ca_file`. Without Noto, CJK, Hindi and emoji print as boxes.
RUN apt-get update \
    && DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends \
        chromium-headless-shell \
        fontconfig \
        fonts-liberation \
        fonts-noto-cjk \
        fonts-noto-color-emoji \
        fonts-noto-core \
        libatomic1 \
        libnss3-tools \
        tini \
    && apt-get clean && rm -rf /var/lib/apt/lists/* /var/log/apt /var/log/dpkg.log /var/cache/debconf
# Any user may run it (compose.yaml gives the workspace's owner); this one does when nobody says otherwise.
# A new volume at /instance takes over the folder's mode, so that it need not belong to that user.
RUN useradd --uid 1000 --user-group --no-create-home --home-dir /tmp --shell /usr/sbin/nologin rag-eval \
    && mkdir --mode=1777 /instance /workspace
COPY --from=packages /opt/rag-eval /opt/rag-eval
COPY deploy/health.py deploy/workspace.yaml /opt/rag-eval/deploy/
COPY deploy/celery/worker.yaml /opt/rag-eval/deploy/celery/
COPY dagster.yaml /instance/
# An empty workspace can be begun with them: cp -R /opt/rag-eval/share/data /workspace
COPY data/config /opt/rag-eval/share/data/config
COPY data/sources /opt/rag-eval/share/data/sources

ENV PATH=/opt/rag-eval/bin:$PATH \
    HOME=/tmp \
    LANG=C.UTF-8 \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    PYTHONWARNINGS=ignore::DeprecationWarning \
    DAGSTER_HOME=/instance \
    RAG_EVAL_WORKSPACE=/workspace \
    RAG_EVAL_CODE_HOST=127.0.0.1 \
    RAG_EVAL_CODE_PORT=4000
USER 1000:1000
WORKDIR /workspace
EXPOSE 3000 4000
ENTRYPOINT ["tini", "--"]
CMD ["python", "-m", "rag_eval_pipeline.serving.code_server", "--host", "0.0.0.0", "--port", "4000"]
HEALTHCHECK --interval=30s --timeout=10s --start-period=60s --retries=3 \
    CMD ["python", "/opt/rag-eval/deploy/health.py", "code", "127.0.0.1:4000"]

# Last, because they change with each build.
ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="rag-eval-pipeline" \
    org.opencontainers.image.description="Nightly evaluation of RAG systems, as a Dagster code location" \
    org.opencontainers.image.licenses="Apache-2.0" \
    org.opencontainers.image.version="${VERSION}" \
    org.opencontainers.image.revision="${REVISION}"
