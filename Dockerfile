# The course on a CPU: docker build -t causalnb . && docker run --rm -p 8888:8888 -v "$PWD/work:/course/work" causalnb
FROM python:3.11-slim-bookworm
RUN apt-get update && apt-get install -y --no-install-recommends git make && rm -rf /var/lib/apt/lists/* \
    && useradd --create-home student && mkdir -p /course/work && chown -R student /course
USER student
WORKDIR /course
# torch's wheels without CUDA, a tenth of the size
ENV PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu PIP_NO_CACHE_DIR=1
COPY --chown=student . .
RUN make setup
EXPOSE 8888
CMD [".venv/bin/python", "-m", "causalnb", "lab", "--", "--ip=0.0.0.0", "--no-browser"]
