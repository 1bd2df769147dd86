"""Download objects of S3, Google Cloud Storage and Azure Blob Storage with pyarrow's file systems.

They run in a child process, this module as a program, whose only way out is the egress proxy. Credentials come from
environment variables and from nowhere else: no file in a home folder is read, and no cloud's metadata service is asked.
"""

import asyncio
import datetime as dt
import json
import os
import re
import ssl
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pyarrow.fs

from rag_eval_pipeline.errors import DocumentError, InputError
from rag_eval_pipeline.sources.source_spec import STORAGE_VARIABLES
from rag_eval_pipeline.storage.process import run_module
from rag_eval_pipeline.web.egress_proxy import EgressProxy
from rag_eval_pipeline.web.fetcher import Progress
from rag_eval_pipeline.web.tls import tls_context

DEADLINE_S = 86_400.0  # for 2 GiB; the egress proxy ends a connection that stands still
Access = tuple[str, dict[str, Any], str]
CHUNK_BYTES = 8 << 20  # a request each

_PATH = re.compile(r"[a-z0-9$][a-z0-9._-]+/[^\x00-\x1f\x7f?]*[^\x00-\x1f\x7f?/]")
_SECRETS = re.compile(r"(?<=//)[^/]*@|(?<=\?).*", re.DOTALL)
_ELSEWHERE = re.compile(r"HTTP status (?:301|400)\b|PERMANENT_REDIRECT|HEADER_MALFORMED")
_ABSENT = re.compile(r"NO_SUCH|NOT_FOUND|No such file")
_DENIED = re.compile(r"ACCESS_DENIED|INVALID_ACCESS|SIGNATURE|PERMISSION|UNAUTHENT|uthenti|uthoriz|\b40[13]\b")
_NAME = re.compile(r"AWS Error (\w+)|Status\((\w+)|Azure Error: \[(\w+)\]|\[Errno 28\] ([\w ]+)")


def object_url(url: str) -> str | None:
    """Return the URL of an object with its scheme in lower case; None for another scheme. Keys are not percent-encoded.

    Raises:
        InputError: `bad_url` for credentials, a query, and a URL of no object; what may be a secret is not shown.
    """
    scheme, path = url.partition("://")[0].lower(), url.partition("://")[2]
    if scheme not in STORAGE_VARIABLES:
        return None
    if not _PATH.fullmatch(path):
        hint = f"Credentials are read from the environment: {STORAGE_VARIABLES[scheme]}."
        raise InputError("bad_url", _SECRETS.sub("...", url), f"{scheme}://BUCKET/KEY, without credentials", hint=hint)
    return f"{scheme}://{path}"


async def fetch_object(
    url: str, target: Path, proxy: EgressProxy, environ: Mapping[str, str], max_bytes: int, progress: Progress
) -> None:
    """Write the object at a URL of `object_url` to a file; a `DocumentError` is a refusal of the egress proxy."""
    scheme, path = url.split("://", 1)
    kind, options, endpoint = _ACCESS[scheme]({name: value for name, value in environ.items() if value})
    address = proxy.url_for(endpoint)
    authorities = tls_context(proxy.policy.config.ca_file).get_ca_certs(binary_form=True)
    job = {"scheme": scheme, "kind": kind, "path": path, "options": options, "max_bytes": max_bytes}
    with tempfile.TemporaryDirectory(prefix="object-", dir=target.parent) as folder:
        pem, answer = Path(folder, "authorities.pem"), Path(folder, "answer.json")
        pem.write_text("".join(map(ssl.DER_cert_to_PEM_cert, authorities)))
        environment = {
            "OBJECT": json.dumps({**job, "target": str(target.absolute())}),  # not in a file: it has secrets
            "SSL_CERT_FILE": str(pem), "http_proxy": address, "https_proxy": address,
            "GOOGLE_APPLICATION_CREDENTIALS": os.path.abspath(environ.get("GOOGLE_APPLICATION_CREDENTIALS", "")),
            "AWS_EC2_METADATA_DISABLED": "true", "AWS_CONFIG_FILE": os.devnull,
        }  # fmt: skip
        child = asyncio.to_thread(run_module, __name__, Path(folder), deadline_s=DEADLINE_S, environment=environment)
        running = asyncio.create_task(child)
        while not running.done():
            await asyncio.wait({running}, timeout=0.5)
            progress(target.stat().st_size if target.exists() else 0, None)
        found = f"exit code {running.result().code}"
        failure = json.loads(answer.read_text()) if answer.exists() else {"found": found}
    if failure and (refusal := proxy.last_refusal) is not None:
        raise DocumentError(refusal.code, f"{url}: {refusal}")
    if failure:
        facts = {"code": "download_failed", "expected": "an object that can be read", "hint": "Try again later."}
        raise InputError(file=url, **{**facts, **failure})


