r"""A mock of the servers that this project evaluates, for trials and tests on one machine.

    python -m examples.mock_server --port 8080 --corpus corpus/skarn-railway

One port serves these interfaces:

- `/openai/v1`: OpenAI chat completions, streamed or whole, with JSON schemas and several models; requests that OpenAI
  refuses are refused with its errors
- `/rag/v1` and `/ingestor/v1`: NVIDIA's RAG server and ingestor; `/v1` has both
- `/ask`: a plain JSON endpoint, `{"question": "..."}` -> `{"result": {"text": "...", "sources": [...]}}`
- `/control`: the number of requests by path and by question; `POST /control/reset` sets them to zero, and replaces the
  faults if it has a script

With `--rag-port` and `--ingestor-port`, NVIDIA's servers are also at `/v1` of ports of their own, as in a deployment,
for clients that know no prefix, such as NVIDIA's `evaluate_rag.py`.

Answers are found in the uploaded documents by the embedded BM25 system, or follow from the question's hash with
`--canned`. A question that contains `[[fault http_503 after=1]]` fails in that way, `--faults 0.1` lets one attempt in
ten fail, and `--faults '{"paths": {"POST /ingestor/v1/documents": ["reset"]}}'` scripts the requests of a path. Which
attempts fail depends only on the seed, the question and the number of the attempt, never on the order of requests.

Starlette and uvicorn are installed with dagster-webserver.

Source: NVIDIA RAG Blueprint, OpenAPI schemas of the RAG server and of the ingestor.
"""
