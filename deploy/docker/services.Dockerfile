# The services and the `everstep` command; no torch. EXTRA=local adds the simulated cluster.
#
#     docker build -f deploy/docker/services.Dockerfile -t everstep/services:0.1.0 .
#
# A site pins the base further, by its digest: --build-arg PYTHON=python@sha256:...
ARG PYTHON=python:3.11.13-slim-bookworm

FROM ${PYTHON} AS build
ARG EXTRA=services
WORKDIR /src
RUN python -m venv /opt/everstep
ENV PATH=/opt/everstep/bin:$PATH
COPY constraints.txt ./
RUN pip install --no-cache-dir --constraint constraints.txt hatchling
COPY pyproject.toml README.md LICENSE ./
COPY libs libs
COPY services services
COPY trainer trainer
RUN pip wheel --no-build-isolation --no-deps --wheel-dir /wheels .
RUN pip install --no-cache-dir --constraint constraints.txt "$(echo /wheels/*.whl)[services,${EXTRA}]"
RUN pip uninstall --yes hatchling && ! python -c "import torch"

FROM ${PYTHON}
ENV PATH=/opt/everstep/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
COPY --from=build /opt/everstep /opt/everstep
# Volumes that are new take these owners.
RUN install -d -o 65532 -g 65532 /etc/everstep /var/lib/everstep /checkpoints /cluster
USER 65532:65532
CMD ["everstep", "--help"]
