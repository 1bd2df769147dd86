"""An endpoint's settings say where and how hard; a secret has no place in them."""

import pydantic
import pytest

from rag_eval_pipeline.web.settings import EndpointSettings

BAD = {
    "no URL": {"base_url": "host:8081"},
    "another scheme": {"base_url": "file:///etc/passwd"},
    "no host": {"base_url": "http:///v1"},
    "a port that is none": {"base_url": "http://h:99999"},
    "a user in the URL": {"base_url": "http://u:p@h/v1"},
    "a key in the URL": {"base_url": "http://h/v1?key=abc"},
    "a fragment": {"base_url": "http://h/v1#a"},
    "a line break": {"base_url": "http://h/v1\nX"},
    "a key instead of a variable": {"api_key_env": "sk-abc"},
    "a key instead of a header's variable": {"headers_env": {"api-key": "sk-abc"}},
    "a header that is none": {"headers_env": {"api key": "KEY"}},
    "a header that frames the request": {"headers_env": {"Content-Length": "KEY"}},
    "no requests at all": {"in_flight": 0},
    "a rate of nothing": {"requests_per_minute": 0},
    "an unknown key": {"api_key": "x"},
}


@pytest.mark.parametrize("given", BAD.values(), ids=BAD)
def test_bad_settings(given):
    with pytest.raises(pydantic.ValidationError) as raised:
        EndpointSettings.model_validate({"base_url": "http://h", **given})

    assert raised.value.errors()[0]["loc"][0] in given
    assert "sk-abc" not in str(raised.value)


@pytest.mark.parametrize("name", [name for name in BAD if "key" in name and name != "an unknown key"])
def test_what_may_be_a_secret_is_marked_so_that_nobody_quotes_it(name):
    with pytest.raises(pydantic.ValidationError) as raised:
        EndpointSettings.model_validate({"base_url": "http://h", **BAD[name]})

    assert raised.value.errors()[0]["type"] == "misplaced_secret"


@pytest.mark.parametrize("url", ["http://h", "https://rag.example.com:8443/a/v1/", "http://[::1]:8081/v1"])
def test_good_urls(url):
    assert EndpointSettings(base_url=url).base_url == url.rstrip("/")
