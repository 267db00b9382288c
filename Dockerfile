FROM python:3.12-slim

WORKDIR /opt/sundae
COPY constraints.txt ./

# The usual torch for Linux brings CUDA along, several gigabytes of it.  Where there is no GPU, a CPU-only torch of the
# same version may be installed first: docker build --build-arg TORCH_INDEX=<address of an index of such wheels> .
ARG TORCH_INDEX=""
RUN if [ -n "$TORCH_INDEX" ]; then \
        pip install --no-cache-dir --no-deps --index-url "$TORCH_INDEX" -c constraints.txt torch; \
    fi

COPY pyproject.toml README.md LICENSE ./
COPY src src
RUN pip install --no-cache-dir -c constraints.txt .

RUN useradd --create-home sundae
USER sundae
WORKDIR /home/sundae

ENTRYPOINT ["sundae"]
CMD ["--help"]