def _s3(environ: Mapping[str, str]) -> Access:
    """Return the class and the options of the file system, and the URL of a server other than the cloud's own."""
    key, secret = environ.get("AWS_ACCESS_KEY_ID"), environ.get("AWS_SECRET_ACCESS_KEY")
    region = environ.get("AWS_REGION") or environ.get("AWS_DEFAULT_REGION") or "us-east-1"
    override, endpoint = _override(environ.get("AWS_ENDPOINT_URL_S3") or environ.get("AWS_ENDPOINT_URL"))
    keys = {"access_key": key, "secret_key": secret, "session_token": environ.get("AWS_SESSION_TOKEN")}
    return "S3FileSystem", {**keys, "anonymous": not (key or secret), "region": region, **override}, endpoint


def _gs(environ: Mapping[str, str]) -> Access:
    override, endpoint = _override(environ.get("STORAGE_EMULATOR_HOST"))
    return "GcsFileSystem", {"anonymous": "GOOGLE_APPLICATION_CREDENTIALS" not in environ, **override}, endpoint


def _az(environ: Mapping[str, str]) -> Access:
    pairs = (part.partition("=") for part in environ.get("AZURE_STORAGE_CONNECTION_STRING", "").split(";"))
    stated = {name: value for name, _, value in pairs}
    account, key, sas = map(stated.get, ("AccountName", "AccountKey", "SharedAccessSignature"))
    if not account or not (key or sas):
        hint = "Set it where the command or the server is started."
        raise InputError("missing_variable", "az://", f"in the environment {STORAGE_VARIABLES['az']}", hint=hint)
    default = f"https://{account}.blob.{stated.get('EndpointSuffix', 'core.windows.net')}"
    override, endpoint = _override(stated.get("BlobEndpoint") or default)
    blob = override["endpoint_override"].removeprefix(account)
    options = {"account_name": account, "account_key": key, "sas_token": sas, "blob_storage_authority": blob}
    return "AzureFileSystem", options, endpoint


_ACCESS = {"s3": _s3, "gs": _gs, "az": _az}


def _override(endpoint: str | None) -> tuple[dict[str, str], str]:
    parts = urlsplit(f"http://{endpoint}" if endpoint and "://" not in endpoint else endpoint or "")
    return {"scheme": parts.scheme, "endpoint_override": parts.netloc} if endpoint else {}, parts.geturl()


def _read(job: Mapping[str, Any]) -> dict[str, str]:
    """Copy an object into a file; return facts for an `InputError`, none if all went well and never a secret."""
    scheme, options = job["scheme"], job["options"]
    if scheme == "s3":
        options["proxy_options"] = os.environ["https_proxy"]
    elif scheme == "gs":
        options["retry_time_limit"] = dt.timedelta(seconds=10)
    try:
        return _copy(getattr(pyarrow.fs, job["kind"])(**options), job)
    except (OSError, ValueError, pyarrow.ArrowException) as error:
        text = str(error).replace(job["path"].partition("/")[2], "")
    if _ELSEWHERE.search(text):
        hint = f"Set AWS_REGION to the bucket's region (now {options.get('region')}), or renew AWS_SESSION_TOKEN."
        return {"expected": "a bucket in the region of AWS_REGION", "found": "another region", "hint": hint}
    if _ABSENT.search(text):
        return {"expected": "an object that exists", "found": "none", "hint": "Check bucket and key."}
    if _DENIED.search(text):
        todo = "Set" if options.get("anonymous") else "Check"
        hint = f"{todo} {STORAGE_VARIABLES[scheme]} where the command or the server is started."
        return {"expected": "credentials that may read the object", "found": "access denied", "hint": hint}
    named = _NAME.search(text)
    found = next(filter(None, named.groups()), "no answer") if named else "no answer"
    return {"found": found, "hint": f"Check {STORAGE_VARIABLES[scheme]}, or try again later."}


def _copy(system: pyarrow.fs.FileSystem, job: Mapping[str, Any]) -> dict[str, str]:
    limit, done = job["max_bytes"], 0
    with system.open_input_file(job["path"]) as source, open(job["target"], "wb") as target:
        size = source.size()
        if size > limit:
            expected, hint = f"at most {limit:,} bytes", "If it can be trusted, download it by hand and name it."
            return {"code": "body_too_large", "expected": expected, "found": f"{size:,}", "hint": hint}
        while done < size and (chunk := source.read(min(CHUNK_BYTES, size - done))):
            done += target.write(chunk)
    return {} if done == size else {"expected": f"{size:,} bytes", "found": f"{done:,}"}


if __name__ == "__main__":
    Path(sys.argv[1], "answer.json").write_text(json.dumps(_read(json.loads(os.environ["OBJECT"]))))
