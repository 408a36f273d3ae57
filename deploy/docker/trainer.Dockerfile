# An agent and the library inside its workers; nothing of Kubernetes. Yours adds your script to it.
#
#     docker build -f deploy/docker/trainer.Dockerfile -t everstep/trainer:0.1.0 .
#
# TORCH says where pip finds builds of torch: this one runs on processors alone, a cluster's is the
# one for its CUDA. A site pins the base further, by its digest: --build-arg PYTHON=python@sha256:...
ARG PYTHON=python:3.11.13-slim-bookworm

FROM ${PYTHON} AS build
ARG TORCH=https://download.pytorch.org/whl/cpu
WORKDIR /src
RUN python -m venv /opt/everstep
ENV PATH=/opt/everstep/bin:$PATH
COPY constraints.txt ./
RUN pip install --no-cache-dir --constraint constraints.txt hatchling
RUN pip install --no-cache-dir --constraint constraints.txt --extra-index-url "${TORCH}" torch
COPY pyproject.toml README.md LICENSE ./
COPY libs libs
COPY services services
COPY trainer trainer
RUN pip wheel --no-build-isolation --no-deps --wheel-dir /wheels .
RUN pip install --no-cache-dir --constraint constraints.txt "$(echo /wheels/*.whl)[trainer]"
RUN pip uninstall --yes hatchling && ! python -c "import kubernetes"

FROM ${PYTHON}
ENV PATH=/opt/everstep/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
COPY --from=build /opt/everstep /opt/everstep
COPY trainer/examples /opt/everstep/examples
RUN install -d -o 65532 -g 65532 /etc/everstep /checkpoints
USER 65532:65532
CMD ["everstep", "--help"]
