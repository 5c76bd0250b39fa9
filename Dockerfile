# docker build -t sat . && docker run -p 127.0.0.1:8000:8000 -e SAT_TOKEN=secret sat
FROM python:3.13-slim
WORKDIR /app
COPY . .
RUN pip install --no-cache-dir --constraint requirements.lock ".[serve]" && useradd --no-create-home --uid 1000 sat
USER 1000
EXPOSE 8000
HEALTHCHECK --start-period=20s CMD ["python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:8000/healthz', timeout=5)"]
CMD ["sat", "serve", "--host", "0.0.0.0"]
