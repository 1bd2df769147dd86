"""Requests without TLS, which costs httpx 30 ms a request to get ready for."""

import ssl
from functools import partial

import httpx

NO_AUTHORITIES = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)

get = partial(httpx.get, verify=NO_AUTHORITIES)
post = partial(httpx.post, verify=NO_AUTHORITIES)
request = partial(httpx.request, verify=NO_AUTHORITIES)
stream = partial(httpx.stream, verify=NO_AUTHORITIES)
Client = partial(httpx.Client, verify=NO_AUTHORITIES)
