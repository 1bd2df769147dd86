"""What is fuzzed: each parser with seeds of its own, and what must hold of any input.

What a parser makes of what it reads is stated by the properties beside its other tests.
"""

from tests.faults.fuzzing.formats import FORMATS
from tests.faults.fuzzing.replies import REPLIES
from tests.faults.fuzzing.sources import SOURCES
from tests.faults.fuzzing.workspace_files import WORKSPACE_FILES

PARSERS = {**SOURCES, **FORMATS, **WORKSPACE_FILES, **REPLIES}
