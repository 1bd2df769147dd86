"""A licence is named when its file's first lines are those of a known one, and only then."""

import pytest

from rag_eval_pipeline.proposal.licences import spdx_identifier

KNOWN = {
    "MIT":                     ("MIT License\n\nCopyright (c) 2023 docugami\n",                      "MIT"),
    "Apache, over two lines":  ("   Apache License\n   Version 2.0, January 2004\n",                 "Apache-2.0"),
    "BSD":                     ("BSD 3-Clause License\n\nCopyright",                                 "BSD-3-Clause"),
    "stated":                  ("SPDX-License-Identifier: ODbL-1.0\n",                               "ODbL-1.0"),
    "CC in words":             ("Creative Commons Attribution-ShareAlike 4.0 International\n",       "CC-BY-SA-4.0"),
    "CC in words, legal code": ("Attribution-NonCommercial-ShareAlike 4.0 International\n\n====",     "CC-BY-NC-SA-4.0"),
    "CC in letters":           ("This data is under CC BY 4.0.\n",                                   "CC-BY-4.0"),
    "CC zero":                 ("CC0 1.0 Universal\n",                                               "CC0-1.0"),
    "CC without version":      ("Creative Commons Attribution\n",                                    None),
    "terms of one's own":      ("Terms of use\nYou may not.\n",                                      None),
    "named far below":         ("Terms of use\n" + "word " * 60 + "MIT License",                     None),
    "empty":                   ("",                                                                  None),
}  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), KNOWN.values(), ids=KNOWN)
def test_identifier(text, expected):
    assert spdx_identifier(text) == expected
